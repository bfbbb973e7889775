"""A queue pair of ordinary traffic with its own completion queue and memory, through fanin.verbs."""

import time
from collections import deque

from fanin.verbs import (
    AH,
    CQ,
    GID,
    MR,
    PD,
    QP,
    SGE,
    AHAttr,
    Context,
    GlobalRoute,
    OrdinaryWC,
    QPAttr,
    QPInitAttr,
    RecvWR,
    SendWR,
)
from fanin.verbs.enums import PATH_MTU_BYTES
from fanin_wire.agent import (
    AgentError,
    Answer,
    ConnectQp,
    CreateQp,
    PollCq,
    PostRecv,
    PostSend,
    ReadMr,
    RegMr,
    WriteMr,
    address_of,
    code_of,
)
from fanin_wire.verbs import (
    Access,
    CompletionFlag,
    CompletionOpcode,
    CompletionStatus,
    QueuePairState,
    RequestOpcode,
    SendFlag,
)

EVERYTHING = int(Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC)
BATCH = 16
MTU_CODES = {size: code for code, size in PATH_MTU_BYTES.items()}
ATOMICS = (RequestOpcode.ATOMIC_CMP_AND_SWP, RequestOpcode.ATOMIC_FETCH_AND_ADD)


class QueuePair:
    """The queue pair. socket: control socket of the device."""

    def __init__(self, socket: str, request: CreateQp) -> None:
        service = code_of("service", request.service)
        self.context = Context(socket)
        try:
            self._domain, self._queue = PD(self.context), CQ(self.context)
            self._memory = MR(self._domain, request.memory, EVERYTHING)
            self._unwritable = MR(self._domain, request.memory, 0)
            self._qp = QP(self._domain, QPInitAttr(service, self._queue, sq_sig_all=0))
        except BaseException:
            self.context.close()
            raise
        self._regions: list[MR] = []
        self._completions: deque[OrdinaryWC] = deque()

    def created(self) -> Answer:
        """The members for the other side."""
        return {"qpn": self._qp.qp_num, "address": self._memory.address, "rkey": self._memory.rkey}

    def connect(self, request: ConnectQp) -> Answer:
        """To RTS."""
        if request.mtu not in MTU_CODES:
            raise AgentError("WRONG_REQUEST", f"{request.mtu} is not an MTU: use {', '.join(map(str, MTU_CODES))}")
        rights = sum(code_of("right", name) for name in set(request.rights))
        self._qp.to_rts(
            QPAttr(
                path_mtu=MTU_CODES[request.mtu],
                qkey=request.qkey,
                rq_psn=request.receive_psn,
                sq_psn=request.send_psn,
                dest_qp_num=request.qpn,
                qp_access_flags=rights | int(Access.LOCAL_WRITE),
                ah_attr=_path(request.address) if request.address else None,
                max_rd_atomic=request.reads,
                max_dest_rd_atomic=request.reads,
                min_rnr_timer=request.rnr_timer,
                timeout=request.timeout,
                retry_cnt=request.retries,
                rnr_retry=request.rnr_retries,
            )
        )
        return {}

    def send(self, request: PostSend) -> Answer:
        operation = code_of("operation", request.operation)
        flags = SendFlag.SIGNALED if request.signaled else SendFlag(0)
        flags |= SendFlag.SOLICITED if request.solicited else SendFlag(0)
        flags |= SendFlag.FENCE if request.fence else SendFlag(0)
        piece = [SGE(self._memory.address + request.place, request.length, self._memory.lkey)]
        wr = SendWR(request.wr, operation, 0, request.immediate, piece if request.length else [], int(flags))
        if operation in ATOMICS:
            wr.set_wr_atomic(request.rkey, request.remote, request.compare_add, request.swap)
        else:
            wr.set_wr_rdma(request.rkey, request.remote)
        if request.address:
            wr.set_wr_ud(AH(self._domain, _path(request.address)), request.qpn, request.qkey)
        self._qp.post_send(wr)
        return {}

    def receive(self, request: PostRecv) -> Answer:
        region = self._memory if request.writable else self._unwritable
        piece = [SGE(region.address + request.place, request.length, region.lkey)]
        self._qp.post_recv(RecvWR(request.wr, sg=piece if request.length else []))
        return {}

    def poll(self, request: PollCq) -> Answer:
        end = time.monotonic() + request.seconds
        while not self._completions:
            if not self._queue.wait(max(0.0, end - time.monotonic())):
                return {"status": ""}
            self._completions += self._queue.poll(BATCH)[1]
        done = self._completions.popleft()
        answer: Answer = {"status": CompletionStatus(done.status).name, "wr": done.wr_id}
        answer |= {"operation": CompletionOpcode(done.opcode).name, "byte_length": done.byte_len}
        has_immediate = done.wc_flags & CompletionFlag.WITH_IMM
        return answer | {"immediate": done.imm_data if has_immediate else None, "source_qpn": done.src_qp}

    def register(self, request: RegMr) -> Answer:
        """Register a part of the memory once more."""
        if request.place + request.length > self._memory.length:
            text = f"bytes {request.place} to {request.place + request.length} of a memory of {self._memory.length}"
            raise AgentError("WRONG_REQUEST", text)
        rights = sum(code_of("right", name) for name in set(request.rights))
        address = self._memory.address + request.place
        region = MR(self._domain, request.length, rights | int(Access.LOCAL_WRITE), address)
        self._regions.append(region)
        return {"rkey": region.rkey}

    def store(self, request: WriteMr) -> Answer:
        try:
            data = bytes.fromhex(request.data)
        except ValueError:
            raise AgentError("WRONG_REQUEST", "data is not hexadecimal") from None
        self._memory.write(data, len(data), request.place)
        return {}

    def load(self, request: ReadMr) -> Answer:
        return {"data": self._memory.read(request.length, request.place).hex()}

    def state(self) -> Answer:
        return {"state": QueuePairState(self._qp.qp_state).name}

    def close(self) -> None:
        self.context.close()


def _path(address: str) -> AHAttr:
    return AHAttr(GlobalRoute(GID.of_ipv4(address_of(address))))
