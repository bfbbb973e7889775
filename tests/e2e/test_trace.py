"""The life of each segment, from posting to release, as devices report it; who was late; the file for Perfetto."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.tap import chrome
from fanin_tools.tap.segments import Event, Segment, calls_of, segments_of
from fanin_wire.tap import Step
from tests.e2e.fabrics import BOUND_S, Bench, eventually, statuses
from tests.e2e.members import job, run_ranks
from tests.e2e.taps import tracing

RANKS = 4
ELEMENTS = 30_001  # of f32
CHUNK = 4096
SEGMENTS = -(-ELEMENTS * 4 // CHUNK)
DEVICES = ["nic0", "nic1", "switch"]


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(2, 2, lanes=2))


def traced(
    running: Running, route: str, size: int = RANKS, before: Callable[[int], object] = lambda _rank: None
) -> tuple[list[Event], dict[str, int]]:
    """The steps of one allreduce in a job of its own, after each rank has done `before`; and the job's own count of
    most slots used on each device."""

    def call(rank: int, member: Communicator) -> Any:
        array = member.alloc(ELEMENTS, np.float32)
        array[:] = rank + 1
        before(rank)
        return member.allreduce(array, timeout=BOUND_S)

    with tracing(running) as events, job(running, size, route) as members:
        results = run_ranks(size, lambda rank: call(rank, members[rank]))
        assert all(np.all(result == size * (size + 1) // 2) for result in results)
        jid = members[0].job.jid
        used = {
            name: sum(each["slots_high_water"] for each in status["jobs"] if each["jid"] == jid)
            for name, status in statuses(running).items()
        }
    return events, used


def occupancy(events: list[Event], device: str) -> int:
    """Most slots in use in each lane of a device, added up."""
    used, most = Counter[int](), Counter[int]()
    for event in events:
        if event.device == device and event.step in (Step.OPENED, Step.FREED):
            used[event.lane] += 1 if event.step == Step.OPENED else -1
            most[event.lane] = max(most[event.lane], used[event.lane])
    return most.total()


def arrivals(segment: Segment) -> list[tuple[Step, int]]:
    return sorted((event.step, event.who) for event in segment.arrivals)


def test_every_step_of_every_segment_of_a_tree(running: Running) -> None:
    events, used = traced(running, "tree")
    segments = segments_of(events)
    assert Counter(segment.opened.device for segment in segments) == dict.fromkeys(DEVICES, SEGMENTS)
    for segment in segments:
        is_switch = segment.opened.device == "switch"
        step = Step.NODE_IN if is_switch else Step.RANK_IN
        assert arrivals(segment) == [(step, 0), (step, 1)]
        assert segment.complete is not None
        assert segment.result is not None
        assert segment.freed is not None
        assert segment.opened.time <= segment.complete <= segment.result <= segment.freed
        assert bool(segment.sent) != is_switch
        assert sorted(event.who for event in segment.written) == ([] if is_switch else [0, 1])
    posted = Counter[tuple[str, int]]()
    for event in events:
        posted[event.device, event.who] += event.positions if event.step == Step.POSTED else 0
    assert +posted == {(nic, rank): SEGMENTS for nic in DEVICES[:2] for rank in (0, 1)}
    assert {device: occupancy(events, device) for device in DEVICES} == used


def test_every_segment_of_a_ring(running: Running) -> None:
    segments = segments_of(traced(running, "ring")[0])
    assert Counter(segment.opened.device for segment in segments) == dict.fromkeys(DEVICES[:2], SEGMENTS)
    for segment in segments:
        assert {event.who for event in segment.arrivals if event.step == Step.RANK_IN} == {0, 1}
        assert segment.result is not None
        assert segment.freed is not None
        assert len(segment.written) == 2
    passed = [arrival for segment in segments for arrival in segment.arrivals if arrival.step == Step.NODE_IN]
    assert len(passed) == SEGMENTS  # the other node of the ring has begun the segment


def test_segments_from_memory_to_memory(running: Running) -> None:
    """Ranks of one node: some segments have a slot that shows who is missing, the others need none."""
    events, _ = traced(running, "local", 2)
    reduced = sum(event.positions for event in events if event.step == Step.REDUCED)
    assert reduced > 0
    (call,) = calls_of(events)
    assert call.segments == reduced + len(segments_of(events))
    assert call.begin == min(call.posted.values()) <= call.end


def test_who_was_late(running: Running) -> None:
    """Rank 3 posts when the contributions of all others are in: on its NIC it is rank 1, above that node 1."""

    def wait(rank: int) -> None:
        if rank == RANKS - 1:
            # At the switch all segments have one node's data; at the NIC, one rank's.
            eventually(
                lambda: {name: status["slots"]["used"] for name, status in statuses(running).items()},
                lambda used: all(used[device] == SEGMENTS for device in DEVICES),
            )

    events, _ = traced(running, "tree", before=wait)
    calls = {call.device: call for call in calls_of(events)}
    assert calls["nic1"].posted_last().startswith("rank 1, ")
    assert calls["nic1"].last_in() == f"rank 1, {SEGMENTS} of {SEGMENTS}"
    assert calls["switch"].last_in() == f"node 1, {SEGMENTS} of {SEGMENTS}"
    assert calls["nic0"].posted.keys() == {0, 1}


PROGRAM = """
import numpy, fanin
with fanin.Communicator() as communicator:
    communicator.allreduce(numpy.ones(30_001, "f4"))
"""


def test_the_command(running: Running, tmp_path: Path) -> None:
    name, path = running.fabric.name, tmp_path / "trace.json"
    fanin = sys.executable, "-c", "from fanin_tools.cli.app import main; main()"
    run = *fanin, "run", "--name", name, "-n", "4", "--", sys.executable, "-c", PROGRAM
    done = subprocess.run(
        [*fanin, "trace", "--fabric", name, "-o", str(path), "--calls", "2", "--json", "--", *run],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["missed"], len(said["calls"])) == (0, 2)
    events = json.loads(path.read_text())["traceEvents"]
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == DEVICES
    segments = [event for event in events if event["ph"] == "X" and event["name"].startswith("position")]
    assert len(segments) == SEGMENTS * len(DEVICES)
    assert all(event["dur"] >= 0 for event in events if event["ph"] == "X")
    last = {event["pid"]: event["args"] for event in events if event["name"] == chrome.COUNTER}
    assert all(set(jobs.values()) == {0} for jobs in last.values())
