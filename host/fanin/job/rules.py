"""The rules for the description of a job: InvalidRequest names the contradiction."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from fanin.errors import InvalidRequest
from fanin.job.node import JobNode
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.limits import MIN_JOB_SLOTS

DESCRIPTION_REMEDY = "Correct the description; `fanin run` writes one, and Job says what its parts mean."
MAX_WORD = (1 << 32) - 1
ROUTES = ("auto", "tree", "ring", "local")


class Description(Protocol):
    """What the rules look at in the description of a job."""

    @property
    def route(self) -> str: ...
    @property
    def slots(self) -> int: ...
    @property
    def reproducible(self) -> str: ...
    @property
    def nodes(self) -> Sequence[JobNode]: ...


def check_parameters(job: Description, reproducible: Sequence[str]) -> None:
    """Numbers and choices. `reproducible`: the modes that there are."""
    for name in ("jid", "key"):
        require(0 <= getattr(job, name) <= MAX_WORD, f"{name} must fit into 32 bits")
    for name in ("chunk", "slots"):
        value = getattr(job, name)
        require(0 < value <= MAX_WORD and value & (value - 1) == 0, f"{name} must be a power of two, not {value}")
    require(job.slots >= MIN_JOB_SLOTS, f"slots must be {MIN_JOB_SLOTS} or more, not {job.slots}")
    require(job.route in ROUTES, f"unknown route {job.route!r}; there are {', '.join(ROUTES)}")
    known = ", ".join(reproducible)
    require(job.reproducible in reproducible, f"unknown mode reproducible {job.reproducible!r}; there are {known}")
    require(job.route != "local" or len(job.nodes) == 1, "route local needs all ranks on one node")


def check_members(nodes: Sequence[JobNode]) -> None:
    """Nodes, their addresses, and the ranks on them."""
    require(bool(nodes), "there are no nodes")
    for node in nodes:
        require(1 <= len(node.ranks) <= MAX_CHILDREN, f"node {node.address} has {len(node.ranks)} ranks")
        require(len(set(node.switches)) == len(node.switches), f"node {node.address} passes a switch twice")
        for address in (node.address, *node.switches):
            ipv4(address)
    ranks = sorted(rank for node in nodes for rank in node.ranks)
    require(ranks == list(range(len(ranks))), "the nodes must hold the ranks 0 to N - 1, each once")


def check_rings(nodes: Sequence[JobNode]) -> None:
    """Rings of neighbouring nodes below one switch."""
    groups = [(number, list(members)) for number, members in groupby(nodes, lambda node: node.ring)]
    rings = [(number, members) for number, members in groups if number is not None]
    require(len({number for number, _ in rings}) == len(rings), "the nodes of a ring must follow each other")
    for number, members in rings:
        require(len(members) > 1, f"ring {number} has one node")
        check_ring_size(len(members))
        require(len({node.switches for node in members}) == 1, f"the nodes of ring {number} have different switches")


def check_ring_size(nodes: int) -> None:
    """A bitmap names the nodes of a ring."""
    require(nodes <= MAX_CHILDREN, f"a ring of {nodes} nodes; at most {MAX_CHILDREN} are possible")


def ipv4(address: str) -> int:
    """An address as a number, in host order."""
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError:
        raise InvalidRequest(
            f"job description: {address!r} is not an IPv4 address", remedy=DESCRIPTION_REMEDY
        ) from None


def require(condition: bool, complaint: str) -> None:
    """InvalidRequest about the description unless `condition` holds."""
    if not condition:
        raise InvalidRequest(f"job description: {complaint}", remedy=DESCRIPTION_REMEDY)
