"""The forms of each collective: `allreduce` waits and returns the result, `iallreduce` returns a Request at once,
`allreduce_init` a Persistent, to be started.

The extension has the first two forms of most collectives, and comes to `_collective` with all that it does not do
itself. The arguments are defined once, by the function that makes the Call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol

from fanin._binding import Request
from fanin.collectives import data_movement, reductions, vector
from fanin.collectives.call import Call
from fanin.collectives.persistent import Persistent
from fanin.memory.buffers import require_lasting

P = ParamSpec("P")
Arguments = Callable[Concatenate[Any, P], Call]  # the first is the group: the communicator


class Starter(Protocol):
    """The part of a communicator that the forms use."""

    def run(self, call: Call) -> Any:
        """Start it, and wait for the result."""

    def start(self, call: Call) -> Request:
        """Start it."""

    def prepare(self, call: Call, ordered: bool) -> Persistent:
        """Make it persistent."""


ARGUMENTS: Mapping[str, Callable[..., Call]] = {
    function.__name__: function
    for function in (
        reductions.allreduce,
        reductions.reduce,
        reductions.reduce_scatter,
        data_movement.broadcast,
        data_movement.allgather,
        data_movement.gather,
        data_movement.scatter,
        data_movement.barrier,
    )
}


def blocking(arguments: Arguments[P]) -> Callable[Concatenate[Any, P], Any]:
    """Start, and wait for the result."""

    def form(self: Starter, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.run(arguments(self, *args, **kwargs))

    return _described(form, arguments, arguments.__name__, arguments.__doc__)


def starting(arguments: Arguments[P]) -> Callable[Concatenate[Any, P], Request]:
    """Start, and return at once."""

    def form(self: Starter, *args: P.args, **kwargs: P.kwargs) -> Request:
        return self.start(arguments(self, *args, **kwargs))

    text = f"Start {arguments.__name__} and return at once, with a Request. The arguments are the same."
    return _described(form, arguments, f"i{arguments.__name__}", text)


def persistent(arguments: Arguments[P]) -> Callable[..., Persistent]:
    """Prepare, to be started later."""

    signature = inspect.signature(arguments)

    def form(self: Starter, *args: Any, ordered: bool = False, **kwargs: Any) -> Persistent:
        call = arguments(self, *args, **kwargs)
        if call.source is not None:  # else its array, if it has one, is not looked at
            require_lasting(signature.bind(self, *args, **kwargs).arguments["array"])
        return self.prepare(call, ordered)

    text = (
        f"Prepare {arguments.__name__}, with the same arguments, to be started any number of times. All ranks call it, "
        "in the same order. ordered: starts keep the order of the communicator's collectives; else they need none."
    )
    return _described(form, arguments, f"{arguments.__name__}_init", text, ORDERED)


ORDERED = inspect.Parameter("ordered", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")


def _described(form: Any, arguments: Any, name: str, text: str | None, *more: inspect.Parameter) -> Any:
    """The form with the signature that help() and editors show: the arguments of the collective, and `more`."""
    form.__name__, form.__qualname__, form.__doc__ = name, f"Communicator.{name}", text
    group, *others = inspect.signature(arguments).parameters.values()
    parameters = [group.replace(name="self", annotation=group.empty), *others, *more]
    returned = inspect.signature(form).return_annotation
    form.__signature__ = inspect.Signature(parameters, return_annotation=returned)
    return form


class Collectives:
    """All collectives in their three forms, beside those of the extension.

    array, out: numpy arrays or anything with the buffer protocol. An input that is not C-contiguous is copied first;
    `out` must be writable, C-contiguous, and of the size and type of the result; without it a new array is made and
    returned. op: "sum", "min", ... (capabilities() lists them), or, where the communicator allows the host to compute,
    a function of two arrays. root: a rank. timeout: seconds for all ranks to take part, by default no limit. fence:
    begin when all that was started before is complete, so that its results can be the input.

    All ranks call the same collectives in the same order, with the same op, root and sizes. Raises the exception of the
    status: Timeout (naming the missing ranks), OpMismatch, PeerLost, DeviceLost, ...
    """

    allreduce_init = persistent(reductions.allreduce)
    reduce_init = persistent(reductions.reduce)
    reduce_scatter_init = persistent(reductions.reduce_scatter)
    broadcast_init = persistent(data_movement.broadcast)
    allgather_init = persistent(data_movement.allgather)
    gather_init = persistent(data_movement.gather)
    scatter_init = persistent(data_movement.scatter)
    barrier_init = persistent(data_movement.barrier)

    allgatherv = blocking(vector.allgatherv)
    iallgatherv = starting(vector.allgatherv)
    allgatherv_init = persistent(vector.allgatherv)

    gatherv = blocking(vector.gatherv)
    igatherv = starting(vector.gatherv)
    gatherv_init = persistent(vector.gatherv)

    scatterv = blocking(vector.scatterv)
    iscatterv = starting(vector.scatterv)
    scatterv_init = persistent(vector.scatterv)

    def _collective(self: Starter, name: str, waits: bool, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """Called by the extension."""
        call = ARGUMENTS[name](self, *args, **kwargs)
        return self.run(call) if waits else self.start(call)
