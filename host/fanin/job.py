"""The description of a job that all its ranks share, and what follows from it for one rank."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fanin.errors import InvalidRequest
from fanin.verbs.membership import Hop, Membership
from fanin.verbs.wc import NODES
from fanin_wire.abi import MAX_CHILDREN, Route

MAX_WORD = (1 << 32) - 1
ENVIRONMENT_VARIABLE = "FANIN_JOB"
START_REMEDY = "Start the program with `fanin run -n N -- PROGRAM`, or give Communicator a job, rank and socket."


@dataclass(frozen=True)
class JobNode:
    """A node of the job: the IPv4 address of its NIC, and the ranks on it in the order of their bits."""

    address: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """Who takes part, by which way, in which pieces. Equal on every rank.

    jid and key: job id, and the random key of this incarnation. route: "auto", "tree", "ring" or "local".
    chunk: payload bytes of a segment. slots: seg buffers asked of each device (powers of two). switch: the address of
    the device above the nodes, if there is one. Raises InvalidRequest if the parts contradict each other.
    """

    jid: int
    key: int
    nodes: tuple[JobNode, ...]
    route: str = "auto"
    chunk: int = 4096
    slots: int = 256
    switch: str | None = None

    def __post_init__(self) -> None:
        self._check_members()
        for name in ("jid", "key"):
            _require(0 <= getattr(self, name) <= MAX_WORD, f"{name} must fit into 32 bits")
        for name in ("chunk", "slots"):
            value = getattr(self, name)
            _require(0 < value <= MAX_WORD and value & (value - 1) == 0, f"{name} must be a power of two, not {value}")
        for address in [node.address for node in self.nodes] + ([self.switch] if self.switch else []):
            _ipv4(address)
        _require(self.route in ("auto", "tree", "ring", "local"), f"unknown route {self.route!r}")
        _require(self.route != "tree" or self.switch is not None, "route tree needs a switch")
        _require(self.route != "local" or len(self.nodes) == 1, "route local needs all ranks on one node")

    def _check_members(self) -> None:
        _require(1 <= len(self.nodes) <= MAX_CHILDREN, f"{len(self.nodes)} nodes; 1 to {MAX_CHILDREN} are possible")
        for node in self.nodes:
            _require(1 <= len(node.ranks) <= MAX_CHILDREN, f"node {node.address} has {len(node.ranks)} ranks")
        ranks = sorted(rank for node in self.nodes for rank in node.ranks)
        _require(ranks == list(range(len(ranks))), "the nodes must hold the ranks 0 to N - 1, each once")

    @classmethod
    def from_dict(cls, description: dict[str, Any]) -> Self:
        """From the decoded JSON of a job file."""
        try:
            nodes = tuple(
                JobNode(str(node["address"]), tuple(map(int, node["ranks"]))) for node in description["nodes"]
            )
            return cls(
                jid=int(description["jid"]),
                key=int(description["key"]),
                nodes=nodes,
                route=str(description.get("route", "auto")),
                chunk=int(description.get("chunk", cls.chunk)),
                slots=int(description.get("slots", cls.slots)),
                switch=description.get("switch"),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidRequest(f"the job description lacks or misuses {error}") from None
        except ValueError as error:
            if isinstance(error, InvalidRequest):
                raise
            raise InvalidRequest(f"the job description has a wrong value: {error}") from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """From a JSON file."""
        try:
            description = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise InvalidRequest(f"the job description {os.fspath(path)} can not be read: {error}") from None
        return cls.from_dict(description)

    @classmethod
    def from_environment(cls) -> Self:
        """From the file that $FANIN_JOB names."""
        return cls.from_file(environment(ENVIRONMENT_VARIABLE))

    def to_dict(self) -> dict[str, Any]:
        """What from_dict reads."""
        return {
            "jid": self.jid,
            "key": self.key,
            "route": self.route,
            "chunk": self.chunk,
            "slots": self.slots,
            "nodes": [{"address": node.address, "ranks": list(node.ranks)} for node in self.nodes],
            "switch": self.switch,
        }

    @property
    def size(self) -> int:
        """Number of ranks."""
        return sum(len(node.ranks) for node in self.nodes)

    @property
    def chosen_route(self) -> str:
        """The route as it is taken: on one node nothing leaves it; else the one asked for; "auto": tree if it can."""
        if len(self.nodes) == 1:
            return "local"
        if self.route == "auto":
            return "tree" if self.switch else "ring"
        return self.route

    def node_of(self, rank: int) -> int:
        """Index of the node that holds a rank."""
        for index, node in enumerate(self.nodes):
            if rank in node.ranks:
                return index
        raise InvalidRequest(f"rank {rank} is not one of the {self.size} ranks of job {self.jid}")

    def missing_ranks(self, rank: int, members: list[int], kind: int) -> tuple[int, ...]:
        """Ranks that a completion at `rank` names by bits: of nodes (kind NODES), or of the ranks of its own node."""
        if kind == NODES:
            return tuple(rank for index in members if index < len(self.nodes) for rank in self.nodes[index].ranks)
        local = self.nodes[self.node_of(rank)].ranks
        return tuple(local[bit] for bit in members if bit < len(local))

    def names(self, ranks: tuple[int, ...]) -> str:
        """Ranks with their nodes, for people."""
        return ", ".join(f"rank {rank} (node {self.nodes[self.node_of(rank)].address})" for rank in ranks)

    def digest(self) -> bytes:
        """128 bits of SHA-256 over everything that must be equal on every rank."""
        description = {**self.to_dict(), "route": self.chosen_route}
        return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).digest()[:16]

    def membership(self, rank: int) -> Membership:
        """What the queue pair of a rank tells its device."""
        index, count = self.node_of(rank), len(self.nodes)
        node, route = self.nodes[index], self.chosen_route
        following, previous = (_ipv4(self.nodes[(index + step) % count].address) for step in (1, -1))
        hops = [Hop(_ipv4(self.switch), index, (1 << count) - 1)] if self.switch else []
        return Membership(
            jid=self.jid,
            key=self.key,
            route=int(Route[route.upper()]),
            rank_bitmap=1 << node.ranks.index(rank),
            rank_mask=(1 << len(node.ranks)) - 1,
            slots=self.slots,
            chunk=self.chunk,
            digest=self.digest(),
            node_index=index,
            node_count=count,
            next_address=following if route == "ring" else 0,
            previous_address=previous if route == "ring" else 0,
            hops=tuple(hops) if route == "tree" else (),
        )


def environment(name: str) -> str:
    """A variable that `fanin run` sets; InvalidRequest if it is missing."""
    try:
        return os.environ[name]
    except KeyError:
        raise InvalidRequest(f"the environment lacks {name}", remedy=START_REMEDY) from None


def _ipv4(address: str) -> int:
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError:
        raise InvalidRequest(f"{address!r} is not an IPv4 address") from None


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise InvalidRequest(f"job description: {complaint}")
