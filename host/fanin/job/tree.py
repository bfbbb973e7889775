"""The tree of switches above the nodes of a job, from the path of each node to its top.

The children of a switch are nodes, rings of nodes (their last node is the child) and other switches. Bits follow the
order of the nodes: a child stands where the first node below it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fanin_wire.abi import MAX_CHILDREN, MAX_HOPS


class Child(NamedTuple):
    """A child of a switch: an identity among its siblings, and the indices of all nodes below it."""

    identity: str
    nodes: list[int]


class Tree:
    """Of paths, lowest switch first, trimmed to the lowest switch that all nodes share.

    paths: of each node. rings: the number of each node's ring, None for a node without one. Raises ValueError if the
    paths do not make one tree, or one that is too wide or too deep.
    """

    def __init__(self, paths: Sequence[tuple[str, ...]], rings: Sequence[int | None]) -> None:
        top = lowest_shared(paths)
        if top is None:
            raise ValueError("the nodes share no switch")
        self.paths = [path[: path.index(top) + 1] for path in paths]
        self._children: dict[str, list[Child]] = {}
        for node, (path, ring) in enumerate(zip(self.paths, rings, strict=True)):
            identity = f"node {node}" if ring is None else f"ring {ring}"
            for switch in path:
                self._seat(switch, identity, node)
                identity = switch
        self._check()

    def _seat(self, switch: str, identity: str, node: int) -> None:
        children = self._children.setdefault(switch, [])
        known = next((child for child in children if child.identity == identity), None)
        if known is None:
            children.append(Child(identity, [node]))
        else:
            known.nodes.append(node)

    def _check(self) -> None:
        parents: dict[str, str] = {}
        for switch, children in self._children.items():
            if len(children) > MAX_CHILDREN:
                raise ValueError(f"switch {switch} has {len(children)} children, at most {MAX_CHILDREN} are possible")
            for child in children:
                if parents.setdefault(child.identity, switch) != switch:
                    raise ValueError(f"{child.identity} hangs on {parents[child.identity]} and on {switch}")
        deepest = max(map(len, self.paths))
        if deepest > MAX_HOPS:
            raise ValueError(f"{deepest} levels of switches, at most {MAX_HOPS} are possible")

    def children(self, switch: str) -> list[Child]:
        """Children of a switch, in the order of their bits."""
        return self._children[switch]

    def bit(self, switch: str, node: int) -> int:
        """Bit, at a switch, of the child that a node is or lies below."""
        return next(bit for bit, child in enumerate(self.children(switch)) if node in child.nodes)


def lowest_shared(paths: Sequence[tuple[str, ...]]) -> str | None:
    """The lowest switch that all paths go through; None if there is none."""
    return next((switch for switch in paths[0] if all(switch in path for path in paths)), None)
