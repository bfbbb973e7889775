"""The start of a request: it is checked, and gets its PSNs (section 9.7.3). A REFUSED one ends with its status when all
before it have ended."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.pieces import LOCAL_READ, LOCAL_WRITE, allows, length_of
from fanin_nic.transport.records.accessors import sges_of_send
from fanin_nic.transport.records.psn import packets_of, psn_after
from fanin_nic.transport.records.tables import RequestState
from fanin_wire.abi import MAX_INLINE_DATA, MAX_SGE
from fanin_wire.rocev2 import ATOMIC_BYTES, MAX_MESSAGE, Transport
from fanin_wire.verbs import CompletionStatus, RequestOpcode, SendFlag

STARTED, REFUSED = int(RequestState.STARTED), int(RequestState.REFUSED)
RC, UC, UD = int(Transport.RC), int(Transport.UC), int(Transport.UD)
WRITE, WRITE_WITH_IMM = int(RequestOpcode.RDMA_WRITE), int(RequestOpcode.RDMA_WRITE_WITH_IMM)
SEND, SEND_WITH_IMM = int(RequestOpcode.SEND), int(RequestOpcode.SEND_WITH_IMM)
READ, SEND_WITH_INV = int(RequestOpcode.RDMA_READ), int(RequestOpcode.SEND_WITH_INV)
COMPARE_SWAP, FETCH_ADD = int(RequestOpcode.ATOMIC_CMP_AND_SWP), int(RequestOpcode.ATOMIC_FETCH_AND_ADD)
INLINE = int(SendFlag.INLINE)
SUCCESS, LENGTH_ERROR = int(CompletionStatus.SUCCESS), int(CompletionStatus.LOC_LEN_ERR)
OPERATION_ERROR, PROTECTION_ERROR = int(CompletionStatus.LOC_QP_OP_ERR), int(CompletionStatus.LOC_PROT_ERR)


@internal
def is_atomic(opcode):
    return opcode in (COMPARE_SWAP, FETCH_ADD)


@internal
def is_answered(opcode):
    """Whether a request ends with a response that carries data, not with an acknowledgement."""
    return opcode == READ or is_atomic(opcode)


@internal
def is_supported(q, opcode):
    """Whether a queue pair's service has an operation (section 9.4)."""
    if opcode in (SEND, SEND_WITH_IMM):
        return True
    if opcode in (WRITE, WRITE_WITH_IMM):
        return q.kind != UD
    return q.kind == RC and (opcode == SEND_WITH_INV or (is_answered(opcode) and q.most_reads > 0))


@internal
def message_length(request):
    """Bytes of a request's message."""
    if request.flags & INLINE:
        return int64(request.inline_length)
    return length_of(sges_of_send(request), int64(request.sge_count))


@internal
def check(t, q, request):
    """The status with which a request is refused, or SUCCESS."""
    opcode, length = request.opcode, message_length(request)
    if not is_supported(q, opcode) or request.sge_count > MAX_SGE:
        return OPERATION_ERROR
    if request.flags & INLINE and (is_answered(opcode) or length > MAX_INLINE_DATA):
        return OPERATION_ERROR if is_answered(opcode) else LENGTH_ERROR
    if length > (int64(q.mtu) if q.kind == UD else MAX_MESSAGE) or (is_atomic(opcode) and length != ATOMIC_BYTES):
        return LENGTH_ERROR
    access = LOCAL_WRITE if is_answered(opcode) else LOCAL_READ
    if not request.flags & INLINE and not allows(t, q, sges_of_send(request), int64(request.sge_count), access):
        return PROTECTION_ERROR
    return SUCCESS


@internal
def start(t, q, request):
    """The request gets its PSNs, or is REFUSED."""
    request.status = check(t, q, request)
    if request.status != SUCCESS:
        request.state = REFUSED
        return
    request.length = message_length(request)
    request.first_psn = q.next_psn
    request.packets = packets_of(request.length, q.mtu)
    request.state = STARTED
    if is_answered(request.opcode):
        q.reads += 1


@internal
def end_psn(request):
    """The PSN behind the last one of a request."""
    return psn_after(request.first_psn, request.packets)
