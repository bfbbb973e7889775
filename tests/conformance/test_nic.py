"""The suite passes the engine of a NIC, and fails each faulty NIC in the broken demand."""

import pytest

from fanin_conform import coverage, suite
from fanin_conform.faults import Fault, FaultyTarget
from fanin_conform.nic_faults import NIC_FAULTS
from fanin_conform.profile import EVERY_NIC, Profile
from fanin_conform.script import NIC, NIC_RING, NIC_TREE, ROCEV2, SWITCH
from fanin_conform.targets.engine import EngineNicTarget


def ignore(verdict: suite.Verdict) -> None:
    """Of no interest."""


def test_the_engine_passes() -> None:
    """In the scripts of the offload; test_verbs.py has those of ordinary traffic."""
    chosen = [each for each in suite.chosen([], NIC) if each.role != ROCEV2]
    verdicts = suite.run(EngineNicTarget(suite.ADDRESSES), chosen, 1, ignore, EVERY_NIC)
    assert [(each.script.name, each.text) for each in verdicts if each.outcome == suite.FAILED] == []
    not_run = {each.script.name for each in verdicts if each.outcome == suite.NOT_RUN}
    of_lanes = {each.name for each in chosen if each.name.startswith("nic_lanes/")}
    assert not_run == {each.name for each in chosen if each.needs} | of_lanes
    assert len(verdicts) - len(not_run) > 110


@pytest.mark.parametrize("fault", NIC_FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_nic_fails_in_the_demand_that_it_breaks(fault: Fault) -> None:
    naming = [each for each in suite.chosen([], NIC) if fault.clause in each.clauses and not each.needs]
    if fault.clause in coverage.EVERY_PACKET:
        naming = suite.chosen(["nic_segments/"], NIC)
    assert naming
    target = FaultyTarget(EngineNicTarget(suite.ADDRESSES), fault)
    verdicts = suite.run(target, naming, 1, ignore, EVERY_NIC)
    failed = {number for each in verdicts if each.outcome == suite.FAILED for number in each.clauses}
    assert fault.clause in failed


def test_roles_choose_scripts() -> None:
    of = {role: {each.name for each in suite.chosen([], role)} for role in (SWITCH, NIC, NIC_TREE, NIC_RING, ROCEV2)}
    assert of[NIC] == of[NIC_TREE] | of[NIC_RING] | of[ROCEV2]
    assert not of[NIC] & of[SWITCH]
    assert "nic_arithmetic/a_node_alone" in of[NIC_TREE] & of[NIC_RING]
    assert any(name.startswith("ring_") for name in of[NIC_RING] - of[NIC_TREE])


def test_a_small_nic() -> None:
    profile = Profile(role="nic-tree", operations=("SUM",), types=("f32", "i32"), wide=False, reproducible=False)
    chosen = suite.chosen([], "nic-tree")
    verdicts = suite.run(EngineNicTarget(suite.ADDRESSES), chosen, 3, ignore, profile)
    assert [(each.script.name, each.text) for each in verdicts if each.outcome == suite.FAILED] == []
    found = {each.script.name: each for each in verdicts}
    for name, lacks in (("nic_arithmetic/prod", "PROD"), ("nic_segments/wide_partials", "wide jobs")):
        assert (found[name].outcome, found[name].text) == (suite.NOT_RUN, f"the device has no {lacks}")
    assert "f64" in found["nic_arithmetic/sum"].left_out
