"""The actions of ordinary traffic, in the order of `transport.records.actions`: memory, packets, completions."""

from numba import int64

from fanin_nic.daemon.loop.action_executor import watch_port
from fanin_nic.daemon.loop.lane_record import WC_SCRATCH
from fanin_nic.daemon.loop.ordinary_memory import change_word, read, write
from fanin_nic.hostif.rings import store, wake
from fanin_nic.native.compiled import compiled
from fanin_nic.native.memory import address_of, copy, fill_zero, full_fence, load_u64, record_at, store_u8
from fanin_nic.native.profile import Stage, lap
from fanin_nic.port.descriptors import PORT
from fanin_nic.port.ordinary import close_frame, drop_frame, flush_frames, open_frame
from fanin_nic.transport import events
from fanin_nic.transport.records.accessors import U64, action_at
from fanin_nic.transport.records.actions import ACTION, ActionKind
from fanin_wire import abi
from fanin_wire.abi import CompletionKind
from fanin_wire.verbs import CompletionStatus

HEADER = U64(ACTION.fields["header"][1])  # type: ignore[index]
WC_SIZE = U64(abi.WC.itemsize)

wc_at = record_at(abi.WC)
port_at = record_at(PORT)


@compiled
def perform(lane, t, now):
    """Perform all actions, and clear the table."""
    count = int64(t.action_count)
    if count == 0:
        return
    change_memory(lane, t, count, now)
    send_packets(lane, t, count, now)
    store_completions(lane, t, int64(t.action_count), now)  # an unreadable packet adds some
    t.action_count = 0


@compiled
def change_memory(lane, t, count, now):
    """WRITEs and atomics, in order."""
    changed = 0
    for index in range(count):
        action = action_at(t, U64(index))
        done = True
        if action.kind == ActionKind.WRITE:
            done = write(lane.memory_fds, action)
        elif action.kind == ActionKind.COMPARE_SWAP or action.kind == ActionKind.FETCH_ADD:
            done = change_word(lane.memory_fds, action, action.kind == ActionKind.FETCH_ADD)
        else:
            continue
        changed = 1
        if not done:
            fail(lane, t, count, int64(action.queue_pair), now)
    if changed:
        lap(lane.profile, Stage.DMA_WRITE)


@compiled
def fail(lane, t, count, queue_pair, now):
    """Process memory can not be changed, or read for the other side: its queue pair ends in error. It sends nothing
    more, and its new completions become failures."""
    lane.dma_errors += U64(1)
    events.fail(lane.transport, queue_pair, now)
    for index in range(count):
        action = action_at(t, U64(index))
        if int64(action.queue_pair) != queue_pair:
            continue
        if action.kind == ActionKind.COMPLETE:
            if action.status == 0:
                action.status = CompletionStatus.LOC_PROT_ERR
        else:
            action.kind = ActionKind.NONE


@compiled
def send_packets(lane, t, count, now):
    """Build the packets, and send them."""
    port = port_at(lane.port)
    port.send_waits = 0  # however often the frames are full
    for index in range(count):
        action = action_at(t, U64(index))
        if action.kind != ActionKind.SEND or put_together(lane, t, port, index):
            continue
        drop_frame(port)
        if action.of_request:
            lane.dma_errors += U64(1)
            events.fail_unreadable(lane.transport, index, now)
        else:
            fail(lane, t, count, int64(action.queue_pair), now)
    if port.frame_messages and flush_frames(port):
        watch_port(lane, now)


@compiled
def put_together(lane, t, port, index):
    """One packet. False: its payload is unreadable."""
    action = action_at(t, U64(index))
    pieces, size = int64(action.pieces), int64(action.header_length)
    for number in range(pieces):
        size += int64(action_at(t, U64(index + number)).length)
    padded = (size + 3) & ~3
    place = open_frame(port, action.destination, padded)
    if place == U64(0):
        return True
    copy(place, address_of(action) + HEADER, U64(action.header_length))
    at = place + U64(action.header_length)
    for number in range(pieces):
        piece = action_at(t, U64(index + number))
        if not read(lane.memory_fds, piece, at):
            return False
        at += U64(piece.length)
    for _ in range(padded - size):
        store_u8(at, 0)
        at += U64(1)
    close_frame(port)
    return True


@compiled
def store_completions(lane, t, count, now):
    """Store the completions, then wake those who wait for them."""
    stored = 0
    for index in range(count):
        action = action_at(t, U64(index))
        if action.kind == ActionKind.COMPLETE and complete(lane, action, now):
            stored = 1
    if not stored:
        return
    full_fence()
    for index in range(count):
        action = action_at(t, U64(index))
        if action.kind == ActionKind.COMPLETE:
            wake_ring(ring_of(lane, action))
    lap(lane.profile, Stage.COMPLETE)


@compiled
def wake_ring(ring):
    """Wake those who wait for a completion ring, unless it is gone."""
    if ring:
        wake(ring)


@compiled
def ring_of(lane, action):
    """Address of the completion ring of a COMPLETE; 0: it is gone."""
    return load_u64(lane.ordinary_completion_rings + U64(action.completion_queue) * U64(8))


@compiled
def complete(lane, action, now):
    """Store a completion. Without room the queue pair ends in error: its program can not know what happened."""
    ring = ring_of(lane, action)
    if not ring:
        return False
    address = address_of(lane) + WC_SCRATCH
    fill_zero(address, WC_SIZE)
    wc = wc_at(address)
    wc.wr_id = action.wr_id
    wc.byte_length = action.byte_length
    wc.immediate = action.immediate
    wc.source_qpn = action.source_qpn
    wc.source = action.source
    wc.qpn = action.qpn
    wc.unsolicited = action.solicited == 0
    wc.status = action.status
    wc.opcode = action.opcode
    wc.flags = action.flags
    wc.kind = CompletionKind.ORDINARY
    if not store(ring, address):
        lane.cq_overflows += U64(1)
        events.fail(lane.transport, int64(action.queue_pair), now)
    return True
