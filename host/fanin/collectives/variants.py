"""The forms of each collective: `allreduce` waits, `iallreduce` returns a request, `allreduce_init` persists.

The extension has the methods of the first two. It comes here with calls that it can not do itself, and with all errors.
"""

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self

from fanin._binding import Request, methods
from fanin.collectives import definitions
from fanin.collectives.call import Call
from fanin.errors import InvalidRequest
from fanin.membership.member import Member, Progress
from fanin.memory.buffers import require_lasting
from fanin_wire.collectives import Side, collective

P = ParamSpec("P")
Arguments = Callable[Concatenate[Any, P], Call]  # the first is the group: the communicator
Waiting = Callable[Concatenate[Any, P], Any]
Starting = Callable[Concatenate[Any, P], Request]
SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
ORDERED = inspect.Parameter("ordered", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")


class Persistent:
    """Made by the `..._init` forms: the same arrays each time.

    It has a stream (a job) of its own, so ranks may start several of them in different orders; an `ordered` one takes
    its turn among the communicator's collectives. close(), `with` and closing the communicator leave the job.
    """

    def __init__(self, member: Member, call: Call, own: bool) -> None:
        self._member, self._text, self.own = member, str(call), own
        self._request = member._prepare(call.arguments(member.rank))
        self._is_started = False
        self.closed = False

    def start(self) -> Self:
        """Start it, with the data that the arrays hold now. InvalidRequest if the last start is still under way."""
        if self.closed:
            raise InvalidRequest(f"{self} is closed", remedy="Make a new one.")
        self._member.require_open()
        if not self._request._restart():
            complaint = f"{self._text} on rank {self._member.rank} is still under way"
            raise InvalidRequest(complaint, remedy="Wait for it before you start it again.")
        self._is_started = True
        return self

    def wait(self, timeout: float | None = None) -> Any:
        """The result of the last start, as of Request.wait."""
        self._require_started()
        return self._request.wait(timeout)

    def test(self) -> bool:
        """Whether the last start has ended, as of Request.test."""
        self._require_started()
        return self._request.test()

    def progress(self) -> Progress:
        """How far the last start is, as of Request.progress."""
        self._require_started()
        return self._request.progress()

    @property
    def under_way(self) -> bool:
        """Whether it was started and has not been seen to end."""
        return self._is_started and not self._request.done

    def _require_started(self) -> None:
        if not self._is_started:
            raise InvalidRequest(f"{self._text} has not been started", remedy="Call start() first.")

    def close(self) -> None:
        """Leave the job of its stream. Harmless when called again."""
        self.end(leave=True)

    def end(self, leave: bool) -> None:
        """Close (`leave`) or abort."""
        self.closed = True
        if self.own:
            self._member.end(leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(leave=error is None)

    def __str__(self) -> str:
        return f"persistent {self._text}"


Preparing = Callable[..., Persistent]


def forms(arguments: Arguments[P]) -> tuple[Waiting[P], Starting[P], Preparing]:
    """The methods of a collective, with the names, arguments and texts that help() and editors show."""

    def wait(self: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.run(arguments(self, *args, **kwargs))

    def start(self: Any, *args: P.args, **kwargs: P.kwargs) -> Request:
        return self.start(arguments(self, *args, **kwargs))

    name, row = arguments.__name__, collective(arguments.__name__)
    _, *parameters = inspect.signature(arguments).parameters.values()
    shown = ", ".join(str(each.replace(annotation=each.empty)) for each in parameters)
    brief = f"Start {name} and return at once, with a Request. The arguments are the same."
    starting, waiting = methods(
        (row.code, name, row.is_vector, row.reduces, row.divided, _side(row.brings), _side(row.wants)),
        tuple(each.name for each in parameters),
        (f"i{name}", f"i{name}($self, {shown})\n--\n\n{brief}", start),
        (name, f"{name}($self, {shown})\n--\n\n{inspect.getdoc(arguments)}", wait),
    )
    return waiting, starting, _preparing(arguments)


def _preparing(arguments: Callable[..., Call]) -> Preparing:
    name, signature = arguments.__name__, inspect.signature(arguments)
    _, *parameters = signature.parameters.values()

    def prepare(self: Any, *args: Any, ordered: bool = False, **kwargs: Any) -> Persistent:
        call = arguments(self, *args, **kwargs)
        if call.source is not None:  # else its array, if it has one, is not looked at
            require_lasting(signature.bind(self, *args, **kwargs).arguments["array"])
        return self.prepare(call, ordered)

    method: Any = prepare
    method.__name__, method.__qualname__ = f"{name}_init", f"Communicator.{name}_init"
    method.__signature__ = inspect.Signature([SELF, *parameters, ORDERED], return_annotation="Persistent")
    method.__doc__ = (
        f"Prepare {name}, with the same arguments, to be started any number of times. All ranks call it, in the same "
        "order. ordered: starts keep the order of the communicator's collectives; else they need none."
    )
    return method


def _side(side: Side) -> tuple[bool, bool, bool]:
    """Whether ranks other than the root take part, whether the root does, and whether each has only its own block."""
    return side.who.includes(1, root=0), side.who.includes(0, root=0), side.own


class Collectives:
    """All collectives in their three forms.

    array, out: numpy arrays or anything with the buffer protocol. An input that is not C-contiguous is copied first;
    `out` must be writable, C-contiguous, and of the size and type of the result; without it a new array is returned.
    op: "sum", "min", ... (capabilities() lists them), or, if the host may compute, a function of two arrays. root: a
    rank. timeout: seconds for all ranks to take part; None: no limit. fence: begin when all earlier requests are
    complete, whose results can be the input.

    All ranks call the same collectives in the same order, with the same op, root and sizes. Raises the exception of the
    status: Timeout (naming the missing ranks), OpMismatch, PeerLost, DeviceLost, ...
    """

    allreduce, iallreduce, allreduce_init = forms(definitions.allreduce)
    reduce, ireduce, reduce_init = forms(definitions.reduce)
    reduce_scatter, ireduce_scatter, reduce_scatter_init = forms(definitions.reduce_scatter)
    broadcast, ibroadcast, broadcast_init = forms(definitions.broadcast)
    allgather, iallgather, allgather_init = forms(definitions.allgather)
    gather, igather, gather_init = forms(definitions.gather)
    scatter, iscatter, scatter_init = forms(definitions.scatter)
    barrier, ibarrier, barrier_init = forms(definitions.barrier)
    allgatherv, iallgatherv, allgatherv_init = forms(definitions.allgatherv)
    gatherv, igatherv, gatherv_init = forms(definitions.gatherv)
    scatterv, iscatterv, scatterv_init = forms(definitions.scatterv)
