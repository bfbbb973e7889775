"""What an allreduce must carry over each link, to the byte, if nothing is sent again.

In a tree each device sends up a partial of each segment, and gets its result. In a ring a segment goes round to the
node that completes it, and from there its result goes round to the node before that one. So a node sends each segment
twice, but for those that it completes, and for those that the next node completes; and it gets each twice, but for
those that it completes, and for those that the previous node completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from fanin_tools.job.job_file import Terms
from fanin_tools.job.placement import Placement
from fanin_wire.datatypes import DataType
from fanin_wire.geometry import part_lengths
from fanin_wire.operations import Operation


class Payload(NamedTuple):
    """Bytes of segments that a device sends and gets, over the link that leads up or those of its ring."""

    up: int
    down: int

    def plus(self, other: Payload) -> Payload:
        """Both."""
        return Payload(self.up + other.up, self.down + other.down)


NOTHING = Payload(0, 0)


class Cut(NamedTuple):
    """A message of `length` bytes in segments of `segment` bytes, whose partials are `width` times as long. rotates:
    whether the segments complete at all nodes of a ring of all nodes in turn, else at the last one."""

    length: int
    segment: int
    width: int = 1
    rotates: bool = True

    @property
    def whole_way(self) -> Payload:
        """Of a link between a device and the one above it."""
        return Payload(self.width * self.length, self.length)

    def completed(self, nodes: int, rotates: bool) -> list[int]:
        """Bytes that complete at each node of a ring."""
        if not rotates:
            return [0] * (nodes - 1) + [self.length]
        ends = [0] * nodes
        for length in part_lengths(self.length):  # the host cuts what is long, and each part begins anew
            full, rest = divmod(length, self.segment)
            for node in range(nodes):
                ends[node] += self.segment * len(range(node, full, nodes))
            ends[full % nodes] += rest
        return ends


def cut(length: int, chunk: int, operation: Operation, datatype: DataType, terms: Terms) -> Cut:
    """How devices cut a message that they reduce."""
    shape = terms.reproducible == "shape"
    width = 2 if (terms.wide or shape) and operation.widens(datatype) else 1
    return Cut(length, chunk // width, width, rotates=not shape)


def expected(placement: Placement, message: Cut, names: dict[str, str]) -> dict[str, Payload]:
    """Of each device that sends up or round, by its name. names: of the switches, by address."""
    nics = [nic.name for nic in placement.nics]
    if placement.route == "local":
        return {}
    if placement.route == "ring":
        return _ring(nics, message, message.rotates)
    found: dict[str, Payload] = {}
    ringed = zip(nics, placement.ways, strict=True)
    for number, group in groupby(ringed, lambda pair: pair[1].ring):
        members = [nic for nic, _ in group]
        found |= dict.fromkeys(members, NOTHING) if number is None else _ring(members, message, rotates=False)
        for nic in members if number is None else members[-1:]:
            found[nic] = found[nic].plus(message.whole_way)
    for way in placement.ways:
        found |= {names[lower]: message.whole_way for lower, _ in pairwise(way.switches)}
    return found


def _ring(members: Sequence[str], message: Cut, rotates: bool) -> dict[str, Payload]:
    completed = message.completed(len(members), rotates)
    found = {}
    for place, name in enumerate(members):
        before, here, after = completed[place - 1], completed[place], completed[(place + 1) % len(members)]
        sent = message.width * (message.length - here) + message.length - after
        taken = message.width * (message.length - before) + message.length - here
        found[name] = Payload(sent, taken)
    return found
