"""An end of a connection under test: a program on `fanin.verbs`, with a queue pair of a NIC daemon."""

from collections.abc import Sequence

from fanin.verbs import AH, CQ, GID, MR, PD, QP, SGE, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr, RecvWR, SendWR
from fanin_wire.abi import Service as KINDS
from fanin_wire.rocev2 import PATH_MTUS
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, CompletionFlag, QueuePairState, RequestOpcode, SendFlag
from fanin_wire.verbs import Attribute as A
from tests.rdma.ends import (
    ATOMICS,
    ATTRIBUTES,
    MEMORY,
    NAMES,
    OPCODE_NAMES,
    QKEY,
    RIGHTS,
    SECONDS,
    STATUS_NAMES,
    Completion,
    End,
)
from tests.rdma.ends import FANIN_TIMEOUT as TIMEOUT
from tests.transport.rig import PATH

from .network import Daemons


def rights_of(names: Sequence[str]) -> Access:
    rights = Access(0)
    for name in names:
        rights |= Access[name]
    return rights


def route(text: str) -> AHAttr:
    return AHAttr(GlobalRoute(GID(f"::ffff:{text}")))


class Nic:
    """A queue pair and a region of the NIC."""

    name = "fanin"

    def __init__(self, network: Daemons) -> None:
        self.wire = network
        self.text = network.nic.address
        self.context = Context(network.socket)
        self.domain = PD(self.context)
        self.queues = (CQ(self.context), CQ(self.context))
        self.region = MR(self.domain, MEMORY, int(rights_of(RIGHTS)))
        self.start, self.key = self.region.address, self.region.rkey
        self.service = Service.RC
        self.qp: QP

    def close(self) -> None:
        self.context.close()

    def create(self, service: Service) -> None:
        self.service = service
        sends, receives = self.queues
        self.qp = QP(self.domain, QPInitAttr(int(KINDS[service.name]), sends, receives, sq_sig_all=0))
        self.qpn = self.qp.qp_num

    def bring_up(self, peer: End | None, **attributes: int) -> None:
        values = PATH | ATTRIBUTES | TIMEOUT | {A[name]: value for name, value in attributes.items()}
        values[A.PATH_MTU] = PATH_MTUS.index(values[A.PATH_MTU]) + 1
        members = {NAMES.get(each, each.name.lower()): value for each, value in values.items()}
        if peer is not None:
            members |= {"dest_qp_num": peer.qpn, "ah_attr": route(peer.text)}
        self.qp.to_rts(QPAttr(**members))

    def post_receive(self, offset, length, *, wr_id=1, key=None) -> None:
        self.qp.post_recv(RecvWR(wr_id, sg=self._pieces(offset, length, key)))

    def post(
        self,
        opcode,
        offset,
        length,
        *,
        to,
        at=0,
        rkey=None,
        wr_id=1,
        immediate=0,
        compare_add=0,
        swap=0,
        flags=int(SendFlag.SIGNALED),
        key=None,
        qkey=QKEY,
    ) -> None:
        pieces = self._pieces(offset, length, key)
        request = SendWR(wr_id, int(opcode), imm_data=immediate, sg=pieces, send_flags=flags)
        rkey = to.key if rkey is None else rkey
        if opcode in ATOMICS:
            request.set_wr_atomic(rkey, to.start + at, compare_add, swap)
        elif self.service == Service.UD:
            request.set_wr_ud(AH(self.domain, route(to.text)), to.qpn, qkey)
        elif "RDMA" in RequestOpcode(opcode).name:
            request.set_wr_rdma(rkey, to.start + at)
        self.qp.post_send(request)

    def _pieces(self, offset: int, length: int, key: int | None) -> list[SGE]:
        return [SGE(self.start + offset, length, self.region.lkey if key is None else key)] if length else []

    def sent(self, count=1, seconds=SECONDS) -> list[Completion]:
        return self._completions(0, count, seconds)

    def received(self, count=1, seconds=SECONDS) -> list[Completion]:
        return self._completions(1, count, seconds)

    def _completions(self, queue: int, count: int, seconds: float) -> list[Completion]:
        found: list = []
        end = self.wire.now + int(seconds * 1e9)
        while len(found) < count:
            assert self.wire.now < end, f"{len(found)} of {count} completions of queue {queue}: {found}; {self.wire}"
            self.queues[queue].wait(0.5)
            found += self.queues[queue].poll(count - len(found))[1]
        return [
            Completion(
                done.wr_id,
                STATUS_NAMES[done.status],
                OPCODE_NAMES[done.opcode],
                done.byte_len,
                done.imm_data if done.wc_flags & CompletionFlag.WITH_IMM else None,
                done.src_qp,
            )
            for done in found
        ]

    def fill(self, offset: int, data: bytes) -> None:
        if data:
            self.region.write(data, len(data), offset)

    def bytes(self, offset: int, length: int) -> bytes:
        return self.region.read(length, offset) if length else b""

    def state(self) -> str:
        return QueuePairState(self.qp.qp_state).name

    def fail(self) -> None:
        self.qp.modify(QPAttr(qp_state=int(QueuePairState.ERR)), int(A.STATE))

    def register(self, rights: Sequence[str], length: int) -> tuple[int, int]:
        """Register another region. Returns address and key."""
        region = MR(self.domain, length, int(rights_of(rights)))
        return region.address, region.rkey
