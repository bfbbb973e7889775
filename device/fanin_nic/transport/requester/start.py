"""The start of a request: it is checked, and gets its PSNs (section 9.7.3). A REFUSED one ends with its status when all
before it have ended."""

from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.memory.pieces import LOCAL_READ, allows, length_of
from fanin_nic.transport.records.accessors import sges_of_send
from fanin_nic.transport.records.psn import packets_of, psn_after
from fanin_nic.transport.records.tables import RequestState
from fanin_wire.abi import MAX_INLINE_DATA, MAX_SGE
from fanin_wire.rocev2 import ATOMIC_BYTES, MAX_MESSAGE, Transport
from fanin_wire.verbs import Access, CompletionStatus, RequestOpcode, SendFlag


@internal
def is_atomic(opcode):
    return opcode in (RequestOpcode.ATOMIC_CMP_AND_SWP, RequestOpcode.ATOMIC_FETCH_AND_ADD)


@internal
def is_answered(opcode):
    """Whether a request ends with a response that carries data, not with an acknowledgement."""
    return opcode == RequestOpcode.RDMA_READ or is_atomic(opcode)


@internal
def is_supported(q, opcode):
    """Whether a queue pair's service has an operation (section 9.4)."""
    if opcode in (RequestOpcode.SEND, RequestOpcode.SEND_WITH_IMM):
        return True
    if opcode in (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM):
        return q.kind != Transport.UD
    return q.kind == Transport.RC and (
        opcode == RequestOpcode.SEND_WITH_INV or (is_answered(opcode) and q.most_reads > 0)
    )


@internal
def message_length(request):
    """Bytes of a request's message."""
    if request.flags & SendFlag.INLINE:
        return int64(request.inline_length)
    return length_of(sges_of_send(request), int64(request.sge_count))


@internal
def check(t, q, request):
    """The status with which a request is refused, or SUCCESS."""
    opcode, length = request.opcode, message_length(request)
    if not is_supported(q, opcode) or request.sge_count > MAX_SGE:
        return CompletionStatus.LOC_QP_OP_ERR
    if request.flags & SendFlag.INLINE and (is_answered(opcode) or length > MAX_INLINE_DATA):
        return CompletionStatus.LOC_QP_OP_ERR if is_answered(opcode) else CompletionStatus.LOC_LEN_ERR
    if length > (int64(q.mtu) if q.kind == Transport.UD else MAX_MESSAGE) or (
        is_atomic(opcode) and length != ATOMIC_BYTES
    ):
        return CompletionStatus.LOC_LEN_ERR
    access = Access.LOCAL_WRITE if is_answered(opcode) else LOCAL_READ
    if not request.flags & SendFlag.INLINE and not allows(
        t, q, sges_of_send(request), int64(request.sge_count), access
    ):
        return CompletionStatus.LOC_PROT_ERR
    return CompletionStatus.SUCCESS


@internal
def start(t, q, request):
    """The request gets its PSNs, or is REFUSED."""
    request.status = check(t, q, request)
    if request.status != CompletionStatus.SUCCESS:
        request.state = RequestState.REFUSED
        return
    request.length = message_length(request)
    request.first_psn = q.next_psn
    request.packets = packets_of(request.length, q.mtu)
    request.state = RequestState.STARTED
    if is_answered(request.opcode):
        q.reads += 1


@internal
def end_psn(request):
    """The PSN behind the last one of a request."""
    return psn_after(request.first_psn, request.packets)
