"""SRQ: a shared receive queue of ordinary traffic, in pyverbs' habits."""

from dataclasses import dataclass, field

from fanin.driver import check, ffi, library, refused
from fanin.errors import InvalidRequest
from fanin.verbs.mr import PD
from fanin.verbs.resource import Resource, columns
from fanin.verbs.work_requests import RecvWR
from fanin_wire.abi import MAX_SGE, SHARED_DEPTH, Status

FEWER_QUEUES = "Close shared receive queues that are not needed; other programs have theirs from the same device."


@dataclass
class SrqAttr:
    """Limits that a program asks for. The device gives every queue these defaults, and no more. srq_limit: only 0,
    since the device sends no events."""

    max_wr: int = SHARED_DEPTH
    max_sge: int = MAX_SGE
    srq_limit: int = 0


@dataclass
class SrqInitAttr:
    attr: SrqAttr = field(default_factory=SrqAttr)


class SRQ(Resource):
    """A receive queue for queue pairs (QPInitAttr(srq=...)) of the same protection domain.

    A message takes the oldest request; its completion goes to the completion queue of its queue pair. Closing the queue
    closes its queue pairs.
    """

    def __init__(self, pd: PD, init_attr: SrqInitAttr | None = None) -> None:
        pd.require_open()
        wanted = (init_attr or SrqInitAttr()).attr
        most = SrqAttr()
        for name in ("max_wr", "max_sge", "srq_limit"):
            limit = getattr(most, name)
            if not 0 <= getattr(wanted, name) <= limit:
                raise InvalidRequest(f"{name} of {getattr(wanted, name)}", remedy=f"Ask for at most {limit}.")
        self.pd, self.context = pd, pd.context
        index = ffi.new("uint32_t *")
        status = library().fanin_create_shared_queue(self.context.handle, pd.domain, index)
        check(status, f"can not create a shared receive queue{refused(status)}", NO_RESOURCES=FEWER_QUEUES)
        self.index = int(index[0])
        super().__init__(pd)

    def query(self) -> SrqAttr:
        self.require_open()
        return SrqAttr()

    def post_recv(self, wr: RecvWR) -> None:
        """Post a request to receive. QueueFull: no room."""
        self.require_open()
        status = library().fanin_post_shared(self.context.handle, self.index, wr.to_c())
        if status:
            check(status, f"can not post to shared receive queue {self.index}{refused(status)}")

    def _release(self) -> None:
        status = library().fanin_destroy_shared_queue(self.context.handle, self.index)
        if status != Status.DEVICE_LOST:
            check(status, f"can not destroy shared receive queue {self.index}{refused(status)}")

    def __str__(self) -> str:
        return columns(srq=self.index, max_wr=SHARED_DEPTH, max_sge=MAX_SGE)
