"""The switch in plain Python, written from SPEC.md alone, passes the suite."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fanin_conform import suite
from fanin_conform.profile import Profile
from fanin_conform.scripts.arithmetic import numbers
from fanin_conform.targets.reference import ReferenceTarget
from fanin_reference import arithmetic, spec
from fanin_tools.cli.app import app
from fanin_wire import fields
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation

LANES, GROUP = 3, "239.0.0.1"
NO_GROUP = "the device has no multicast group here"
# A top only, which sends nothing ahead.
LACKING = {f"the device has no {what}" for what in ("place below another switch", "data ahead of the result")}
LACKING |= {"the device has no limit of jobs and slots"}
LACKING |= {suite.NEEDS["drain"], suite.NEEDS["pause"]}
AGEING = "the device has no time below 10 s for this: 72 s"


def test_it_passes_in_this_process() -> None:
    target = ReferenceTarget(suite.ADDRESSES, lanes=LANES, group=GROUP)
    profile = Profile(lanes=LANES, middle=False, ahead=False, shares=False)
    verdicts = suite.run(target, suite.chosen([]), 2, lambda verdict: None, profile)
    assert [(each.script.name, each.text) for each in verdicts if each.outcome == suite.FAILED] == []
    assert {each.text for each in verdicts if each.outcome == suite.NOT_RUN} == LACKING
    assert len(verdicts) == len(suite.chosen([]))


@pytest.mark.process
def test_it_passes_over_udp() -> None:
    done = CliRunner().invoke(app, ["conform", "--target", "reference", "--json"])
    entries = json.loads(done.stdout)["scripts"]
    assert [(entry["script"], entry["text"]) for entry in entries if entry["outcome"] == "failed"] == []
    assert {entry["text"] for entry in entries if entry["outcome"] == "not run"} == LACKING | {AGEING, NO_GROUP}
    assert done.exit_code == 0
    assert len(entries) == len(suite.chosen([]))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda entry: entry.name)
@pytest.mark.parametrize("datatype", DATATYPES, ids=lambda entry: entry.name)
def test_it_computes_what_the_oracle_does(operation: Operation, datatype: DataType) -> None:
    """Bit for bit. Both are written from the same text, independently."""
    assert arithmetic.is_computed(operation.code, datatype.code) == operation.takes(datatype)
    if not operation.takes(datatype):
        return
    data = numbers(datatype, np.random.default_rng(1))
    ranks, rows = len(data), [row.tobytes() for row in data]
    found = arithmetic.value(operation.code, datatype.code, rows, ranks, wide=False)
    assert found == operation.oracle(data, datatype).tobytes()
    if operation.widens(datatype):
        partials = [operation.partial(row[None], datatype, wide=True) for row in data]
        found = arithmetic.value(operation.code, datatype.code, [row.tobytes() for row in partials], ranks, wide=True)
        assert found == operation.oracle(data, datatype).tobytes()


def test_the_text_has_the_layouts() -> None:
    """The reference reads the same fields from SPEC.md as the definitions have."""
    for name, header in (("BTH", fields.BTH), ("CETH", fields.CETH)):
        read = spec.header(name)
        assert read.size == header.size
        places = {f.name: (header.size * 8 - f.offset - f.bits, f.bits) for f in header.fields}
        assert read.fields == places
