"""Founding document 000: its examples, and random plans on arrays: every GPU has the data, in one copy."""

import itertools
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_cluster.handoff.plan import (
    Copy,
    HandoffInvalid,
    Link,
    Plan,
    Share,
    build,
    cut,
    joined,
    missing,
    plan_handoff,
    select,
)
from fanin_cluster.handoff.rehearsal import (
    Node,
    Rehearsal,
    RehearsalFailed,
    chosen_chunks,
    cost,
    naive_seconds,
    rehearse,
)
from fanin_cluster.topology.machine import Link as GpuLink
from fanin_cluster.topology.machine import Machine, Nearness
from tests.cluster.machines import NCCL, NCCL_BY_CLASS, machine_of

PLANS = int(os.environ.get("FANIN_TEST_PLANS", "300"))  # `make topology`: 10,000
D = 8 * 840


def node(folder: Path, near: list[int], gpus: int, speeds: tuple[int, ...] = ()) -> Machine:
    """A node with a switch for each number in `near`: a NIC, and so many GPUs. The others have their own switch.

    `speeds`: Mbit/s of the NICs.
    """
    number, parts = 0, []
    for switch, count in enumerate([*near, gpus - sum(near)]):
        inside = ""
        if switch < len(near):
            speed = speeds[switch] if speeds else 200_000
            inside = (
                f'<pci busid="{switch:x}:ff:0.0" class="0x020700"><nic>'
                f'<net name="mlx5_{switch}" speed="{speed}" guid="0x1"/></nic></pci>'
            )
        for _ in range(count):
            inside += f'<pci busid="{switch:x}:{number + 1:x}:0.0" class="0x030200"><gpu dev="{number}"/></pci>'
            number += 1
        parts.append(f'<pci busid="{switch:x}:0:0.0" class="0x060400">{inside}</pci>')
    text = f'<system version="1"><cpu numaid="0">{"".join(parts)}</cpu></system>'
    return machine_of(text, folder, f"{near}-{gpus}.xml")


def data_of(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(1, 256, size, np.uint8)


def is_right(rehearsal: Rehearsal, data: np.ndarray) -> None:
    """Every GPU of node 2 has the data, and each byte has crossed the network once."""
    assert rehearsal.second.valid.all()
    assert (rehearsal.second.bytes == data).all()
    assert (rehearsal.crossings == 1).all()


@pytest.mark.parametrize(
    ("near", "gpus", "links"),
    [
        ([2], 8, 2),  # figures 2 and 3, [39]
        ([2, 2], 8, 4),  # figure 4, [40]
        ([2, 2, 2, 2], 8, 8),  # figure 5, [40]
        ([2, 2, 2], 8, 6),  # three cards, which [40] names: 8 GPUs in 6 groups
    ],
)
def test_stripes_of_the_document(near: list[int], gpus: int, links: int, tmp_path: Path) -> None:
    """Link i carries block i of D/k."""
    machine = node(tmp_path, near, gpus)
    plan = plan_handoff(D, machine, machine)
    assert len(plan.links) == links
    assert [each.length for each in plan.stripes] == [D // links] * links
    assert [each.offset for each in plan.stripes] == [D // links * each for each in range(links)]
    assert plan.levels == (Nearness.SWITCH, Nearness.SWITCH)
    assert bool(plan.diffuse) == (links < gpus), "T5 only where k < N"
    is_right(rehearse(plan, data_of(D)), data_of(D))


def test_pieces_of_the_document(tmp_path: Path) -> None:
    """[46]: gpu21 gives to 21, 23, 25, 27, and gpu22 to 22, 24, 26, 28; each then owns an eighth."""
    machine = node(tmp_path, [2], 8)
    plan = plan_handoff(D, machine, machine)
    assert plan.groups == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert {each.owner: (each.offset, each.length) for each in plan.pieces} == {
        i + 2 * j: ((i * 4 + j) * D // 8, D // 8) for i in range(2) for j in range(4)
    }
    assert cost(plan).bytes == {"spread": 0, "send": D, "diffuse": 6 * D // 8, "collect": 7 * D}


def test_second_gpus_that_are_not_the_first_numbers(tmp_path: Path) -> None:
    """The NIC is beside GPUs 2 and 3: they keep a piece of their own stripe."""
    text = Path(node(tmp_path, [2], 4).source).read_text()
    for one, other in (("0", "x2"), ("1", "x3"), ("2", "x0"), ("3", "x1")):
        text = text.replace(f'dev="{one}"', f'dev="{other}"')
    machine = machine_of(text.replace('dev="x', 'dev="'), tmp_path)
    plan = plan_handoff(D, machine, machine)
    assert [(link.first, link.second) for link in plan.links] == [(2, 2), (3, 3)]
    assert plan.groups == ((2, 0), (3, 1))
    is_right(rehearse(plan, data_of(D)), data_of(D))


def test_a_gpu_joins_the_nearest_group(tmp_path: Path) -> None:
    """It needs room there; a link between GPUs is nearer than any switch."""
    machine = node(tmp_path, [3, 3], 6)
    assert plan_handoff(D, machine, machine, most_links=2).groups == ((0, 1, 2), (3, 4, 5))
    machine.links.append(GpuLink("nvlink", ("gpu1", "gpu3"), 4))
    assert plan_handoff(D, machine, machine, most_links=2).groups == ((0, 2, 5), (3, 1, 4))


def test_fewer_than_two_at_a_switch(tmp_path: Path) -> None:
    """The next class of nearness is taken until there are two, and the plan says so."""
    machine = machine_of(NCCL_BY_CLASS, tmp_path)
    assert select(machine).level is Nearness.OTHER
    plan = plan_handoff(D, machine, machine_of(NCCL, tmp_path, "other.xml"))
    assert plan.levels == (Nearness.OTHER, Nearness.SWITCH)
    assert len(plan.links) == 2
    single = node(tmp_path, [1], 1)
    assert len(plan_handoff(D, single, single).links) == 1, "a node of one GPU has one link"


def test_unequal_nodes_use_all_nics_first(tmp_path: Path) -> None:
    plan = plan_handoff(D, node(tmp_path, [2, 2], 8), node(tmp_path, [1, 1], 4))
    assert [(link.first, link.first_nic, link.second_nic) for link in plan.links] == [
        (0, "mlx5_0", "mlx5_0"),
        (2, "mlx5_1", "mlx5_1"),
    ]
    is_right(rehearse(plan, data_of(D)), data_of(D))


def test_stripes_are_in_proportion_to_rates(tmp_path: Path) -> None:
    fast = node(tmp_path, [1, 1], 2, (300_000, 100_000))
    plan = plan_handoff(D, fast, fast)
    assert [each.length for each in plan.stripes] == [D * 3 // 4, D // 4]
    found = cost(plan)
    assert found.seconds["send"] == pytest.approx(D / (400e9 / 8))
    shared = node(tmp_path, [2], 4)
    assert [link.rate for link in plan_handoff(D, shared, shared).links] == [12.5e9] * 2, "two links share a NIC"
    unknown = node(tmp_path, [2], 4, (0,))
    assert [link.rate for link in plan_handoff(D, shared, unknown, nic_rate=10e9).links] == [5e9] * 2


def test_cost(tmp_path: Path) -> None:
    machine = node(tmp_path, [2, 2], 8)
    plan = plan_handoff(D, machine, machine)
    found = cost(plan, 100e9)
    assert found.link_bytes == (D // 4,) * 4
    assert found.seconds == {
        "spread": 0,
        "send": pytest.approx(D / 50e9),
        "diffuse": pytest.approx(D / 8 / 100e9),
        "collect": pytest.approx(D * 7 / 8 / 100e9),
    }
    assert found.sequential == pytest.approx(sum(found.seconds.values()))
    assert found.pipelined(1) == pytest.approx(found.sequential)
    assert max(found.seconds.values()) < found.pipelined(1000) < 1.01 * max(found.seconds.values())
    assert naive_seconds(plan) == pytest.approx(8 * D / 50e9)
    assert chosen_chunks(plan, 100e9, step=1.0) == 1
    assert chosen_chunks(plan, 100e9, step=0.0) == 64
    assert chosen_chunks(plan.of_size(3), 100e9, step=0.0) == 1, "a stripe of one byte is not cut"


def test_whole_stripes_are_shared(tmp_path: Path) -> None:
    """The variant of [43] and claim 5: nothing is cut, and no GPU gets a stripe twice."""
    machine = node(tmp_path, [2], 8)
    plan = plan_handoff(D, machine, machine, whole=True)
    assert {each.length for each in plan.pieces} == {D // 2}
    assert len(plan.diffuse) == 6
    assert cost(plan).bytes["diffuse"] + cost(plan).bytes["collect"] == 7 * D
    assert sorted(copy.source for copy in plan.collect) == list(range(8)), "each GPU gives its stripe to one other"
    is_right(rehearse(plan, data_of(D)), data_of(D))


@pytest.mark.parametrize(
    ("options", "cause"),
    [({"holder": 8}, "there is no GPU 8"), ({"granule": 0}, "in granules of 0"), ({"most_links": -1}, "over -1 links")],
)
def test_wrong_arguments(options: dict[str, int], cause: str, tmp_path: Path) -> None:
    machine = node(tmp_path, [2], 8)
    with pytest.raises(HandoffInvalid, match=cause):
        plan_handoff(D, machine, machine, **options)  # type: ignore[arg-type]


def test_nodes_without_gpus_or_nics(tmp_path: Path) -> None:
    machine = node(tmp_path, [2], 8)
    with pytest.raises(HandoffInvalid, match="has no NIC with RDMA"):
        plan_handoff(D, node(tmp_path, [], 2), machine)
    with pytest.raises(HandoffInvalid, match="has no GPU"):
        plan_handoff(D, machine, node(tmp_path, [0], 0))


def test_a_rehearsal_finds_a_wrong_plan() -> None:
    first, second = Node(1, 4), Node(1, 4)
    with pytest.raises(RehearsalFailed, match="does not hold all"):
        second.take(first, Copy(0, 0, 1, 2))


@given(st.integers(0, 50), st.integers(0, 99), st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 8))
def test_cuts_cover(offset: int, length: int, weights: list[int], granule: int) -> None:
    parts = cut(offset, length, weights, granule)
    assert [start for start, _ in parts[1:]] == [start + count for start, count in parts[:-1]]
    assert (parts[0][0], sum(parts[-1])) == (offset, offset + length)
    assert all(count >= 0 for _, count in parts)
    assert all(start % granule == 0 or start == offset for start, _ in parts)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=5))
def test_missing_ranges(arrived: list[tuple[int, int]]) -> None:
    wanted = Share(0, 5, 20)
    here = {each for start, count in arrived for each in range(start, start + count)}
    gaps = [each for start, count in missing(wanted, arrived) for each in range(start, start + count)]
    assert gaps == [each for each in range(5, 25) if each not in here]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=6))
def test_joined_ranges(ranges: list[tuple[int, int]]) -> None:
    """The same bytes, with a gap between any two."""
    once = joined(ranges)
    here = {each for start, count in ranges for each in range(start, start + count)}
    assert sorted(here) == [each for start, count in once for each in range(start, start + count)]
    assert all(start + count < after for (start, count), (after, _) in itertools.pairwise(once))


def random_plan(chance: random.Random) -> Plan:
    """Any numbers of GPUs and links, rates, size, and groups of the right sizes."""
    first, second = chance.randint(1, 16), chance.randint(1, 16)
    count = chance.randint(1, min(first, second))
    senders, receivers = chance.sample(range(first), count), chance.sample(range(second), count)
    links = [
        Link(one, other, f"nic{one}", f"nic{other}", chance.choice((1e9, 12.5e9, 25e9, 50e9)))
        for one, other in zip(senders, receivers, strict=True)
    ]
    groups = [[each] for each in receivers]
    for turn, gpu in enumerate(
        chance.sample([each for each in range(second) if each not in receivers], second - count)
    ):
        groups[turn % count].append(gpu)
    return build(
        chance.choice((0, 1, chance.randint(1, 64), chance.randint(1, 4096))),
        links,
        groups,
        first_gpus=[f"gpu{each}" for each in range(first)],
        second_gpus=[f"gpu{each}" for each in range(second)],
        holder=chance.choice((None, chance.randrange(first))),
        whole=chance.random() < 0.25,
        granule=chance.choice((1, 1, 2, 8)),
    )


def random_failures(chance: random.Random, plan: Plan) -> list[list[int]]:
    """Links that fail in successive rounds, one or several at once; one remains."""
    left = chance.sample(range(len(plan.links)), chance.randint(0, len(plan.links) - 1))
    rounds = []
    while left:
        count = chance.randint(1, len(left))
        rounds.append(left[:count])
        left = left[count:]
    return rounds


def test_random_plans_in_chunks() -> None:
    """The chunks of a plan carry the data once, also over the links that are left after earlier failures."""
    chance = random.Random(2)
    for number in range(PLANS):
        plan = random_plan(chance)
        data = data_of(plan.size)
        rehearsal = Rehearsal(plan, data)
        failed: tuple[int, ...] = ()
        for part in plan.in_chunks(chance.randint(1, 5)):
            rehearsal.plan = part.avoiding(failed)
            rehearsal.spread()
            left = [each for each in range(len(plan.links)) if each not in failed]
            if len(left) > 1 and chance.random() < 0.3:
                arrived = rehearsal.send({chance.choice(left): chance.randint(0, plan.size)})
                rehearsal.plan = rehearsal.plan.without(arrived)
                rehearsal.spread()
            rehearsal.send()
            rehearsal.finish()
            failed = rehearsal.plan.failed
        try:
            is_right(rehearsal, data)
        except AssertionError:
            pytest.fail(f"plan {number}, {failed}: {plan}")


def test_random_plans() -> None:
    """Every GPU of node 2 has the data and each byte crosses the network once, also after failures."""
    chance = random.Random(0)
    for number in range(PLANS):
        plan = random_plan(chance)
        data = data_of(plan.size)
        rehearsal = Rehearsal(plan, data)
        rehearsal.spread()
        rounds = random_failures(chance, plan)
        for together in rounds:
            arrived = rehearsal.send({link: chance.randint(0, plan.size) for link in together})
            plan = rehearsal.plan = plan.without(arrived)
            rehearsal.spread()
        rehearsal.send()
        rehearsal.finish()
        try:
            is_right(rehearsal, data)
        except AssertionError:
            pytest.fail(f"plan {number}, {rounds}: {plan}")
        assert cost(plan).sequential >= 0
        *others, last = [each for each in range(len(plan.links)) if each not in plan.failed]
        for link in others:
            plan = plan.without({link: []})
        with pytest.raises(HandoffInvalid, match="the last link has failed"):
            plan.without({last: []})
