"""The plan of a hand-off: every copy of every stage, before anything is sent (000, T4 to T6).

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fanin_cluster.handoff.ranges import Share, cut, missing, overlaps
from fanin_cluster.handoff.selection import NIC_RATE, HandoffInvalid, Link, pair, select
from fanin_cluster.topology.machine import Machine, Nearness, distance


@dataclass(frozen=True)
class Copy:
    """A range that one GPU writes into the memory of another, at the same offset. GPUs are indices in their nodes."""

    source: int
    target: int
    offset: int
    length: int


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
