"""A switch or a NIC is killed: all ranks, near and far, learn which."""

from dataclasses import replace

import numpy as np
import pytest

from fanin import FaninError
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.e2e.fabrics import Bench
from tests.e2e.members import errors_of, job, run_ranks
from tests.waiting import BOUND_S, DETECTION_S

ONE_SWITCH = Shape(3, 1, detection=DETECTION_S)
TWO_LEVELS = replace(ONE_SWITCH, nodes=4, fanout=(2, 2))
RINGS_BELOW = replace(TWO_LEVELS, plain_leaves=True)
LOST = "does not answer, or was restarted"


def after_the_death_of(device: str, running: Running, route: str = "tree") -> tuple[str, list[FaninError]]:
    """The device's address, and the error of each rank, one on each node, that reduced repeatedly."""
    size = len(running.fabric.nics)
    with job(running, size, route, slots=64) as members:
        run_ranks(size, lambda rank: members[rank].allreduce(np.ones(9)))
        kill_device(running, device)

        def act(rank: int) -> None:
            while True:
                members[rank].allreduce(np.ones(9), timeout=BOUND_S)

        outcomes = run_ranks(size, act, 2 * BOUND_S)
    return next(each.address for each in running.fabric.devices if each.name == device), outcomes


@pytest.mark.parametrize("lanes", [1, 2])
def test_switch_above_the_nics(bench: Bench, lanes: int) -> None:
    address, outcomes = after_the_death_of("switch", bench.up(replace(ONE_SWITCH, lanes=lanes)))
    assert errors_of(outcomes) == ["PeerLost"] * 3
    for outcome in outcomes:
        assert outcome.lost_device == address
        assert f"; the switch {address} above this node's NIC {LOST}; cut off: node 127." in str(outcome)


@pytest.mark.parametrize("shape", [TWO_LEVELS, RINGS_BELOW], ids=["switches", "rings"])
def test_switch_at_the_top(bench: Bench, shape: Shape) -> None:
    """The NICs learn it from the switches between, or from the other nodes of their ring."""
    address, outcomes = after_the_death_of("switch", bench.up(shape))
    assert errors_of(outcomes) == ["PeerLost"] * 4
    for outcome in outcomes:
        assert outcome.lost_device == address
        assert f"; the switch {address} " in str(outcome)


def test_switch_beside_others(bench: Bench) -> None:
    address, outcomes = after_the_death_of("switch-0", bench.up(TWO_LEVELS))
    assert errors_of(outcomes) == ["PeerLost"] * 4
    for rank, outcome in enumerate(outcomes):
        assert outcome.lost_device == address
        place = " above this node's NIC" if rank < 2 else ""
        assert f"; the switch {address}{place} {LOST}; cut off: node 127." in str(outcome)
    assert [outcome.missing_ranks for outcome in outcomes[2:]] == [(0, 1)] * 2


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_nic_of_another_node(bench: Bench, route: str) -> None:
    address, outcomes = after_the_death_of("nic1", bench.up(ONE_SWITCH), route)
    assert errors_of(outcomes) == ["PeerLost", "DeviceLost", "PeerLost"]
    for outcome in (outcomes[0], outcomes[2]):
        assert (outcome.lost_device, outcome.missing_ranks) == (address, (1,))
        assert f"; the NIC {address} {LOST}; missing: rank 1 (node {address})" in str(outcome)
