"""The whole switch: the conformance suite by its profile, and the same packets as the switch in plain Python."""

from __future__ import annotations

from fanin_conform import conversation, suite
from fanin_conform.profile import read
from fanin_conform.suite import FAILED, NOT_RUN, PASSED
from fanin_conform.targets.reference import ReferenceTarget
from fpga_cosim.tb.target import RtlTarget
from fpga_cosim.tb.tools import ROOT
from fpga_cosim.tb.verilated import Module

PROFILE = read((ROOT / "fpga_cosim/profile.toml").read_text())
CONVERSATIONS = 10


def test_conformance(module: Module) -> None:
    """Every script of the profile passes."""
    target = RtlTarget(suite.ADDRESSES, module)
    verdicts = suite.run(target, suite.chosen([]), 1, lambda verdict: None, PROFILE)
    failed = [f"{each.script.name}: {each.text}\n  " + "\n  ".join(each.log) for each in verdicts if each.outcome == FAILED]
    assert not failed, "\n".join(failed)
    outcomes = [each.outcome for each in verdicts]
    print(outcomes.count(PASSED), "passed", outcomes.count(NOT_RUN), "not run")
