"""The pieces of memory of a request: their total length, their rights, and a range of them as actions."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.regions import find_region, process_of, translate
from fanin_nic.transport.output.action_table import append
from fanin_nic.transport.output.encapsulate import add_piece
from fanin_nic.transport.records.accessors import U64, action_at, sge_address, sge_at
from fanin_nic.transport.records.actions import ActionKind
from fanin_wire.verbs import Access

LOCAL_READ = 0  # every region allows it


@internal
def length_of(pieces, number):
    total = 0
    for index in range(number):
        total += int64(sge_at(sge_address(pieces, index)).length)
    return total


@internal
def allows(t, q, pieces, number, access):
    """Whether all nonempty pieces are in regions that allow an access."""
    for index in range(number):
        piece = sge_at(sge_address(pieces, index))
        if piece.length and not find_region(t, q, piece.lkey, piece.address, piece.length, access):
            return False
    return True


@internal
def gather(t, q, send, pieces, number, offset, length):
    """Give a SEND the bytes [offset, offset + length) of the pieces as payload, after `allows`."""
    skip, left = int64(offset), int64(length)
    for index in range(number):
        if left == 0:
            break
        piece = sge_at(sge_address(pieces, index))
        size = int64(piece.length)
        if skip >= size:
            skip -= size
            continue
        part, address = min(size - skip, left), piece.address + U64(skip)
        found = find_region(t, q, piece.lkey, address, part, LOCAL_READ)
        if found:
            add_piece(t, send, process_of(t, found), translate(t, found, address), part)
        left -= part
        skip = 0


@internal
def write(t, q, found, address, data, length):
    """Append the write of `length` bytes to an address in the region `found`."""
    action = action_at(t, U64(append(t, ActionKind.WRITE)))
    action.queue_pair = q.index
    action.process = process_of(t, found)
    action.remote = translate(t, found, address)
    action.payload = U64(data)
    action.length = length


@internal
def scatter(t, q, pieces, number, offset, data, length):
    """Write `length` bytes to the pieces, from byte `offset` of them on. False if they are too short or a piece is in
    no writable region; then a part may have been written."""
    skip, left, source = int64(offset), int64(length), U64(data)
    for index in range(number):
        if left == 0:
            break
        piece = sge_at(sge_address(pieces, index))
        size = int64(piece.length)
        if skip >= size:
            skip -= size
            continue
        part, address = min(size - skip, left), piece.address + U64(skip)
        found = find_region(t, q, piece.lkey, address, part, Access.LOCAL_WRITE)
        if not found:
            return False
        write(t, q, found, address, source, part)
        source += U64(part)
        left -= part
        skip = 0
    return left == 0
