"""Placement of ranks on nodes: blocks of consecutive ranks, as even as the nodes allow."""

from dataclasses import dataclass

from fanin_tools.errors import UsageError
from fanin_tools.fabric.checks import MAX_RING_NODES
from fanin_tools.fabric.description import Device, Fabric
from fanin_tools.fabric.tree import Tree
from fanin_tools.launch.uplinks import Uplinks, is_one_ring, uplinks_of
from fanin_tools.quantities import counted
from fanin_wire.abi import MAX_CHILDREN

ROUTES = ("auto", "tree", "ring", "local")


@dataclass(frozen=True)
class Placement:
    """A job's nodes in order, the global ranks on each, ascending, and in a tree each node's uplinks."""

    route: str
    nics: tuple[Device, ...]
    ranks: tuple[tuple[int, ...], ...]
    uplinks: tuple[Uplinks, ...]

    @property
    def size(self) -> int:
        return sum(len(ranks) for ranks in self.ranks)

    def node_of(self, rank: int) -> int:
        return next(node for node, ranks in enumerate(self.ranks) if rank in ranks)


def check_route(route: str) -> None:
    """Raise UsageError unless `route` is one of ROUTES."""
    if route not in ROUTES:
        raise UsageError(f"{route!r} is not a route", f"use one of {', '.join(ROUTES)}")


def place(fabric: Fabric, size: int, route: str) -> Placement:
    """Place `size` ranks on `fabric`.

    route: one of ROUTES. "auto": tree if an offloading switch is above all nodes of the job, else ring. Raises
    UsageError NO_RESOURCES without room, NOT_SUPPORTED if the fabric has no such route.
    """
    check_route(route)
    if size < 1:
        raise UsageError(f"{size} ranks", "use 1 or more")
    tree = Tree(fabric)
    nics = tree.nics()[:1] if route == "local" else tree.nics()
    _check_capacity(fabric, nics, size, route)
    counts = _even_counts([nic.ranks for nic in nics], size)
    used = tuple(nic for nic, count in zip(nics, counts, strict=True) if count)
    uplinks = uplinks_of(tree, used) if fabric.switches else None
    route = _resolve(route, fabric, used, uplinks)
    return Placement(route, used, _blocks(counts), uplinks if uplinks and route == "tree" else (Uplinks(),) * len(used))


def _check_capacity(fabric: Fabric, nics: tuple[Device, ...], size: int, route: str) -> None:
    if size <= sum(nic.ranks for nic in nics):
        return
    ranks = f"{counted(size, 'rank')} {'does' if size == 1 else 'do'} not fit on"
    if route == "local":
        cause = f"{ranks} {nics[0].name} of fabric {fabric.name}, which takes {nics[0].ranks}"
        remedy = "start fewer, or use another --route"
        if nics[0].ranks < MAX_CHILDREN:
            remedy = "start fewer, use another --route, or more --ranks-per-node"
        raise UsageError(cause, remedy, name="NO_RESOURCES")
    cause = f"{ranks} fabric {fabric.name}: {_describe_capacity([nic.ranks for nic in nics])}"
    is_full = all(nic.ranks == MAX_CHILDREN for nic in nics)
    remedy = f"start fewer, or bring a fabric up with more --nodes{'' if is_full else ' or --ranks-per-node'}"
    raise UsageError(cause, remedy, name="NO_RESOURCES")


def _describe_capacity(capacities: list[int]) -> str:
    if len(capacities) == 1:
        return f"its node takes {capacities[0]}"
    if len(set(capacities)) == 1:
        return f"its {len(capacities)} nodes take {capacities[0]} each"
    return f"its {len(capacities)} nodes take {sum(capacities)}"


def _even_counts(capacities: list[int], size: int) -> list[int]:
    """Ranks of each node. Each rank goes to the node with the fewest ranks that has room."""
    counts = [0] * len(capacities)
    for _ in range(size):
        node = min((node for node, room in enumerate(capacities) if counts[node] < room), key=lambda node: counts[node])
        counts[node] += 1
    return counts


def _blocks(counts: list[int]) -> tuple[tuple[int, ...], ...]:
    starts = [sum(counts[:node]) for node in range(len(counts))]
    return tuple(tuple(range(start, start + count)) for start, count in zip(starts, counts, strict=True) if count)


def _resolve(route: str, fabric: Fabric, nics: tuple[Device, ...], uplinks: tuple[Uplinks, ...] | None) -> str:
    if len(nics) == 1:
        return "local"  # nothing leaves a single node
    if route == "auto":
        route = "tree" if uplinks and not is_one_ring(uplinks) else "ring"
    if route == "tree" and not uplinks:
        cause = f"fabric {fabric.name} has no offloading switch above all {len(nics)} nodes, so no tree"
        raise UsageError(cause, "use --route ring, or a fabric with such a switch", name="NOT_SUPPORTED")
    if route == "ring" and len(nics) > MAX_RING_NODES:
        cause = f"a ring of {len(nics)} nodes"
        raise UsageError(cause, f"use at most {MAX_RING_NODES} nodes, or --route tree", name="NOT_SUPPORTED")
    return route
