"""Founding document 002: its examples; the readings; its gaps."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_cluster.placement import differences
from fanin_cluster.placement.choice import Job, Reading, choose, fit, recommended, scores, winners
from fanin_cluster.placement.classes import Affinity, PlacementInvalid, server_classes, vf_of_container
from fanin_cluster.placement.simulation import simulate
from fanin_cluster.topology.machine import Machine
from fanin_cluster.topology.sysfs import read_sysfs
from tests.cluster.machines import NCCL, machine_of
from tests.cluster.nodes import SUBNETS, write_node_of_the_document

TOTAL, RECOMMENDED, VOTES = Reading
ROCE1, ROCE2 = 0, 1
PAGE = Path(__file__).parents[2] / "docs/decisions/0085-class-by-total-of-free-pairs.md"


@pytest.fixture
def node(tmp_path: Path) -> Machine:
    write_node_of_the_document(tmp_path)
    return read_sysfs(tmp_path)


def test_classes_of_the_document(node: Machine) -> None:
    found = server_classes(node)
    first, second = found.classes
    assert (first.name, second.name) == ("gpu-roce1", "gpu-roce2")
    assert [pair.name for pair in first.pairs] == ["gpu0_mlx5_4", "gpu1_mlx5_5", "gpu2_mlx5_6", "gpu3_mlx5_7"]
    assert [pair.name for pair in second.pairs] == ["gpu4_mlx5_8", "gpu5_mlx5_9", "gpu6_mlx5_10", "gpu7_mlx5_11"]
    assert found.needed == {"mlx5_0": 4, "mlx5_1": 4}, "a VF for each affine GPU"
    assert found.without_nic == found.without_vf == []


def test_a_container_gets_one_vf(node: Machine) -> None:
    """[45], [46]: two GPUs, and of their VFs the one with the document's PCI address."""
    pairs = server_classes(node).classes[ROCE1].pairs[:2]
    assert vf_of_container(pairs) == "mlx5_4"
    assert pairs[0].address == "0000:5e:00.1"
    with pytest.raises(PlacementInvalid, match="without a GPU"):
        vf_of_container([])


def test_classes_are_named_by_subnet(node: Machine) -> None:
    """A class is one subnet on every node, in any order of NICs."""
    first, second = server_classes(node, SUBNETS).classes
    assert (first.name, first.subnet) == ("gpu-roce-10-1-0-0-24", "10.1.0.0/24")
    assert second.name == "gpu-roce-10-2-0-0-24"
    (one,) = server_classes(node, dict.fromkeys(SUBNETS, "10.1.0.0/24")).classes
    assert len(one.pairs) == 8, "one subnet is one class"


@pytest.mark.parametrize(
    ("subnets", "cause"),
    [
        ({"mlx5_0": "10.1.0.0/24"}, "the subnet of mlx5_1 is missing"),
        ({**SUBNETS, "mlx5_9": "10.3.0.0/24"}, "there is no NIC mlx5_9 with RDMA"),
        ({**SUBNETS, "mlx5_1": "10.2.0.1/24"}, "subnet of mlx5_1: 10.2.0.1/24 has host bits set"),
    ],
)
def test_wrong_subnets(node: Machine, subnets: dict[str, str], cause: str) -> None:
    with pytest.raises(PlacementInvalid, match=cause):
        server_classes(node, subnets)


def test_too_few_virtual_functions(tmp_path: Path) -> None:
    write_node_of_the_document(tmp_path, functions=3)
    found = server_classes(read_sysfs(tmp_path))
    assert [len(each.pairs) for each in found.classes] == [3, 3]
    assert found.without_vf == ["gpu3", "gpu7"]


def test_affinity(tmp_path: Path) -> None:
    machine = machine_of(NCCL, tmp_path)
    (numa,) = server_classes(machine).classes
    assert [pair.name for pair in numa.pairs] == ["gpu0_mlx5_0v0", "gpu1_mlx5_0v1", "gpu2_mlx5_0v2"]
    found = server_classes(machine, affinity=Affinity.SWITCH)
    assert [pair.gpu for pair in found.classes[0].pairs] == ["gpu0", "gpu1"]
    assert found.without_nic == ["gpu2", "gpu3"]


def test_equally_near_nics_share_the_gpus(tmp_path: Path) -> None:
    nic = '<pci busid="0000:14:00.0" class="0x020700"><nic><net name="mlx5_9" speed="1" guid="0x9"/></nic></pci>'
    text = NCCL.replace('<pci busid="0000:12:00.0"', f'{nic}<pci busid="0000:12:00.0"')
    assert server_classes(machine_of(text, tmp_path)).needed == {"mlx5_9": 2, "mlx5_0": 1}


def test_choice_of_the_document() -> None:
    """[42]: a node recommends the class with more free, else the second; the class of more nodes wins, or either."""
    assert [recommended(free) for free in ((3, 2), (2, 3), (2, 2))] == [ROCE1, ROCE2, ROCE2]
    assert winners([(4, 0), (4, 0), (0, 4)], VOTES) == {ROCE1}
    assert winners([(4, 0), (0, 4), (0, 4)], VOTES) == {ROCE2}
    assert winners([(4, 0), (0, 4)], VOTES) == {ROCE1, ROCE2}


def test_readings_differ() -> None:
    state = [(0, 3), (1, 0), (3, 2)]
    assert {reading: scores(state, reading) for reading in Reading} == {
        TOTAL: (4, 5),
        RECOMMENDED: (4, 3),
        VOTES: (2, 1),
    }
    found = differences.outcomes()
    assert sum(count for count, _ in found.values()) == 15_625
    assert sum(count for outcome, (count, _) in found.items() if len(set(outcome)) > 1) == 4382


def test_the_page_has_the_differences() -> None:
    page = PAGE.read_text()
    assert differences.with_table(page) == page, f"python -m fanin_cluster.placement.differences {PAGE}"


def test_a_class_must_hold_the_job() -> None:
    """The largest score does not help a worker that fits on no node of the class."""
    state = [(1, 4), (1, 0), (1, 0), (2, 0)]
    assert winners(state, TOTAL) == winners(state, VOTES) == {ROCE1}
    for reading in Reading:
        choice = choose(state, Job(workers=1, gpus=4), reading)
        assert choice is not None
        assert (choice.resource_class, choice.workers, choice.feasible) == (ROCE2, (1, 0, 0, 0), (ROCE2,))
    assert choose(state, Job(workers=2, gpus=3)) is None


def test_ties_leave_the_fewest_pieces() -> None:
    choice = choose([(4, 2), (0, 2)], Job(workers=1, gpus=2))
    assert choice is not None
    assert choice.scores == (4, 4)
    assert choice.resource_class == ROCE2, "a whole group of four stays free"


@pytest.mark.parametrize(
    ("state", "job"),
    [([], Job(1, 1)), ([()], Job(1, 1)), ([(1, 2), (1,)], Job(1, 1)), ([(1, -1)], Job(1, 1)), ([(1, 1)], Job(1, 0))],
)
def test_wrong_choices(state: list[tuple[int, ...]], job: Job) -> None:
    with pytest.raises(PlacementInvalid):
        choose(state, job)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_workers_fit(free: list[int], workers: int, gpus: int, spread: bool) -> None:
    """A fit is found exactly if one exists, and takes only free pairs."""
    job = Job(workers, gpus, spread)
    rooms = [range((min(1, each // gpus) if spread else each // gpus) + 1) for each in free]
    possible = any(sum(each) == workers for each in itertools.product(*rooms))
    found = fit(free, job)
    assert (found is not None) == possible
    if found is not None:
        assert sum(found) == workers
        assert all(count in room for count, room in zip(found, rooms, strict=True))


def test_simulation_places_every_job() -> None:
    for reading in Reading:
        outcome = simulate(reading, feasible=True, jobs=200, seed=1, load=0.3)
        assert 0.5 < outcome.at_once <= 1
        assert outcome.wait >= 0
