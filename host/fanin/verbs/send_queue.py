"""Send queues of collectives: on queues of libfanin, or on those that the program has made with pyverbs."""

import functools
import re
from pathlib import Path
from typing import Any

import cffi

from fanin import driver
from fanin.driver import check, declarations, library
from fanin.errors import InvalidRequest, NotSupported
from fanin.verbs.cq import CQ, FEWER_QUEUES
from fanin.verbs.mr import PD
from fanin_wire.abi import ABI_VERSION

HEADER_PATH = Path(__file__).parents[1] / "verbs_lib/collectives/fanin_verbs.h"
PRELOAD_IT = "Start the program with LD_PRELOAD=$(fanin verbs-lib), and open a device fanin0, fanin1, ..."
ONE_CONTEXT = "Make both with pyverbs, on one context of a device fanin0, fanin1, ..."
ITS_TEXT = "Use a pyverbs whose text of a CQ has a line `Handle`, as that of rdma-core 44."
ONE_RANK = "Post for one rank, in memory of fanin.verbs.MR or in that of pyverbs' MR with LOCAL_WRITE for the result."

ffi = cffi.FFI()
ffi.include(driver.ffi)
ffi.cdef(declarations(HEADER_PATH))
for _type in ("struct fanin_verbs_qp **", "struct fanin_cqe *"):  # why at import: fanin.driver
    ffi.typeof(_type)


class OwnQueue:
    """On a protection domain and a completion queue of fanin.verbs."""

    def __init__(self, pd: PD, cq: CQ) -> None:
        pd.require_open()
        pd.require_beside(cq)
        self.calls, self._context = library(), pd.context
        index = driver.ffi.new("uint32_t *")
        status = library().fanin_create_qp(self.handle, cq.index, index)
        check(status, "can not create a queue pair", NO_RESOURCES=FEWER_QUEUES)
        self.number = int(index[0])
        self.cq_name = str(cq.index)

    @property
    def handle(self) -> Any:
        return self._context.handle

    def localize(self, wqe: Any) -> None:
        """Nothing to do: the keys are the device's already."""

    def destroy(self) -> int:
        return int(library().fanin_destroy_qp(self.handle, self.number))


class PyverbsQueue:
    """On a PD and a CQ of pyverbs, of a device of the preloaded verbs library."""

    def __init__(self, pd: Any, cq: Any) -> None:
        made = ffi.new("struct fanin_verbs_qp **")
        self._objects: tuple[Any, ...] = (pd, cq)  # a reference, since pyverbs closes what has none
        self.cq_name = f"{_handle_of(cq)} of pyverbs"
        status = preloaded().fanin_verbs_create_qp(ABI_VERSION, _handle_of(pd), _handle_of(cq), made)
        remedies = {"NO_RESOURCES": FEWER_QUEUES, "INVALID_REQUEST": ONE_CONTEXT}
        check(status, "can not create a queue pair on these objects of pyverbs", **remedies)
        self._made = made[0]
        self.calls, self.handle, self.number = self._made.calls, self._made.context, int(self._made.number)

    def localize(self, wqe: Any) -> None:
        """Check the bounds of pyverbs' regions, and replace their keys by that of process memory."""
        status = preloaded().fanin_verbs_localize(self._made, wqe)
        check(status, "a request on objects of pyverbs", NOT_SUPPORTED=ONE_RANK, LOCAL_PROTECTION_ERROR=ONE_RANK)

    def last_completion(self) -> Any:
        """A struct fanin_cqe."""
        cqe = ffi.new("struct fanin_cqe *")
        preloaded().fanin_verbs_last_completion(self._made, cqe)
        return cqe

    def destroy(self) -> int:
        status = int(preloaded().fanin_verbs_destroy_qp(self._made))
        self._objects = ()
        return status


@functools.cache
def preloaded() -> Any:
    """The verbs library in this process; NotSupported if none was preloaded."""
    process = ffi.dlopen(None)
    try:
        for name in ("create_qp", "destroy_qp", "localize", "last_completion"):
            getattr(process, f"fanin_verbs_{name}")
    except AttributeError:
        raise NotSupported("Fanin's verbs library is not loaded in this process", remedy=PRELOAD_IT) from None
    return process


def _handle_of(made: Any) -> int:
    """The handle of an object of pyverbs; only its text shows that of a completion queue."""
    if not type(made).__module__.startswith("pyverbs."):
        raise InvalidRequest(f"a {type(made).__name__} is not an object of pyverbs", remedy=ONE_CONTEXT)
    shown = getattr(made, "handle", None)
    if shown is None:
        found = re.search(r"^Handle *: (\d+)", str(made), re.M)
        shown = found and found[1]
    if shown is None:
        raise NotSupported("this version of pyverbs does not show the handle of a completion queue", remedy=ITS_TEXT)
    return int(shown)
