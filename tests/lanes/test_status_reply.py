"""The status reply of a device has the fields that docs/command-line.md lists, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fanin_nic.daemon.drain import Drain
from fanin_nic.daemon.lanes.ordinary_host import OrdinaryHost
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.status import DeviceStatus
from fanin_nic.port.verbs.events import Watch
from tests.lanes.stepped_lanes import SteppedLanes

PAGE = Path(__file__).parents[2] / "docs/command-line.md"
BY_NAME = {"links", "counters", "profile", "verbs.events"}  # their names are those of neighbours, counters, stages


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """Path of every field of a reply, as in the page."""
    if isinstance(value, list):
        assert value, f"{path} is empty: the test says nothing about its fields"
        yield from fields_of(value[0], f"{path}[]")
    elif isinstance(value, dict) and path not in BY_NAME:
        for name, inner in value.items():
            yield from fields_of(inner, f"{path}.{name}" if path else name)
    else:
        yield path


def test_page_lists_the_fields(lanes: SteppedLanes, monkeypatch: pytest.MonkeyPatch) -> None:
    lanes.joined()
    lanes.cores[0].ordinary = OrdinaryHost("127.0.0.1", mtu=1500)
    watch = Watch(SimpleNamespace(name="rxe1"))  # what a verbs device would have said
    monkeypatch.setattr(lanes.cores[0].port, "verbs", watch.status)
    drain = Drain(lanes.cores, wake_writer=-1)
    reply = DeviceStatus("nic0", lanes.cores, LaneThreads(lanes.cores, lambda *_: None), lanes.splitter, drain)()
    section = PAGE.read_text().partition("### What a device says of itself")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.M)
    listed = [field for row in rows for field in re.findall(r"`([^`]+)`", row)]
    replied = list(fields_of(reply))
    assert (set(replied) - set(listed), set(listed) - set(replied)) == (set(), set())  # not on the page, not in a reply
    assert sorted(replied) == sorted(listed)
