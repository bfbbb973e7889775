"""The options that describe a fabric, for the subcommands that bring one up."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from fanin_tools.cli import options
from fanin_tools.errors import UsageError
from fanin_wire.limits import DEFAULT_DETECTION

if TYPE_CHECKING:
    from fanin_tools.fabric.generate import Shape

R = TypeVar("R")
DEFAULT_NODES = 4


@dataclass(frozen=True)
class FabricOptions:
    """As typer reads them, in the order of the help."""

    nodes: options.Nodes = None
    ranks_per_node: options.RanksPerNode = None
    fanout: options.Fanout = ""
    plain_leaves: options.PlainLeaves = False
    direct: options.Direct = False
    netns: options.Netns = False
    rate: options.Rate = ""
    lanes: options.Lanes = None
    detection: options.Detection = DEFAULT_DETECTION
    multicast: options.Multicast = True
    switch: options.Switch = "software"

    def shape(self) -> Shape:
        """Raises UsageError for a fanout that is not a product."""
        from fanin_tools.fabric.generate import Shape

        levels = _levels(self.fanout)
        nodes = self.nodes or (math.prod(levels) if levels else DEFAULT_NODES)
        ranks = self.ranks_per_node or Shape.ranks_per_node
        return Shape(**asdict(self) | {"nodes": nodes, "ranks_per_node": ranks, "fanout": levels})


def _levels(fanout: str) -> tuple[int, ...]:
    numbers = fanout.split("x") if fanout else []
    if not all(number.isdecimal() for number in numbers):
        raise UsageError(f"--fanout {fanout!r} is not a product", "write numbers with x between them, as in 2x2x2")
    return tuple(map(int, numbers))


def with_fabric_options(command: Callable[..., R]) -> Callable[..., R]:
    """Decorate a subcommand: typer sees the fields of its parameter `fabric`, a FabricOptions, as single options, with
    the parameter's default as their defaults."""
    signature = inspect.signature(command, eval_str=True)
    hints = get_type_hints(FabricOptions, include_extras=True)
    names = [field.name for field in fields(FabricOptions)]

    @functools.wraps(command)
    def wrapped(**given: Any) -> R:
        return command(fabric=FabricOptions(**{name: given.pop(name) for name in names}), **given)

    def option(name: str, default: FabricOptions) -> inspect.Parameter:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, kind, default=getattr(default, name), annotation=hints[name])

    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name == "fabric":
            parameters += [option(name, parameter.default) for name in names]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped
