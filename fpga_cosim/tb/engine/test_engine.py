"""The engine within the switch: jobs and their ends, by the scripts of the conformance suite."""

from fanin_conform import suite
from fanin_conform.profile import read
from fanin_conform.suite import FAILED, NOT_RUN
from fpga_cosim.tb.target import GROUP, RtlTarget
from fpga_cosim.tb.tools import ROOT
from fpga_cosim.tb.verilated import Module

PROFILE = read((ROOT / "fpga_cosim/profile.toml").read_text())
# Groups of which the profile leaves some scripts out
LEFT_OUT = (
    "ahead",
    "arithmetic",
    "lanes",
    "limits",
    "membership",
    "middle",
    "segments",
    "shares",
    "silence",
    "standing",
)


def test_conformance(module: Module) -> None:
    """Every script of the profile passes; of most groups the profile has all."""
    target = RtlTarget(suite.ADDRESSES, module, group=GROUP)
    verdicts = suite.run(target, suite.chosen([]), 1, lambda verdict: None, PROFILE)
    failed = [each for each in verdicts if each.outcome == FAILED]
    assert not failed, "\n".join(line for each in failed for line in (each.script.name, *each.log, each.text))
    groups = {each.script.name.partition("/")[0] for each in verdicts if each.outcome == NOT_RUN}
    assert groups <= set(LEFT_OUT)
    assert sum(each.outcome != NOT_RUN for each in verdicts) >= 106
