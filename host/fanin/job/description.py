"""The description of a job, which all its ranks share, and the membership of each rank that follows from it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fanin.errors import InvalidRequest
from fanin.job.node import JobNode
from fanin.job.rules import (
    DESCRIPTION_REMEDY,
    check_members,
    check_parameters,
    check_ring_size,
    check_rings,
    ipv4,
    require,
)
from fanin.job.tree import Tree, lowest_shared
from fanin.verbs.membership import Hop, Membership
from fanin_wire.abi import JobFlag, Route
from fanin_wire.limits import DEFAULT_JOB_SLOTS, MAX_JOB_CHUNK

ENVIRONMENT_VARIABLE = "FANIN_JOB"
START_REMEDY = "Start the program with `fanin run -n N -- PROGRAM`, or give Communicator a job, rank and socket."
REPRODUCIBLE = {
    "none": 0,
    "run": int(JobFlag["REPRODUCIBLE_RUN"]),
    "shape": int(JobFlag["REPRODUCIBLE_RUN"] | JobFlag["REPRODUCIBLE_SHAPE"] | JobFlag["WIDE"]),
}
FIXED_START = int(JobFlag["FIXED_START"])


@dataclass(frozen=True)
class Job:
    """The members of a job, their way through the fabric, and the sizes of segments. Equal on every rank.

    jid and key: job id, and the random key of this incarnation. route: "auto", "tree", "ring" (of all nodes, whatever
    the switches) or "local". chunk: payload bytes of a segment. slots: seg buffers asked of each device (powers of 2).
    reproducible: "none", "run" or "shape". wide: sums of f16 and bf16 travel as f32 ("shape" implies it).
    Raises InvalidRequest if the parts contradict each other.
    """

    jid: int
    key: int
    nodes: tuple[JobNode, ...]
    route: str = "auto"
    chunk: int = MAX_JOB_CHUNK
    slots: int = DEFAULT_JOB_SLOTS
    reproducible: str = "none"
    wide: bool = False

    def __post_init__(self) -> None:
        check_members(self.nodes)
        check_parameters(self, tuple(REPRODUCIBLE))
        check_rings(self.nodes)
        if self.chosen_route == "ring":
            check_ring_size(len(self.nodes))
        elif self.chosen_route == "tree":
            _ = self.tree

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Self:
        """From the decoded JSON of a job file."""
        try:
            unknown = description.keys() - cls.__dataclass_fields__.keys()
            require(not unknown, f"{', '.join(sorted(unknown))}: unknown")
            nodes = tuple(_node(node) for node in description["nodes"])
            parts = {name: kind(description[name]) for name, kind in _KINDS.items() if name in description}
            return cls(nodes=nodes, **parts)
        except (KeyError, TypeError, AttributeError) as error:
            complaint = f"the job description lacks or misuses {error}"
            raise InvalidRequest(complaint, remedy=DESCRIPTION_REMEDY) from None
        except ValueError as error:
            if isinstance(error, InvalidRequest):
                raise
            complaint = f"the job description has a wrong value: {error}"
            raise InvalidRequest(complaint, remedy=DESCRIPTION_REMEDY) from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """From a JSON file."""
        try:
            description = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            complaint = f"the job description {os.fspath(path)} can not be read: {error}"
            raise InvalidRequest(complaint, remedy=START_REMEDY) from None
        return cls.from_dict(description)

    @classmethod
    def from_environment(cls) -> Self:
        """From the file that $FANIN_JOB names."""
        return cls.from_file(environment(ENVIRONMENT_VARIABLE))

    def to_dict(self) -> dict[str, Any]:
        """The dictionary that from_dict reads."""
        nodes = [
            {
                "address": node.address,
                "ranks": list(node.ranks),
                "switches": list(node.switches),
                "ring": node.ring,
            }
            for node in self.nodes
        ]
        return {**{name: getattr(self, name) for name in _KINDS}, "nodes": nodes}

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(len(node.ranks) for node in self.nodes)

    @functools.cached_property
    def chosen_route(self) -> str:
        """The route as it is taken: on one node nothing leaves it; else the one asked for. "auto": tree if the nodes
        share a switch, unless all are in one ring below it."""
        if len(self.nodes) == 1:
            return "local"
        if self.route != "auto":
            return self.route
        rings = {node.ring for node in self.nodes}
        if rings != {None} and len(rings) == 1:
            return "ring"
        return "tree" if lowest_shared([node.switches for node in self.nodes]) else "ring"

    @functools.cached_property
    def tree(self) -> Tree:
        """The switches of a job that takes the tree."""
        try:
            return Tree([node.switches for node in self.nodes], [node.ring for node in self.nodes])
        except ValueError as error:
            raise InvalidRequest(f"job description: {error}", remedy=DESCRIPTION_REMEDY) from None

    @property
    def sends_wide(self) -> bool:
        """Whether sums of f16 and bf16 travel as f32."""
        return self.wide or self.reproducible == "shape"

    def node_of(self, rank: int) -> int:
        """Index of the node that holds a rank."""
        for index, node in enumerate(self.nodes):
            if rank in node.ranks:
                return index
        complaint = f"rank {rank} is not one of the {self.size} ranks of job {self.jid}"
        raise InvalidRequest(complaint, remedy=f"Give a number from 0 to {self.size - 1}.")

    def ring_of(self, index: int) -> list[int]:
        """Nodes of the ring that a node is in; none if it is in none."""
        if self.chosen_route == "ring":
            return list(range(len(self.nodes)))
        number = self.nodes[index].ring
        if number is None or self.chosen_route != "tree":
            return []
        return [other for other, node in enumerate(self.nodes) if node.ring == number]

    def digest(self) -> bytes:
        """128 bits of SHA-256 over everything that must be equal on every rank."""
        description = {**self.to_dict(), "route": self.chosen_route}
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).digest()[:16]

    def membership(self, rank: int) -> Membership:
        """The membership that the queue pair of a rank tells its device."""
        index = self.node_of(rank)
        node, ring = self.nodes[index], self.ring_of(index)
        group = ring or range(len(self.nodes))
        place = group.index(index)
        following, previous = (ipv4(self.nodes[group[(place + step) % len(group)]].address) for step in (1, -1))
        flags = REPRODUCIBLE[self.reproducible] | (int(JobFlag["WIDE"]) if self.wide else 0)
        return Membership(
            jid=self.jid,
            key=self.key,
            route=int(Route["RING"] if ring else Route[self.chosen_route.upper()]),
            rank_bitmap=1 << node.ranks.index(rank),
            rank_mask=(1 << len(node.ranks)) - 1,
            slots=self.slots,
            chunk=self.chunk,
            digest=self.digest(),
            node_index=place,
            node_count=len(group),
            next_address=following if ring else 0,
            previous_address=previous if ring else 0,
            hops=self._hops(index),
            flags=flags | (FIXED_START if ring and self.chosen_route == "tree" else 0),
        )

    def _hops(self, index: int) -> tuple[Hop, ...]:
        """The switches above a node (above its ring, if it is in one)."""
        if self.chosen_route != "tree":
            return ()
        path = self.tree.paths[index]
        masks = [(1 << len(self.tree.children(switch))) - 1 for switch in path]
        return tuple(
            Hop(ipv4(switch), self.tree.bit(switch, index), mask) for switch, mask in zip(path, masks, strict=True)
        )


# Members of the description and their types.
_KINDS = {
    "jid": int,
    "key": int,
    "route": str,
    "chunk": int,
    "slots": int,
    "reproducible": str,
    "wide": bool,
}


def _node(description: dict[str, Any]) -> JobNode:
    unknown = description.keys() - JobNode.__dataclass_fields__.keys()
    require(not unknown, f"{', '.join(sorted(unknown))} of a node: unknown")
    ring = description.get("ring")
    return JobNode(
        str(description["address"]),
        tuple(map(int, description["ranks"])),
        tuple(map(str, description.get("switches", ()))),
        None if ring is None else int(ring),
    )


def environment(name: str) -> str:
    """A variable that `fanin run` sets; InvalidRequest if it is missing."""
    try:
        return os.environ[name]
    except KeyError:
        raise InvalidRequest(f"the environment lacks {name}", remedy=START_REMEDY) from None
