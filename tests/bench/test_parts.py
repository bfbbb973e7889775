"""Each measurement of one part of the data path works in a tiny run, and reports a failure."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from fanin_tools.bench import engine, memory, port, startup
from fanin_tools.bench.network import SharedWords, network, run_together
from fanin_tools.cli.app import app
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle, namespaces
from fanin_tools.fabric.generate import Shape, make
from tests.fabric.fixtures import ignore
from tests.fabric.test_namespaces import needs_namespaces


def test_memory_is_read_and_written() -> None:
    speed = memory.measure(1 << 20, 2)
    assert speed.volume == 1 << 20
    assert speed.read_and_write_us == pytest.approx((1 << 20) * 1e6 * (1 / speed.read + 1 / speed.write))


@pytest.mark.parametrize("cores", [1, 2])
def test_short_messages_cost_what_their_bytes_cost(cores: int) -> None:
    """A bound must not include calls of an interpreter: 64 B would cost as much as many KiB."""
    small, large = (memory.measure(volume, cores).read_and_write_us for volume in (64, 1 << 20))
    assert small < large / 100


@pytest.mark.process
def test_engines_at_once_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SECONDS", 0.01)
    monkeypatch.setattr(engine, "PAYLOADS", (1024,))
    monkeypatch.setattr(engine, "LARGE", engine.SMALL)
    alone, together = engine.measure(1, ignore), engine.measure(2, ignore)
    assert [row.check for row in alone] == [row.check for row in together] == 2 * list(engine.CHECKS.values())
    assert [row.working_set for row in together] == [2 * row.working_set for row in alone]
    assert all(row.best_per_us >= row.segments_per_us > 0 for row in together)


@pytest.mark.process
def test_every_packet_goes_through_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "VOLUME", 4 << 20)
    monkeypatch.setattr(port, "ROUNDS", 1)
    rows = port.measure(netns=False, name="port", progress=ignore)
    assert [row.payload for row in rows] == [256, 1024, 4096]
    assert all(row.bandwidth == row.packets_per_second * row.payload > 0 for row in rows)


@pytest.mark.process
def test_unreceived_packets_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_receive", lambda _fabric, _batches, words: words.barrier(port.RECEIVER, 2))
    monkeypatch.setattr(port, "PAYLOADS", (256,))
    with pytest.raises(ToolError, match="TIMEOUT: packets were lost"):
        port.measure(netns=False, name="port", progress=ignore)


@needs_namespaces
def test_a_network_of_somebody_else_is_refused_and_left(state_root: object) -> None:
    shape = Shape(2, 1, netns=True)
    stray = namespaces.namespace(make("bheld", shape), "host1")
    subprocess.run(["ip", "netns", "add", stray], check=True)
    try:
        with (
            pytest.raises(ToolError, match=f"FABRIC_DIFFERS: network bheld exists already: {stray};"),
            network("bheld", shape),
        ):
            pass
        present = {name for name in namespaces.existing() if name.startswith("fanin-bheld-")}
    finally:
        subprocess.run(["ip", "netns", "delete", stray], check=True)
    assert present == {stray}


@pytest.mark.process
def test_import_does_not_bring_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert startup._import() > 0
    monkeypatch.setattr(startup, "PROGRAM", "import numba\n" + startup.PROGRAM)
    with pytest.raises(ToolError, match="WRONG_RESULT: import fanin has loaded numba"):
        startup._import()


def test_start_is_measured(state_root: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "IMPORTS", 1)
    monkeypatch.setattr(startup, "ATTACHES", 3)
    monkeypatch.setattr(startup, "DEVICES", 2)
    result = CliRunner().invoke(app, ["bench", "start", "--json"])
    assert result.exit_code == 0, result.stderr
    assert [row["microseconds"]["samples"] for row in json.loads(result.stdout)["rows"]] == [1, 3, 3, 2, 2]
    assert lifecycle.find("start") is None


@pytest.mark.process
def test_device_that_does_not_start_says_why() -> None:
    with pytest.raises(ToolError, match=r"PROGRAM_FAILED: a device has ended with status \d+: .*203\.0\.113\.1"):
        startup._start_device("203.0.113.1")


@pytest.mark.process
def test_processes_run_at_once_and_each_in_its_own() -> None:
    words = SharedWords(2)
    tasks = [("", lambda number=number: words.barrier(number, 2)) for number in range(2)]
    assert run_together(tasks) == [None, None]  # neither would have passed the barrier alone


@pytest.mark.process
def test_processes_meet_again_and_again() -> None:
    words = SharedWords(2)

    def barrier(number: int) -> list[list[float]]:
        times = []
        for turn in range(4):
            time.sleep(0.02 * ((turn + number) % 2))  # the one is late, then the other
            before = time.monotonic()
            words.barrier(number, 2)
            times.append([before, time.monotonic()])
        return times

    for first, second in zip(*run_together([("", lambda: barrier(0)), ("", lambda: barrier(1))]), strict=True):
        assert max(first[0], second[0]) <= min(first[1], second[1])


@pytest.mark.process
def test_process_that_fails_ends_the_wait_for_all() -> None:
    with pytest.raises(ToolError, match="PROGRAM_FAILED: a process of the measurement"):
        run_together([("", lambda: time.sleep(3600)), ("", lambda: sys.exit("on purpose"))])


@pytest.mark.process
def test_interrupted_process_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolError, match="PROGRAM_FAILED"):
        run_together([("", lambda: os.kill(os.getpid(), signal.SIGINT))])
    assert capfd.readouterr().err == ""


@pytest.mark.process
def test_processes_are_ended_if_there_can_be_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    fork = os.fork

    def limited() -> int:
        if made:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        made.append(fork())
        return made[0]

    monkeypatch.setattr(os, "fork", limited)
    with pytest.raises(ToolError, match="NO_RESOURCES: the measurement can not start a process: Resource temporarily"):
        run_together([("", lambda: time.sleep(3600))] * 2)
    with pytest.raises(ProcessLookupError):
        os.kill(made[0], 0)


@pytest.mark.process
def test_processes_that_do_not_answer_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fanin_tools.bench.network.SECONDS", 0.2)
    with pytest.raises(ToolError, match="TIMEOUT: no result"):
        run_together([("", lambda: time.sleep(60))])


def test_a_network_is_there_for_the_time_of_the_block() -> None:
    with network("n", Shape(2, 1)) as fabric:
        assert [nic.address.rpartition(".")[2] for nic in fabric.nics] == ["1", "2"]
