"""Completions: each signalled request gets exactly one, in the order of its queue."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.output.action_table import append
from fanin_nic.transport.records.accessors import U64, action_at, count
from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.tables import Counter
from fanin_wire.verbs import CompletionOpcode, RequestOpcode, SendFlag


@internal
def completion_opcode(opcode):
    """Completion opcode of a request to send."""
    if opcode in (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM):
        return CompletionOpcode.RDMA_WRITE
    if opcode == RequestOpcode.RDMA_READ:
        return CompletionOpcode.RDMA_READ
    if opcode == RequestOpcode.ATOMIC_CMP_AND_SWP:
        return CompletionOpcode.COMP_SWAP
    return CompletionOpcode.FETCH_ADD if opcode == RequestOpcode.ATOMIC_FETCH_AND_ADD else CompletionOpcode.SEND


@internal
def complete_send(t, q, request, status):
    """A request that is not signalled has a completion only if it failed."""
    if status == 0 and not q.all_signaled and not request.flags & SendFlag.SIGNALED:
        return
    action = action_at(t, U64(append(t, ActionKind.COMPLETE)))
    action.queue_pair = q.index
    action.completion_queue = q.send_cq
    action.qpn = q.qpn
    action.wr_id = request.wr_id
    action.status = status
    action.opcode = completion_opcode(request.opcode)
    action.byte_length = request.length if status == 0 else 0
    count(t, Counter.COMPLETIONS)


@internal
def complete_receive(t, q, request, status, opcode, length):
    """The completion of a receive request; returns its action's number, for what the packet has beside data."""
    index = append(t, ActionKind.COMPLETE)
    action = action_at(t, U64(index))
    action.queue_pair = q.index
    action.completion_queue = q.receive_cq
    action.qpn = q.qpn
    action.wr_id = request.wr_id
    action.status = status
    action.opcode = opcode
    action.byte_length = int64(length) if status == 0 else 0
    count(t, Counter.COMPLETIONS)
    return index
