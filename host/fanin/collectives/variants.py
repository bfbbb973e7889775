"""The forms of each collective: `allreduce` waits for the result, `iallreduce` returns a Request, `allreduce_init` a
Persistent.

The extension has the methods of the first two. It comes here with calls that it can not do itself, and with all errors.
"""

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from fanin._binding import Request, methods
from fanin.collectives import definitions
from fanin.collectives.call import Call
from fanin.collectives.persistent import Persistent
from fanin.memory.buffers import require_lasting
from fanin_wire.collectives import Side, collective

P = ParamSpec("P")
Arguments = Callable[Concatenate[Any, P], Call]  # the first is the group: the communicator
Waiting = Callable[Concatenate[Any, P], Any]
Starting = Callable[Concatenate[Any, P], Request]
Preparing = Callable[..., Persistent]

SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
ORDERED = inspect.Parameter("ordered", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")


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
