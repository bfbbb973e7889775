"""A packet arrives: its headers are parsed, its sender is checked, and its opcode chooses the rule (steps S3 and S403).

Only neighbours are heard, each for the opcodes of its side; the time is noted. In every version the BTH and the first
32 bytes of the CETH mean the same. A device answers a CONFIG of another version with CONFIG_ACK, VERSION_MISMATCH, in
its own version.
"""

from fanin_nic.engine.jobs import leave, membership
from fanin_nic.engine.jobs.abort import abort_above, create_tombstone, send_abort
from fanin_nic.engine.jobs.config import forwards_config
from fanin_nic.engine.jobs.lease import find_job, is_remote_tombstone, next_node
from fanin_nic.engine.jobs.membership import refuse_config, set_missing
from fanin_nic.engine.jobs.missing import (
    abort_lost,
    abort_naming,
    lost_device_in,
    scope_above,
    scope_below,
    scope_from_above,
    scope_from_peer,
)
from fanin_nic.engine.output import on_invitation, packet
from fanin_nic.engine.packets import header_prediction, ring, tree
from fanin_nic.engine.records.accessors import (
    ONE,
    U64,
    ZERO,
    abort,
    bit_of,
    child_at,
    child_index,
    count,
    header_at,
    job_at,
)
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.engine.segments.rto import narrow_missing
from fanin_nic.engine.slots import contributor_class, is_supported
from fanin_nic.native.codec import decode_header
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, load_u8
from fanin_wire.abi import MAX_CHILDREN, ContributorClass, Route, Status
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE, TRANSPORT_SIZE, WAIT_BODY, WIRE_VERSION, Flag, Opcode

WAIT_SIZE = WAIT_BODY.size
LAST_STATUS = int(max(Status))
NAK_INTERVAL = U64(1_000_000)  # ns
FROM_NEXT = (Opcode.CONFIG_ACK, Opcode.LEAVE_ACK, Opcode.ABORT, Opcode.NAK, Opcode.ACK)
FROM_PARENT = (Opcode.CONFIG_ACK, Opcode.LEAVE_ACK, Opcode.ABORT, Opcode.NAK, Opcode.RESULT, Opcode.NEED, Opcode.WAIT)


@internal
def on_packet(e, address, length, source):
    """Event: a packet with a right ICRC. address: of its BTH; length: bytes from there to the ICRC; source: IPv4."""
    if length >= TRANSPORT_SIZE and header_prediction.take_predicted(e, address, length, source):
        return
    if length < 12:
        count(e, Counter.DROP_SHORT)
    elif load_u8(address) < FIRST_OFFLOAD_OPCODE:
        count(e, Counter.ORDINARY_PACKETS)  # step S5: this device has no queue pairs for them
    elif length < TRANSPORT_SIZE:
        count(e, Counter.DROP_SHORT)
    else:
        header = header_at(e, e.actions)  # the spare record behind the table
        decode_header(address, address_of(header))
        if header.version != 0:
            count(e, Counter.DROP_VERSION)
        elif header.ceth_version != WIRE_VERSION:
            on_other_version(e, header, source)
        elif U64(header.length) + U64(header.padcount) != U64(length) - U64(TRANSPORT_SIZE):
            count(e, Counter.DROP_LENGTH)
        elif header.source >= MAX_CHILDREN or header.opcode > Opcode.KEEPALIVE:
            count(e, Counter.DROP_UNKNOWN_OPCODE)
        else:
            count(e, Counter.RX_FIRST + (header.opcode & 15))
            if header.status > LAST_STATUS:  # perhaps of a later version: ranks get a known one
                header.status = Status.ABORTED
            dispatch(e, header, U64(address) + U64(TRANSPORT_SIZE), source)


@internal
def on_other_version(e, header, source):
    """Event: a packet of another version, of whose header only the common part can be understood."""
    is_refusal = header.opcode == Opcode.CONFIG_ACK and header.status == Status.VERSION_MISMATCH
    if is_refusal and is_awaited_answer(e, header, source):
        count(e, Counter.RX_FIRST + (header.opcode & 15))
        job = job_at(e, find_job(e, header.jid) - 1)
        job.peer_version = header.ceth_version
        abort(e, job, Status.VERSION_MISMATCH, 0, ZERO)
        return
    count(e, Counter.DROP_VERSION)
    if header.opcode == Opcode.CONFIG:
        refuse_config(e, header, source, Status.VERSION_MISMATCH, 0)


@internal
def is_awaited_answer(e, header, source):
    """Whether the sender is the device whose CONFIG_ACK a job waits for."""
    found = find_job(e, header.jid)
    if not found:
        return False
    job = job_at(e, found - 1)
    asked = job.next_address if forwards_config(job) else job.parent_address
    return job.key == header.key and job.state == JobState.CONFIGURING and asked == source


@internal
def dispatch(e, header, payload, source):
    """Find the job of a packet and call its handler. CONFIG comes first, because it needs no running job."""
    found = find_job(e, header.jid)
    if header.opcode == Opcode.CONFIG:
        membership.on_config(e, found, header, payload, header.length, source)
    elif not found or job_at(e, found - 1).key != header.key:
        on_unknown_job(e, found, header, source)
    elif job_at(e, found - 1).state == JobState.ABORTED:
        on_ended_job(e, job_at(e, found - 1), header, source)
    elif header.opcode == Opcode.KEEPALIVE:
        on_keepalive(e, job_at(e, found - 1), header, source)
    elif is_from_parent(job_at(e, found - 1), header.opcode, source):
        dispatch_parent(e, job_at(e, found - 1), header, payload)
    elif is_from_next(job_at(e, found - 1), header.opcode, source):
        dispatch_next(e, job_at(e, found - 1), header, payload)
    elif is_from_below(e, job_at(e, found - 1), header, source):
        dispatch_below(e, job_at(e, found - 1), header, payload, source)
    else:
        count(e, Counter.DROP_SENDER)


# The sender


@internal
def is_from_parent(job, opcode, source):
    """Whether a packet is an answer or a result of the device above."""
    if not job.has_parent or source != job.parent_address:
        return False
    return opcode in FROM_PARENT


@internal
def is_from_next(job, opcode, source):
    """Whether a packet is an answer of the next node of a ring."""
    if job.route != Route.RING or source != job.next_address:
        return False
    return opcode in FROM_NEXT


@internal
def is_from_below(e, job, header, source):
    """Whether the sender is the device below (in a ring: the previous node) that the packet names. Notes the time."""
    if job.route == Route.RING:
        if source != job.previous_address or job.node_mask & bit_of(header.source) == ZERO:
            return False
        note_ring_neighbour(e, job, source)
        return True
    if job.node_joined & bit_of(header.source) == ZERO:
        # A member that gives up before its CONFIG comes may say so, which ends the job for all members.
        return header.opcode == Opcode.LEAVE and job.config_mask & bit_of(header.source) != ZERO
    child = child_at(e, child_index(job, header.source))
    if child.address != source:
        return False
    child.heard = e.now
    return True


@internal
def note_ring_neighbour(e, job, source):
    """A ring neighbour was heard; with two nodes it is both next and previous."""
    if source == job.next_address:
        job.heard_next = e.now
    if source == job.previous_address:
        job.heard_previous = e.now


# Packets of the device above, of the next node, and from below


@internal
def dispatch_parent(e, job, header, payload):
    job.heard = e.now
    if header.opcode == Opcode.CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == Opcode.LEAVE_ACK:
        leave.on_leave_ack(e, job, job.parent_address)
    elif header.opcode == Opcode.ABORT:
        on_remote_abort(e, job, header, scope_from_above(job, header))
    elif header.opcode == Opcode.NAK:
        on_remote_restart(e, job, scope_above(job), U64(job.parent_mask), job.parent_address)
    elif is_acceptable(e, job, header):
        dispatch_position(e, job, header, payload)
        if job.rank_left | job.node_left != ZERO:
            leave.progress_leave(e, job)  # this device's LEAVE may only have waited for this RESULT


@internal
def dispatch_position(e, job, header, payload):
    """Handle a packet about a position of a running job."""
    if header.opcode == Opcode.RESULT and header.node_bitmap & bit_of(job.parent_bit) == ZERO:
        count(e, Counter.DROP_NOT_ADDRESSED)
    elif header.opcode == Opcode.RESULT and contributor_class(header.flags) > ContributorClass.ALL:
        count(e, Counter.DROP_UNEXPECTED)
    elif header.opcode == Opcode.RESULT and header.flags & Flag.AHEAD:
        tree.on_result_ahead(e, job, header, payload)
    elif header.opcode == Opcode.RESULT:
        tree.on_result(e, job, header, payload)
    elif header.opcode == Opcode.NEED:
        tree.on_need(e, job, header)
    elif header.length >= WAIT_SIZE:
        tree.on_wait(e, job, header, payload)
    else:
        count(e, Counter.DROP_LENGTH)


@internal
def dispatch_next(e, job, header, payload):
    note_ring_neighbour(e, job, job.next_address)
    if header.opcode == Opcode.CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == Opcode.LEAVE_ACK:
        leave.on_leave_ack(e, job, job.next_address)
    elif header.opcode == Opcode.ABORT:
        on_remote_abort(e, job, header, scope_from_peer(job, header))
    elif header.opcode == Opcode.NAK:
        on_remote_restart(e, job, scope_below(job), next_node(job), job.next_address)
    elif is_acceptable(e, job, header):
        ring.on_ack(e, job, header)
        leave.progress_leave(e, job)  # this node's LEAVE may only have waited for this ACK


@internal
def dispatch_below(e, job, header, payload, source):
    if header.opcode == Opcode.LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == Opcode.ABORT:
        on_remote_abort(e, job, header, scope_from_peer(job, header))
        leave.progress_leave(e, job)
    elif header.opcode == Opcode.NAK:
        if job.route == Route.RING or job.node_left & bit_of(header.source) != ZERO:
            count(e, Counter.DROP_UNEXPECTED)
            return
        on_remote_restart(e, job, scope_below(job), bit_of(header.source), source)
        leave.progress_leave(e, job)
    elif header.opcode == Opcode.QUERY:
        on_query(e, job, header, source)
    elif not is_acceptable(e, job, header):
        return
    elif not is_computable(e, header):
        count(e, Counter.DROP_UNEXPECTED)
    elif job.route == Route.RING:
        dispatch_previous(e, job, header, payload)
    elif header.opcode == Opcode.CONTRIBUTION:
        tree.on_contribution(e, job, header, payload, source)
    elif header.opcode == Opcode.PROBE:
        tree.on_probe(e, job, header, source)
    else:
        count(e, Counter.DROP_UNEXPECTED)


@internal
def dispatch_previous(e, job, header, payload):
    """Handle a packet about a position of a running job."""
    if header.opcode == Opcode.CONTRIBUTION:
        ring.on_contribution(e, job, header, payload)
    elif header.opcode == Opcode.RESULT:
        ring.on_result(e, job, header, payload)
    elif header.opcode == Opcode.PROBE:
        ring.on_probe(e, job, header)
    else:
        count(e, Counter.DROP_UNEXPECTED)


@internal
def on_keepalive(e, job, header, source):
    """Event: KEEPALIVE of a neighbour."""
    if job.has_parent and source == job.parent_address:
        job.heard = e.now
        on_invitation(e, job, header)
    elif job.route == Route.RING and (source == job.next_address or source == job.previous_address):
        note_ring_neighbour(e, job, source)
    elif job.route == Route.RING or not is_from_below(e, job, header, source):
        count(e, Counter.DROP_SENDER)


@internal
def on_query(e, job, header, source):
    answer = header_at(e, packet(e, job, Opcode.STATUS, source))
    answer.source = header.source
    answer.token = header.token
    if job.state < JobState.ACTIVE:
        answer.status = Status.PENDING
        set_missing(job, answer)


@internal
def on_remote_abort(e, job, header, scope):
    """End the job for a reason from another device, naming the missing members as exactly as possible here."""
    job.offered_slots = 0  # the sender's free slots are not known
    scope, missing = narrow_missing(e, job, header.status, scope, U64(header.node_bitmap))
    abort_naming(e, job, header.status, scope, missing, lost_device_in(header))


@internal
def on_remote_restart(e, job, scope, missing, address):
    """A NAK for a running job: its sender, at `address`, was restarted."""
    if job.state == JobState.ACTIVE:
        abort_lost(e, job, scope, missing, address)
    else:
        count(e, Counter.DROP_UNEXPECTED)


@internal
def is_acceptable(e, job, header):
    """Whether a packet about a position is valid for its job; counts why not."""
    if job.state != JobState.ACTIVE and job.state != JobState.LEAVING:
        count(e, Counter.DROP_UNEXPECTED)
        return False
    if not is_in_lease(job, header):
        count(e, Counter.DROP_SLOT)
        return False
    return True


@internal
def is_in_lease(job, header):
    """Whether a packet names the slot that serves its position, and its data fit."""
    return header.seg == U64(header.position) & (U64(job.slots) - ONE) and header.length <= job.chunk


@internal
def is_computable(e, header):
    """Whether the device can compute with a packet's data. Those of a ONE position need no computing; NONE has none."""
    contributors = contributor_class(header.flags)
    if header.flags & Flag.HAS_DATA == 0 or contributors == ContributorClass.ONE:
        return contributors <= ContributorClass.ALL
    return contributors == ContributorClass.ALL and is_supported(e, header.op, header.dtype)


# Packets of jobs that do not run here


@internal
def on_unknown_job(e, found, header, source):
    """A packet of a job or incarnation unknown here. LEAVE is acknowledged: the job has been left."""
    spare = job_at(e, e.jobs)
    spare.jid = header.jid
    spare.key = header.key
    if header.opcode == Opcode.LEAVE:
        leave.acknowledge_leave(e, spare, source, header.source)
        if header.status and not found:
            create_tombstone(e, header, source)
    elif found:
        count(e, Counter.DROP_KEY)
    else:
        send_nak(e, spare, header, source)


@internal
def on_ended_job(e, job, header, source):
    """A packet of an ended job: answer with ABORT, and let its sender leave."""
    if header.opcode == Opcode.LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == Opcode.LEAVE_ACK and source in (job.parent_address, job.next_address):
        leave.on_leave_ack(e, job, source)
    elif is_remote_tombstone(job):  # the sender's place in the job is not known here
        send_nak(e, job, header, source)
    elif may_be_nacked(header.opcode) or header.opcode == Opcode.RESULT or header.opcode == Opcode.ACK:
        if job.has_parent and source == job.parent_address:
            abort_above(e, job)
        else:
            send_abort(e, job, source, header.source)
    else:
        count(e, Counter.DROP_ENDED)


@internal
def send_nak(e, job, header, source):
    """NAK to the sender of a packet of a job that this device takes no part in."""
    count(e, Counter.DROP_UNKNOWN_JOB)
    if may_be_nacked(header.opcode) and not is_invitation(header) and e.now >= e.next_nak:
        e.next_nak = e.now + NAK_INTERVAL
        answer = header_at(e, packet(e, job, Opcode.NAK, source))
        answer.status = Status.NOT_CONFIGURED
        answer.source = header.source


@internal
def may_be_nacked(opcode):
    """Only packets that a running job sends unasked are answered, never an answer."""
    return opcode in (Opcode.CONTRIBUTION, Opcode.PROBE, Opcode.QUERY, Opcode.KEEPALIVE)


@internal
def is_invitation(header):
    """Whether a KEEPALIVE went to a multicast group, so also to devices outside of its job."""
    return header.opcode == Opcode.KEEPALIVE and header.node_bitmap != ZERO
