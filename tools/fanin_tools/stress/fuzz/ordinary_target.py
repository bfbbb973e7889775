"""Queue pairs of ordinary RDMA traffic on a real device, and hostile packets for them.

The sender knows number, service and next PSN of each queue pair, but no key of memory. So it may end connections, which
are brought up again, but must not change a byte.
"""

from random import Random

import numpy as np

from fanin.errors import InvalidRequest
from fanin.verbs import CQ, GID, MR, PD, QP, AHAttr, Context, GlobalRoute, QPAttr, QPInitAttr
from fanin.verbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QP_STATE,
    IBV_QPS_ERR,
    IBV_QPS_RESET,
    IBV_QPS_RTS,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
)
from fanin_sim.findings import Category
from fanin_sim.hostile.packets import make
from fanin_tools.stress.tally import Tally
from fanin_wire.rocev2 import OPCODES

RIGHTS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC
LENGTH, MARK = 1 << 16, 0x55  # of the memory; each of its bytes
QKEY, PSN = 0x11111111, 1000
ITS_QPN = 0xABCDE  # of the other side, which does not exist
MAX_PAYLOAD = 300  # bytes
OPCODE_NUMBERS = tuple(OPCODES)


class OrdinaryTarget:
    """A client of one NIC. peer: address of the other side."""

    def __init__(self, socket: str, address: str, peer: str, tally: Tally) -> None:
        self.address, self.peer, self._tally = address, peer, tally
        self._context = Context(socket)
        pd, self._cq = PD(self._context), CQ(self._context)
        self._mr = MR(pd, LENGTH, RIGHTS)
        self._data = np.frombuffer(self._mr.buf, np.uint8)
        self._data[:] = MARK
        self._pairs = [QP(pd, QPInitAttr(kind, self._cq, self._cq)) for kind in (IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD)]
        for qp in self._pairs:
            self._bring_up(qp)

    def _bring_up(self, qp: QP) -> None:
        path = AHAttr(GlobalRoute(GID(f"::ffff:{self.peer}")))
        attr = QPAttr(dest_qp_num=ITS_QPN, qp_access_flags=RIGHTS, ah_attr=path, qkey=QKEY, rq_psn=PSN, sq_psn=PSN)
        try:
            qp.to_rts(attr)
        except InvalidRequest:  # a late packet has ended it again: left for the next time
            if qp.qp_state != IBV_QPS_ERR:
                raise

    def packet(self, random: Random) -> bytes:
        """From BTH to padding. Each thing about it may be as the queue pair expects it, or not."""
        number = random.choice(self._pairs).qp_num if random.random() < 0.9 else random.getrandbits(24)
        psn = PSN if random.random() < 0.5 else random.getrandbits(24)
        payload = random.randbytes(random.randrange(MAX_PAYLOAD))
        values = {
            "dqpn": number,
            "psn": psn,
            "ackreq": random.getrandbits(1),
            "va": self._mr.address + random.randrange(-LENGTH, 2 * LENGTH),
            "rkey": self._mr.rkey ^ (1 << random.randrange(32)),
            "dlen": len(payload) if random.random() < 0.5 else random.getrandbits(32),
            "qkey": QKEY ^ (1 << random.randrange(32)),
            "syndrome": random.getrandbits(8),
        }
        data = make(random.choice(OPCODE_NUMBERS), payload, values)
        kind = random.randrange(20)
        if kind == 0:
            return data[: random.randrange(1, len(data))]
        if kind == 1:
            return bytes([random.getrandbits(8)]) + data[1:]
        return data

    def check(self) -> None:
        """Nothing has been written, and no request has ended, since there was none. Bring up again what was ended."""
        if not (self._data == MARK).all():
            self._tally.find(Category.OTHER, f"ordinary packets have changed memory at {self.address}")
        if self._cq.poll(1)[0]:
            self._tally.find(Category.OTHER, f"ordinary packets have made a completion at {self.address}")
        for qp in self._pairs:
            if qp.qp_state != IBV_QPS_RTS:
                qp.modify(QPAttr(qp_state=IBV_QPS_RESET), IBV_QP_STATE)
                self._bring_up(qp)

    def close(self) -> None:
        self._context.close()
