"""The three forms of each collective: `allreduce` waits and returns the result, `iallreduce` returns a Request at once,
`allreduce_init` a Persistent, to be started. The arguments are defined once, by the function that makes the Call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol

from fanin import direct, movements, reductions, uneven
from fanin.again import repeatable
from fanin.buffers import require_lasting
from fanin.call import Call, Deferred
from fanin.direct import DirectCalls
from fanin.persistent import Persistent
from fanin.request import Request

P = ParamSpec("P")
Arguments = Callable[Concatenate[Any, P], Call | Deferred]  # the first is the group: the communicator


class Starter(direct.Starter, Protocol):
    """What the forms need of a communicator."""

    direct: DirectCalls

    def prepare(self, call: Call | Deferred, ordered: bool) -> Persistent:
        """Make it persistent."""


def blocking(arguments: Arguments[P]) -> Callable[Concatenate[Any, P], Any]:
    """Start, and wait for the result."""

    def form(self: Starter, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.direct.run(self, arguments, args, kwargs)

    return repeatable(_described(form, arguments, arguments.__name__, arguments.__doc__), arguments)


def starting(arguments: Arguments[P]) -> Callable[Concatenate[Any, P], Request]:
    """Start, and return at once."""

    def form(self: Starter, *args: P.args, **kwargs: P.kwargs) -> Request:
        return self.direct.start(self, arguments, args, kwargs)

    text = f"Start {arguments.__name__} and return at once, with a Request. The arguments are the same."
    return _described(form, arguments, f"i{arguments.__name__}", text)


def persistent(arguments: Arguments[P]) -> Callable[..., Persistent]:
    """Prepare, to be started later."""

    signature = inspect.signature(arguments)

    def form(self: Starter, *args: Any, ordered: bool = False, **kwargs: Any) -> Persistent:
        call = arguments(self, *args, **kwargs)
        if call.brings:  # else its array, if it has one, is not looked at
            require_lasting(signature.bind(self, *args, **kwargs).arguments["array"])
        return self.prepare(call, ordered)

    text = (
        f"Prepare {arguments.__name__}, with the same arguments, to be started any number of times. All ranks call it, "
        "in the same order. ordered: starts keep the order of the communicator's collectives; else they need none."
    )
    return _described(form, arguments, f"{arguments.__name__}_init", text, ORDERED)


ORDERED = inspect.Parameter("ordered", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")


def _described(form: Any, arguments: Any, name: str, text: str | None, *more: inspect.Parameter) -> Any:
    """The form with what help() and editors show: a method that has the arguments of the collective, and `more`."""
    form.__name__, form.__qualname__, form.__doc__ = name, f"Communicator.{name}", text
    group, *others = inspect.signature(arguments).parameters.values()
    parameters = [group.replace(name="self", annotation=group.empty), *others, *more]
    returned = inspect.signature(form).return_annotation
    form.__signature__ = inspect.Signature(parameters, return_annotation=returned)
    return form


class Collectives:
    """All collectives in their three forms.

    array, out: numpy arrays or anything with the buffer protocol. An input that is not C-contiguous is copied first;
    `out` must be writable, C-contiguous, and of the size and type of the result; without it a new array is made and
    returned. op: "sum", "min", ... (capabilities() lists them), or, where the communicator allows the host to compute,
    a function of two arrays. root: a rank. timeout: seconds for all ranks to take part, by default no limit. fence:
    begin when all that was started before is complete, so that its results can be the input.

    All ranks call the same collectives in the same order, with the same op, root and sizes. Raises the exception of the
    status: Timeout (naming the missing ranks), OpMismatch, PeerLost, DeviceLost, ...
    """

    __slots__ = ()

    allreduce = blocking(reductions.allreduce)
    iallreduce = starting(reductions.allreduce)
    allreduce_init = persistent(reductions.allreduce)

    reduce = blocking(reductions.reduce)
    ireduce = starting(reductions.reduce)
    reduce_init = persistent(reductions.reduce)

    reduce_scatter = blocking(reductions.reduce_scatter)
    ireduce_scatter = starting(reductions.reduce_scatter)
    reduce_scatter_init = persistent(reductions.reduce_scatter)

    broadcast = blocking(movements.broadcast)
    ibroadcast = starting(movements.broadcast)
    broadcast_init = persistent(movements.broadcast)

    allgather = blocking(movements.allgather)
    iallgather = starting(movements.allgather)
    allgather_init = persistent(movements.allgather)

    allgatherv = blocking(uneven.allgatherv)
    iallgatherv = starting(uneven.allgatherv)
    allgatherv_init = persistent(uneven.allgatherv)

    gather = blocking(movements.gather)
    igather = starting(movements.gather)
    gather_init = persistent(movements.gather)

    gatherv = blocking(uneven.gatherv)
    igatherv = starting(uneven.gatherv)
    gatherv_init = persistent(uneven.gatherv)

    scatter = blocking(movements.scatter)
    iscatter = starting(movements.scatter)
    scatter_init = persistent(movements.scatter)

    scatterv = blocking(uneven.scatterv)
    iscatterv = starting(uneven.scatterv)
    scatterv_init = persistent(uneven.scatterv)

    barrier = blocking(movements.barrier)
    ibarrier = starting(movements.barrier)
    barrier_init = persistent(movements.barrier)
