"""Atomics: performed once, and answered as often as they are asked for (sections 9.4.5 and 9.7.4). The driver performs
them in the order of the table of actions, and keeps the former values."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, fill_zero
from fanin_nic.transport.memory.regions import find_region, process_of, translate
from fanin_nic.transport.output.action_table import append
from fanin_nic.transport.records.accessors import (
    U64,
    action_at,
    count,
    make_ready,
    original_index,
    original_row,
    response_index,
    response_row,
)
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.psn import psn_after
from fanin_nic.transport.records.tables import Counter, Receiving
from fanin_nic.transport.responder.reads import RESPONSE_SIZE, may_repeat, new_response
from fanin_nic.transport.responder.verdicts import Verdict
from fanin_wire.rocev2 import ATOMIC_BYTES, Operation
from fanin_wire.verbs import MAX_RD_ATOMIC, Access


@internal
def on_atomic(t, q, packet, operation, length):
    """The expected atomic; returns a Verdict."""
    if not int64(q.access) & Access.REMOTE_ATOMIC or q.receiving != Receiving.NOTHING or length:
        return Verdict.INVALID
    if packet.va & U64(ATOMIC_BYTES - 1) or q.response_count >= q.most_responses:
        return Verdict.INVALID
    found = find_region(t, q, packet.rkey, packet.va, ATOMIC_BYTES, Access.REMOTE_ATOMIC)
    if not found:
        return Verdict.ACCESS
    original = original_row(t, original_index(q, q.originals))
    original.psn = packet.psn
    original.is_set = 1
    action = action_at(
        t, U64(append(t, ActionKind.COMPARE_SWAP if operation == Operation.COMPARE_SWAP else ActionKind.FETCH_ADD))
    )
    action.queue_pair = q.index
    action.process = process_of(t, found)
    action.remote = translate(t, found, packet.va)
    action.payload = address_of(original)
    action.operand = packet.swap
    action.compare = packet.compare
    q.originals += 1
    q.msn = psn_after(q.msn, 1)
    add_original(t, q, packet, address_of(original), 0)
    return Verdict.ACCEPTED


@internal
def add_original(t, q, packet, address, is_repetition):
    """Enter the response to an atomic. address: of its ORIGINAL."""
    response = response_row(t, response_index(q, new_response(q, is_repetition)))
    fill_zero(address_of(response), RESPONSE_SIZE)
    response.first_psn = packet.psn
    response.packets = 1
    response.address = address
    response.msn = q.msn
    response.is_atomic = 1
    response.is_repetition = is_repetition
    make_ready(t, q)


@internal
def repeat_atomic(t, q, packet):
    """Answer an atomic that was performed before with its former value."""
    for age in range(1, MAX_RD_ATOMIC + 1):  # the newest first, as PSNs repeat
        original = original_row(t, original_index(q, int64(q.originals) - age))
        if original.is_set and original.psn == packet.psn and may_repeat(q):
            add_original(t, q, packet, address_of(original), 1)
            return
    count(t, Counter.DROP_DUPLICATE)
