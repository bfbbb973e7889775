"""A NIC of two lanes passes its scripts over UDP, and one that cuts or ends messages wrongly fails them."""

import contextlib
import shlex
import sys
from collections.abc import Iterator

import pytest

from fanin_conform import suite
from fanin_conform.faults import Fault, FaultyTarget, losing
from fanin_conform.nic_faults import changing
from fanin_conform.profile import Profile
from fanin_conform.script import NIC_TREE
from fanin_conform.targets.opening import open_target
from fanin_conform.targets.target import Target
from fanin_tools.fabric.generate import Shape
from fanin_wire.fields import Opcode
from tests.e2e.fabrics import Bench
from tests.fabric.fixtures import own_state_folder

pytestmark = pytest.mark.process
PROFILE = Profile(role="nic-tree", lanes=2)
SCRIPTS = suite.chosen(["nic_lanes/"], NIC_TREE)


def _next_lane(position: int) -> int:
    return position + 16


FAULTS = (
    Fault("sid is counted by lane", "6.1-14", outward=changing(Opcode.CONTRIBUTION, "sid", lambda sid: sid % 16)),
    Fault("the other lanes are not told of an end", "6.1-17", outward=losing(Opcode.LEAVE)),
    Fault("positions go on from lane to lane", "6.1-14", outward=changing(Opcode.CONTRIBUTION, "position", _next_lane)),
)


@pytest.fixture(scope="module")
def nic() -> Iterator[Target]:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        running = Bench("laned").up(Shape(nodes=1, direct=True, lanes=2))
        (device,) = running.fabric.nics
        agent = shlex.join([sys.executable, "-m", "fanin_agent", str(running.state.socket(device.name))])
        with contextlib.closing(open_target(f"nic://{device.address}", "", suite.ADDRESSES, "", agent)) as target:
            yield target


def test_it_passes(nic: Target) -> None:
    verdicts = suite.run(nic, SCRIPTS, 1, lambda verdict: None, PROFILE)
    assert [(each.script.name, each.outcome, each.text) for each in verdicts if each.outcome != suite.PASSED] == []
    assert len(verdicts) == 4


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_one_fails(nic: Target, fault: Fault) -> None:
    naming = [each for each in SCRIPTS if fault.clause in each.clauses]
    verdicts = suite.run(FaultyTarget(nic, fault), naming, 2, lambda verdict: None, PROFILE)
    assert fault.clause in {number for each in verdicts if each.outcome == suite.FAILED for number in each.clauses}


def test_scripts_of_one_lane_are_named(nic: Target) -> None:
    chosen = suite.chosen(["nic_segments/a_barrier"], NIC_TREE)
    (verdict,) = suite.run(nic, chosen, 1, lambda verdict: None, PROFILE)
    assert (verdict.outcome, verdict.text) == (suite.NOT_RUN, "the device has no place in a job of one lane")
