"""Which rank runs on which node: blocks of consecutive ranks, as even as the nodes allow."""

from __future__ import annotations

from dataclasses import dataclass

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.description import Device, Fabric

ROUTES = ("auto", "tree", "ring", "local")


@dataclass(frozen=True)
class Placement:
    """The nodes that take part, in order, and the global ranks on each, ascending."""

    route: str
    nics: tuple[Device, ...]
    ranks: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(len(ranks) for ranks in self.ranks)

    def node_of(self, rank: int) -> int:
        """Index of the node that `rank` runs on."""
        return next(node for node, ranks in enumerate(self.ranks) if rank in ranks)


def place(fabric: Fabric, size: int, route: str) -> Placement:
    """Place `size` ranks on `fabric` for a job of that route ("auto": chosen after the nodes and the switch).

    Raises ToolError NO_RESOURCES if there is no room, NOT_SUPPORTED if the fabric has no such route.
    """
    if route not in ROUTES:
        raise UsageError(f"{route!r} is not a route", f"use one of {', '.join(ROUTES)}")
    if size < 1:
        raise UsageError(f"{size} ranks", "use 1 or more")
    nics = fabric.nics[:1] if route == "local" else fabric.nics
    counts = _even_counts([nic.ranks for nic in nics], size, fabric.name)
    used = [(nic, count) for nic, count in zip(nics, counts, strict=True) if count]
    route = _resolve(route, fabric, len(used))
    return Placement(route, tuple(nic for nic, _ in used), _blocks([count for _, count in used]))


def _even_counts(rooms: list[int], size: int, name: str) -> list[int]:
    """Ranks for each node: one after the other to the node that has the fewest and still has room."""
    if size > sum(rooms):
        cause = f"{size} ranks do not fit on fabric {name}: its nodes take {' + '.join(map(str, rooms))}"
        raise ToolError(
            "NO_RESOURCES", cause, "start fewer, or bring a fabric up with more --nodes or --ranks-per-node"
        )
    counts = [0] * len(rooms)
    for _ in range(size):
        node = min((node for node, room in enumerate(rooms) if counts[node] < room), key=lambda node: counts[node])
        counts[node] += 1
    return counts


def _blocks(counts: list[int]) -> tuple[tuple[int, ...], ...]:
    starts = [sum(counts[:node]) for node in range(len(counts))]
    return tuple(tuple(range(start, start + count)) for start, count in zip(starts, counts, strict=True))


def _resolve(route: str, fabric: Fabric, nodes: int) -> str:
    if nodes == 1:
        return "local"  # nothing leaves a single node, whatever the fabric has
    if route == "auto":
        return "tree" if fabric.switch is not None else "ring"
    if route == "tree" and fabric.switch is None:
        cause = f"fabric {fabric.name} has no switch, so no tree"
        raise ToolError("NOT_SUPPORTED", cause, "use --route ring, or a fabric without --direct")
    return route
