"""The verbs interface: pyverbs' names and habits, and beside them CollectiveWR and CollectiveQP.

    context = Context(socket)                   the device
    pd = PD(context); cq = CQ(context)
    qp = CollectiveQP(pd, cq); qp.join(...)     one send queue of one rank in one job
    mr = MR(pd, length)                         memory that the device maps
    qp.post_send(CollectiveWR(...)); cq.wait(); count, completions = cq.poll(16)

Ordinary RDMA traffic (RC, UC, UD) beside it, with the codes of fanin.verbs.enums:

    mr = MR(pd, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
    qp = QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=cq)); qp.to_rts(QPAttr(dest_qp_num=..., ah_attr=...))
    qp.post_send(SendWR(opcode=IBV_WR_SEND, sg=[SGE(mr.address, length, mr.lkey)]))

Every object is a context manager with an idempotent close(), which closes what was made from it first.
"""

from fanin.verbs.ah import AH
from fanin.verbs.collective_qp import CollectiveQP
from fanin.verbs.collective_wr import Address, CollectiveWR, packed
from fanin.verbs.context import Context
from fanin.verbs.cq import CQ
from fanin.verbs.gid import GID, AHAttr, GlobalRoute
from fanin.verbs.membership import Lease, Membership
from fanin.verbs.mr import MR, PD, SharedMemory
from fanin.verbs.qp import QP, QPAttr, QPCap, QPInitAttr
from fanin.verbs.srq import SRQ, SrqAttr, SrqInitAttr
from fanin.verbs.wc import WC, OrdinaryWC
from fanin.verbs.work_requests import SGE, RecvWR, SendWR

__all__ = [
    "AH",
    "CQ",
    "GID",
    "MR",
    "PD",
    "QP",
    "SGE",
    "SRQ",
    "WC",
    "AHAttr",
    "Address",
    "CollectiveQP",
    "CollectiveWR",
    "Context",
    "GlobalRoute",
    "Lease",
    "Membership",
    "OrdinaryWC",
    "QPAttr",
    "QPCap",
    "QPInitAttr",
    "RecvWR",
    "SendWR",
    "SharedMemory",
    "SrqAttr",
    "SrqInitAttr",
    "packed",
]
