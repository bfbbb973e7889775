"""The payload that an allreduce must carry over each link, to the byte, if nothing is resent.

In a tree each device sends a partial result of each segment up and receives the result. In a ring a segment goes round
to the node that completes it, and the result from there to the node before that one. So a node sends each segment
twice, but only once if it or the next node completes it; it receives each segment twice, but only once if it or the
previous node completes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from fanin_tools.launch.placement import Placement
from fanin_wire.datatypes import DataType
from fanin_wire.geometry import part_sizes
from fanin_wire.operations import Operation
from fanin_wire.settings import JobSettings


class Payload(NamedTuple):
    """Segment bytes that a device sends and receives, over its uplink or the links of its ring."""

    up: int
    down: int

    def plus(self, other: Payload) -> Payload:
        return Payload(self.up + other.up, self.down + other.down)


NOTHING = Payload(0, 0)


class Segmentation(NamedTuple):
    """length: bytes of the message. segment: bytes of a segment. width: length of partial results, in results. rotates:
    segments complete at all nodes of a ring in turns; else all at the last."""

    length: int
    segment: int
    width: int = 1
    rotates: bool = True

    @property
    def whole_way(self) -> Payload:
        """Payload of an uplink."""
        return Payload(self.width * self.length, self.length)

    def completed(self, nodes: int, rotates: bool) -> list[int]:
        """Bytes of the segments that complete at each node of a ring."""
        if not rotates:
            return [0] * (nodes - 1) + [self.length]
        ends = [0] * nodes
        for part in part_sizes(self.length):  # the first segment of each part completes at node 0 again
            full, rest = divmod(part, self.segment)
            for node in range(nodes):
                ends[node] += self.segment * len(range(node, full, nodes))
            ends[full % nodes] += rest
        return ends


def segmentation(
    length: int, chunk: int, operation: Operation, datatype: DataType, settings: JobSettings
) -> Segmentation:
    shape = settings.reproducible == "shape"
    width = operation.widening(datatype) if settings.wide or shape else 1
    return Segmentation(length, chunk // width, width, rotates=not shape)


def expected(placement: Placement, message: Segmentation, names: dict[str, str]) -> dict[str, Payload]:
    """By device that sends. names: of the switches, by address."""
    nics = [nic.name for nic in placement.nics]
    if placement.route == "local":
        return {}
    if placement.route == "ring":
        return _ring(nics, message, message.rotates)
    found: dict[str, Payload] = {}
    ringed = zip(nics, placement.uplinks, strict=True)
    for number, group in groupby(ringed, lambda pair: pair[1].ring):
        members = [nic for nic, _ in group]
        found |= dict.fromkeys(members, NOTHING) if number is None else _ring(members, message, rotates=False)
        for nic in members if number is None else members[-1:]:
            found[nic] = found[nic].plus(message.whole_way)
    for uplink in placement.uplinks:
        found |= {names[lower]: message.whole_way for lower, _ in pairwise(uplink.switches)}
    return found


def _ring(members: Sequence[str], message: Segmentation, rotates: bool) -> dict[str, Payload]:
    completed = message.completed(len(members), rotates)
    found = {}
    for place, name in enumerate(members):
        before, here, after = completed[place - 1], completed[place], completed[(place + 1) % len(members)]
        sent = message.width * (message.length - here) + message.length - after
        taken = message.width * (message.length - before) + message.length - here
        found[name] = Payload(sent, taken)
    return found
