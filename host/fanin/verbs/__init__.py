"""The verbs interface: pyverbs' names and habits, and beside them CollectiveWR and CollectiveQP.

    context = Context(socket)                   the device
    pd = PD(context); cq = CQ(context)
    qp = CollectiveQP(pd, cq); qp.join(...)     one send queue of one rank in one job
    mr = MR(pd, length)                         memory that the device maps
    qp.post_send(CollectiveWR(...)); cq.wait(); count, completions = cq.poll(16)

Every object is a context manager with an idempotent close(), which closes what was made from it first.
"""

from fanin.verbs.address import Address, packed
from fanin.verbs.collective_qp import CollectiveQP
from fanin.verbs.collective_wr import CollectiveWR
from fanin.verbs.context import Context
from fanin.verbs.cq import CQ
from fanin.verbs.membership import Lease, Membership
from fanin.verbs.mr import MR
from fanin.verbs.ordinary import QP, SendWR
from fanin.verbs.pd import PD
from fanin.verbs.sge import SGE
from fanin.verbs.wc import WC

__all__ = [
    "CQ",
    "MR",
    "PD",
    "QP",
    "SGE",
    "WC",
    "Address",
    "CollectiveQP",
    "CollectiveWR",
    "Context",
    "Lease",
    "Membership",
    "SendWR",
    "packed",
]
