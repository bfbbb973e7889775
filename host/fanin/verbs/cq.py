"""CQ: the completion queue."""

from typing import Any

from fanin.driver import check, ffi, in_slices, library
from fanin.verbs.context import Context
from fanin.verbs.resource import Resource, columns
from fanin.verbs.wc import WC, OrdinaryWC
from fanin_wire.abi import CQ_DEPTH, Status

BATCH = 64
FEWER_QUEUES = "Close communicators and persistent requests that are not needed: each takes queues of the device."


def _completion_of(entry: Any) -> WC | OrdinaryWC:
    ordinary = library().fanin_wc_of(ffi.addressof(entry))
    return OrdinaryWC.of(ordinary) if ordinary else WC.of(entry)


class CQ(Resource):
    """A ring of completions in memory shared with the device."""

    def __init__(self, context: Context) -> None:
        context.require_open()
        self.context = context
        index = ffi.new("uint32_t *")
        status = library().fanin_create_cq(context.handle, index)
        check(status, "can not create a completion queue", NO_RESOURCES=FEWER_QUEUES)
        self.index = int(index[0])
        self.cqe = CQ_DEPTH
        self._entries = ffi.new("struct fanin_cqe[]", BATCH)
        self._count, self._seen = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        super().__init__(context)

    @property
    def seen(self) -> int:
        """Completions taken up to the last poll, mod 2^32."""
        return int(self._seen[0])

    def poll(self, num_entries: int = 1) -> tuple[int, list[Any]]:
        """Up to `num_entries` completions, without waiting: (number, list). One thread at a time. Those of collectives
        are WC, those of ordinary traffic OrdinaryWC.

        When none is left: DeviceLost; CqOverrun: the queue had no room for a completion, so its job was ended, or its
        queue pair is in error.
        """
        self.require_open()
        wanted = min(num_entries, BATCH)
        self._check(
            library().fanin_poll(self.context.handle, self.index, self._entries, wanted, self._count, self._seen)
        )
        count = int(self._count[0])
        return count, [_completion_of(self._entries[i]) for i in range(count)]

    def wait(self, timeout: float | None = None, seen: int | None = None) -> bool:
        """Sleep until there is a completion. False: `timeout` seconds have passed. Errors as of poll.

        `seen`: wait until the device has stored more than so many; for several threads that poll one queue.
        """
        self.require_open()
        taken = self.seen if seen is None else seen
        status = in_slices(lambda ms: library().fanin_wait_cq(self.context.handle, self.index, taken, ms), timeout)
        if status == Status.PENDING:
            return False
        self._check(status)
        return True

    def _check(self, status: int) -> None:
        if status == Status.CQ_OVERRUN:
            check(status, f"completion queue {self.index} of {CQ_DEPTH} entries was full when another completion came")
        elif status:
            how = "stands still" if self.context.device_stands_still else "has ended"
            check(status, f"the device at {self.context.socket_path} {how}")

    def _release(self) -> None:
        status = library().fanin_destroy_cq(self.context.handle, self.index)
        if status != Status.DEVICE_LOST:
            check(status, f"can not destroy completion queue {self.index}")

    def __str__(self) -> str:
        return columns(cq=self.index, cqe=self.cqe, taken=self.seen)
