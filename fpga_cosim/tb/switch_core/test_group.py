"""The group: its Ethernet address, and its limit of listeners (7.4-6). The suite has the rest."""

import numpy as np
import pytest

from fanin_conform import suite
from fanin_reference import spec
from fanin_wire.fields import Flag
from fpga_cosim.tb import frames
from fpga_cosim.tb.one_job import DATA_AND_WANTS, contributions, joined, streamed
from fpga_cosim.tb.target import GROUP, RtlTarget
from fpga_cosim.tb.verilated import Module

CHILDREN, SIZE, CLOCKS = 3, 256, 400


@pytest.mark.parametrize("wants", [0, spec.FLAGS["WANTS_RESULT"]])
@pytest.mark.parametrize(("listeners", "serves"), [(0, True), (2 * CHILDREN - 1, True), (2 * CHILDREN, False)])
def test_most_of_those_that_listen(module: Module, listeners: int, serves: bool, wants: int) -> None:
    """One RESULT by the group, or one to each child if the children are a minority of the listeners."""
    target, job, addresses = joined(module, CHILDREN, SIZE, GROUP, listeners)
    flags = DATA_AND_WANTS & ~spec.FLAGS["WANTS_RESULT"] | wants | int(Flag.HEARS_GROUP)
    sent = contributions(job, addresses, 1, SIZE, flags=flags)
    came, _ = streamed(target, sent, np.ones(CLOCKS, np.uint8))
    to = [frame[: len(frames.mac_of(GROUP))] for frame in came]
    assert to == ([frames.mac_of(GROUP)] if serves else [frames.mac_of(each) for each in addresses])
    assert {frame[frames.HEADERS] for frame in came} == {spec.OPCODES["RESULT"]}


def test_scripts_of_the_group_without_one(module: Module) -> None:
    """A switch without a group skips the scripts that need one, and passes the others."""
    verdicts = suite.run(RtlTarget(suite.ADDRESSES, module), suite.chosen(["groups"]), 1, lambda verdict: None)
    assert {each.outcome for each in verdicts} == {suite.PASSED, suite.NOT_RUN}
