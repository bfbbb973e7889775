"""The plan of a hand-off: GPUs, NICs and every copy of every stage, before anything is sent (000, T1 to T8).

*First GPUs* are those of the sending node, *second GPUs* those of the receiving one: GPUs that share a switch with a
NIC with RDMA. If fewer than two do, the next class of nearness is taken, and so on; the plan names the class. Link i
joins the i-th first GPU to the i-th second GPU. GPUs are counted in turn over the NICs, so that the first k use as many
NICs as possible.

| stage | rule | from | to | what |
| --- | --- | --- | --- | --- |
| spread | | the holder | first GPUs | its stripe for each link, if only one GPU of node 1 holds the data |
| send | T4 | first GPU i | second GPU i | stripe i, over the network: each byte once |
| diffuse | T5 | second GPUs | GPUs of node 2 | pieces of the stripes, until every GPU owns one |
| collect | T6 | GPUs of node 2 | all others there | the piece that each owns |

The GPUs of node 2 form groups, one for each link; the first member is the second GPU. Stripe i has as many pieces as
group i has members, so a second GPU keeps a piece of what it receives. Source and target of a copy have the same offset
in the data, so the order of ranks does not matter and no buffer is permuted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from fanin_cluster.errors import ClusterError
from fanin_cluster.topology.machine import Component, Machine, Nearness, distance
from fanin_cluster.topology.report import gpus_of_nics

AT_LEAST = 2  # [6]
NIC_RATE = 25e9  # bytes per second (200 Gbit/s) of a NIC whose rate is unknown


# The plan


class HandoffInvalid(ClusterError):
    """A hand-off that is impossible to plan."""


@dataclass(frozen=True)
class Plan:
    """A hand-off of `size` bytes.

    first_gpus, second_gpus: names of all GPUs of node 1 and of node 2
    stripes: what each link carries; a link has several after another has failed
    groups: of each link, the GPUs of node 2 that own pieces of its stripe; the second GPU is the first of them
    pieces: what each GPU of node 2 owns after the diffusion
    holder: the only GPU of node 1 that holds the data; None if all do
    whole: second GPUs share their whole stripes, and none is cut ([43], claim 5)
    granule: bytes that are not cut
    levels: the classes of nearness of first GPUs and of second GPUs to their NICs
    arrived: what second GPUs hold before this plan begins; owner is the GPU
    failed: links out of use
    """

    size: int
    first_gpus: tuple[str, ...]
    second_gpus: tuple[str, ...]
    links: tuple[Link, ...]
    stripes: tuple[Share, ...]
    groups: tuple[tuple[int, ...], ...]
    pieces: tuple[Share, ...]
    holder: int | None = None
    whole: bool = False
    granule: int = 1
    levels: tuple[Nearness, Nearness] = (Nearness.SWITCH, Nearness.SWITCH)
    arrived: tuple[Share, ...] = ()
    failed: tuple[int, ...] = ()

    @property
    def spread(self) -> list[Copy]:
        """Stage in node 1: the holder gives each first GPU its stripes."""
        if self.holder is None:
            return []
        return [
            Copy(self.holder, self.links[each.owner].first, each.offset, each.length)
            for each in self.stripes
            if each.length and self.links[each.owner].first != self.holder
        ]

    @property
    def send(self) -> list[tuple[int, Copy]]:
        """Stage over the network: the link of each copy, and the copy."""
        return [
            (each.owner, Copy(self.links[each.owner].first, self.links[each.owner].second, each.offset, each.length))
            for each in self.stripes
            if each.length
        ]

    @property
    def held(self) -> list[Share]:
        """What second GPUs hold after the network."""
        return [*self.arrived, *(Share(copy.target, copy.offset, copy.length) for _, copy in self.send)]

    @property
    def diffuse(self) -> list[Copy]:
        """Stage in node 2: every GPU gets the pieces that it owns."""
        return [Copy(*each) for each in overlaps(self.held, self.pieces) if each[0] != each[1]]

    @property
    def collect(self) -> list[Copy]:
        """Stage in node 2: every GPU gets what it lacks. Several owners of a piece send it in turn."""
        copies = []
        owners: dict[tuple[int, int], list[int]] = {}
        for piece in self.pieces:
            owners.setdefault((piece.offset, piece.length), []).append(piece.owner)
        for (offset, length), owning in owners.items():
            lacking = [gpu for gpu in range(len(self.second_gpus)) if gpu not in owning]
            copies += [
                Copy(owning[turn % len(owning)], gpu, offset, length) for turn, gpu in enumerate(lacking) if length
            ]
        return copies

    def without(self, failures: Mapping[int, Sequence[tuple[int, int]]]) -> Plan:
        """The rest of this plan after links have failed in the network stage.

        Args:
            failures: for each failed link, by its index, the ranges (offset, length) of its stripes that have arrived.
                The stripes of all other links arrive whole.

        Returns: a plan for the missing ranges over the other links, in proportion to their rates.
        Raises HandoffInvalid if there is no other link.
        """
        failed = (*self.failed, *failures)
        stripes: list[Share] = []
        arrived = list(self.arrived)
        for stripe in self.stripes:
            second = self.links[stripe.owner].second
            if stripe.owner not in failures:
                arrived.append(Share(second, stripe.offset, stripe.length))
                continue
            ranges = [Share(second, *each) for each in failures[stripe.owner]]
            arrived += [Share(second, *each[2:]) for each in overlaps(ranges, [stripe])]
            for gap in missing(stripe, failures[stripe.owner]):
                stripes += self._striped_again(gap, failed)
        if not set(range(len(self.links))) - set(failed):
            raise _none_left()
        return replace(self, stripes=tuple(stripes), arrived=tuple(arrived), failed=failed)

    def avoiding(self, failed: Sequence[int]) -> Plan:
        """This plan, before anything is sent, without the failed links. Raises HandoffInvalid if no link is left."""
        stripes: list[Share] = []
        for stripe in self.stripes:
            here = stripe.owner in failed and stripe.length
            stripes += self._striped_again((stripe.offset, stripe.length), failed) if here else [stripe]
        return replace(self, stripes=tuple(stripes), failed=tuple(failed))

    def _striped_again(self, gap: tuple[int, int], failed: Sequence[int]) -> list[Share]:
        others = [each for each in range(len(self.links)) if each not in failed]
        if not others:
            raise _none_left()
        parts = cut(*gap, _weights([self.links[each] for each in others]), self.granule)
        return [Share(other, *part) for other, part in zip(others, parts, strict=True) if part[1]]

    def of_size(self, size: int) -> Plan:
        """The plan for data of another size over the same links, without failed ones."""
        stripes = _stripes(size, self.links, self.granule)
        pieces = _pieces(stripes, self.groups, self.whole, self.granule)
        fresh = replace(self, size=size, stripes=stripes, pieces=pieces, arrived=())
        return fresh.avoiding(self.failed) if self.failed else fresh

    def in_chunks(self, count: int) -> list[Plan]:
        """This plan, before anything is sent, as `count` plans that follow each other through the stages.

        Each has one part of every stripe, and its pieces. Together they carry the data once.
        """
        parts = [cut(stripe.offset, stripe.length, [1] * count, self.granule) for stripe in self.stripes]
        plans = []
        for chunk in range(count):
            stripes = [Share(stripe.owner, *part[chunk]) for stripe, part in zip(self.stripes, parts, strict=True)]
            pieces = _pieces(stripes, self.groups, self.whole, self.granule)
            plans.append(replace(self, stripes=tuple(stripes), pieces=pieces))
        return plans


@dataclass(frozen=True)
class Copy:
    """A range that one GPU writes into the memory of another, at the same offset. GPUs are indices in their nodes."""

    source: int
    target: int
    offset: int
    length: int


def plan_handoff(
    size: int,
    first: Machine,
    second: Machine,
    *,
    most_links: int = 0,
    holder: int | None = None,
    whole: bool = False,
    granule: int = 1,
    nic_rate: float = NIC_RATE,
) -> Plan:
    """Plan a hand-off of `size` bytes from a node to all GPUs of another.

    Args:
        most_links: 0 for as many as the topology has; 1 for data that are too short to be cut.
        holder: the index of the only GPU of node 1 that holds the data; None if all do.
        whole: second GPUs share whole stripes.
        granule: bytes of an element, which is not cut.
        nic_rate: bytes per second of NICs whose rate is unknown.

    Raises HandoffInvalid for a node without a GPU or a NIC with RDMA, and for arguments out of range.
    """
    senders, receivers = select(first), select(second)
    _check(size, first, most_links, holder, granule)
    links = pair(senders, receivers, most_links, nic_rate)
    return build(
        size,
        links,
        groups_of(links, second),
        first_gpus=[gpu.name for gpu in first.gpus],
        second_gpus=[gpu.name for gpu in second.gpus],
        holder=holder,
        whole=whole,
        granule=granule,
        levels=(senders.level, receivers.level),
    )


def build(
    size: int,
    links: Sequence[Link],
    groups: Sequence[Sequence[int]],
    *,
    first_gpus: Sequence[str],
    second_gpus: Sequence[str],
    holder: int | None = None,
    whole: bool = False,
    granule: int = 1,
    levels: tuple[Nearness, Nearness] = (Nearness.SWITCH, Nearness.SWITCH),
) -> Plan:
    """The plan for given links and groups: stripes in proportion to the rates of the links, and their pieces."""
    stripes = _stripes(size, links, granule)
    return Plan(
        size,
        tuple(first_gpus),
        tuple(second_gpus),
        tuple(links),
        stripes,
        tuple(map(tuple, groups)),
        _pieces(stripes, groups, whole, granule),
        holder,
        whole,
        granule,
        levels,
    )


def groups_of(links: Sequence[Link], machine: Machine) -> list[list[int]]:
    """The GPUs of node 2 by the link whose stripe they own pieces of; sizes differ by one at most.

    A GPU joins the nearest second GPU whose group has room: first by links of its own kind, then by bridges, then by
    the size of the group. If all are equally near, this is the interleaved order of [46].
    """
    gpus = machine.gpus
    groups = [[link.second] for link in links]
    least, larger = divmod(len(gpus), len(links))
    linked = {frozenset(link.ends) for link in machine.links}
    for gpu in range(len(gpus)):
        if any(gpu == group[0] for group in groups):
            continue
        full = sum(len(group) > least for group in groups)
        room = [group for group in groups if len(group) < least or (len(group) == least and full < larger)]

        def key(group: list[int], gpu: int = gpu) -> tuple[bool, tuple[Nearness, int], int]:
            pair_of_names = frozenset((gpus[gpu].name, gpus[group[0]].name))
            return pair_of_names not in linked, distance(gpus[gpu], gpus[group[0]]), len(group)

        min(room, key=key).append(gpu)
    return groups


def _stripes(size: int, links: Sequence[Link], granule: int) -> tuple[Share, ...]:
    return tuple(Share(link, *part) for link, part in enumerate(cut(0, size, _weights(links), granule)))


def _pieces(stripes: Sequence[Share], groups: Sequence[Sequence[int]], whole: bool, granule: int) -> tuple[Share, ...]:
    """The pieces of GPUs of node 2: of each stripe, one for each GPU of the group of its link."""
    pieces = []
    for stripe in stripes:
        group = groups[stripe.owner]
        whole_stripe = [(stripe.offset, stripe.length)] * len(group)
        parts = whole_stripe if whole else cut(stripe.offset, stripe.length, [1] * len(group), granule)
        pieces += [Share(gpu, offset, length) for gpu, (offset, length) in zip(group, parts, strict=True)]
    return tuple(pieces)


def _none_left() -> HandoffInvalid:
    return HandoffInvalid("the last link has failed", "repair a link and begin anew")


def _weights(links: Sequence[Link]) -> list[int]:
    """The rates of links in whole bytes per second."""
    return [max(1, round(link.rate)) for link in links]


def _check(size: int, first: Machine, most_links: int, holder: int | None, granule: int) -> None:
    if size < 0 or granule < 1 or most_links < 0:
        raise HandoffInvalid(
            f"{size} bytes in granules of {granule} over {most_links} links",
            "give a size from 0, a granule from 1, and a number of links from 0 on",
        )
    if holder is not None and not 0 <= holder < len(first.gpus):
        raise HandoffInvalid(f"there is no GPU {holder} in {first.source}", f"give one from 0 to {len(first.gpus) - 1}")


# GPUs and NICs


@dataclass(frozen=True)
class Candidate:
    """A GPU that may take part, and its NIC. `gpu` is its index among the GPUs of its machine."""

    gpu: int
    nic: Component


@dataclass(frozen=True)
class Side:
    """The GPUs of a node that may take part, in turn over the NICs, and the class of nearness that was needed."""

    candidates: tuple[Candidate, ...]
    level: Nearness


@dataclass(frozen=True)
class Link:
    """A first GPU and a second GPU, by their indices, and their NICs. `rate`: bytes per second."""

    first: int
    second: int
    first_nic: str
    second_nic: str
    rate: float


def select(machine: Machine) -> Side:
    """The GPUs of a node that may take part (T2). Raises HandoffInvalid without a GPU or a NIC with RDMA."""
    if not machine.gpus:
        raise HandoffInvalid(f"{machine.source} has no GPU", "give a node with GPUs")
    if not machine.rdma_nics:
        raise HandoffInvalid(f"{machine.source} has no NIC with RDMA", "give a node with one")
    wanted = min(AT_LEAST, len(machine.gpus))
    for level in Nearness:
        groups, _ = gpus_of_nics(machine, level)
        if sum(map(len, groups.values())) >= wanted:
            break
    index = {id(gpu): position for position, gpu in enumerate(machine.gpus)}
    by_nic = [[Candidate(index[id(gpu)], nic) for gpu in groups[nic.name]] for nic in machine.rdma_nics]
    turns = zip_longest(*by_nic)
    return Side(tuple(each for turn in turns for each in turn if each is not None), level)


def pair(first: Side, second: Side, most: int = 0, nic_rate: float = NIC_RATE) -> tuple[Link, ...]:
    """The links of two nodes (T3): as many as the smaller side has GPUs, at most `most` unless that is 0.

    The links of a NIC divide its rate equally; a link has the lower rate of its two ends. `nic_rate` stands for unknown
    rates.
    """
    count = min(len(first.candidates), len(second.candidates))
    count = min(count, most) if most else count
    senders, receivers = first.candidates[:count], second.candidates[:count]
    return tuple(
        Link(
            one.gpu,
            other.gpu,
            one.nic.name,
            other.nic.name,
            min(_share(one, senders, nic_rate), _share(other, receivers, nic_rate)),
        )
        for one, other in zip(senders, receivers, strict=True)
    )


def _share(candidate: Candidate, side: Sequence[Candidate], nic_rate: float) -> float:
    return (candidate.nic.rate or nic_rate) / sum(each.nic is candidate.nic for each in side)


def device_of(devices: Mapping[str, str], nic: str, what: str = "device") -> str:
    """The socket, or another property, of the device of a NIC. Raises HandoffInvalid if it is missing."""
    if nic not in devices:
        raise HandoffInvalid(f"the {what} of {nic} is missing", "give it for each NIC of the plan's links")
    return devices[nic]


# Ranges of bytes


@dataclass(frozen=True)
class Share:
    """A range of the data. `owner`: the index of a link, or of a GPU."""

    owner: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


def cut(offset: int, length: int, weights: Sequence[int], granule: int = 1) -> list[tuple[int, int]]:
    """Cut a range into parts in proportion to weights: (offset, length) of each; a part may be empty.

    Parts begin at multiples of `granule` from the start of the data, so that no element is cut.
    """
    total = sum(weights)
    bounds, sum_so_far = [offset], 0
    for weight in weights[:-1]:
        sum_so_far += weight
        bound = offset + length * sum_so_far // total
        bounds.append(min(max(bound - bound % granule, bounds[-1]), offset + length))
    bounds.append(offset + length)
    return [(start, end - start) for start, end in pairwise(bounds)]


def overlaps(held: Iterable[Share], wanted: Iterable[Share]) -> list[tuple[int, int, int, int]]:
    """(holder, owner, offset, length) of each part of the wanted ranges that is held."""
    found = []
    for want in wanted:
        for have in held:
            start, end = max(want.offset, have.offset), min(want.end, have.end)
            if start < end:
                found.append((have.owner, want.owner, start, end - start))
    return found


def missing(wanted: Share, arrived: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts (offset, length) of a range that have not arrived, in order."""
    gaps, position = [], wanted.offset
    for start, length in sorted(arrived):
        start, end = max(start, wanted.offset), min(start + length, wanted.end)
        if start > position:
            gaps.append((position, min(start, wanted.end) - position))
        position = max(position, end)
    if position < wanted.end:
        gaps.append((position, wanted.end - position))
    return gaps


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes as (offset, length) in order; adjacent and overlapping ranges are merged."""
    found: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if found and start <= sum(found[-1]):
            first, count = found[-1]
            found[-1] = first, max(count, start + length - first)
        else:
            found.append((start, length))
    return found
