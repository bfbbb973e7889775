"""Links cut, devices and ranks frozen, devices restarted, in the middle of a transfer: right data or a named error."""

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.stress.faults.fault_kinds import (
    cut_super_packets,
    frozen,
    frozen_device,
    kill_device,
    link_down,
    open_descriptors,
    process_of,
)
from fanin_wire.fields import UDP_PORT
from tests.e2e.fabrics import Bench, Statuses, assert_released, counter, silent, statuses, undisturbed
from tests.e2e.members import describe, errors_of, job, run_ranks, socket_of
from tests.e2e.test_dead_ranks import expect, process
from tests.waiting import BOUND_S, DETECTION_S, eventually

NODES, RANKS = 3, 6
ROUNDS = 128  # reductions of FEW elements that are under way at the fault: 512 MiB
FEW = 1 << 20  # of f32
SHAPE = Shape(NODES, RANKS // NODES, detection=DETECTION_S)
COUNTED = ("tx_CONTRIBUTION", "tx_RESULT", "tx_PROBE", "resent", "jobs_aborted")
ROUTES = pytest.mark.parametrize("route", ["tree", "ring"])


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(SHAPE)


@pytest.fixture(scope="module")
def linked(bench: Bench, namespaces_allowed: None) -> Running:
    found = bench.up(Shape(NODES, RANKS // NODES, detection=DETECTION_S, netns=True))
    cut_super_packets(found.fabric)
    return found


def reduce(member: Communicator, elements: int) -> bool:
    """One allreduce of the ranks' numbers; whether all of it is right."""
    total = member.allreduce(np.full(elements, member.rank, "f4"), timeout=BOUND_S)
    return bool((total == sum(range(member.size))).all())


def reduce_for_long(member: Communicator) -> bool:
    """Many allreduces of one registered array, all posted at once; whether the result is right."""
    array, result = member.alloc(FEW), member.alloc(FEW)
    array[:] = member.rank
    for request in [member.iallreduce(array, out=result) for _ in range(ROUNDS)]:
        request.wait(BOUND_S)
    return bool((result == sum(range(member.size))).all())


@contextlib.contextmanager
def under_way(members: list[Communicator]) -> Iterator[list[Any]]:
    """All ranks have begun to reduce at the start of the block; after it the list has each rank's result."""
    run_ranks(len(members), lambda rank: members[rank].barrier(timeout=BOUND_S))
    outcomes: list[Any] = []
    thread = threading.Thread(
        target=lambda: outcomes.extend(run_ranks(len(members), lambda rank: reduce_for_long(members[rank]), BOUND_S))
    )
    thread.start()
    while not any(progress.done for progress in members[0].progress()):
        assert thread.is_alive()
        time.sleep(0.001)
    yield outcomes
    thread.join()


def works(running: Running, route: str = "tree") -> bool:
    """A new job gives right results."""
    with job(running, RANKS, route) as members:
        return run_ranks(RANKS, lambda rank: reduce(members[rank], 10_000)) == [True] * RANKS


# Links


@ROUTES
def test_link_that_is_down_for_a_while_costs_nothing_but_time(linked: Running, route: str) -> None:
    before = statuses(linked)
    with job(linked, RANKS, route) as members, under_way(members) as outcomes, link_down(linked.fabric, "nic1"):
        time.sleep(DETECTION_S / 5)
    assert outcomes == [True] * RANKS
    assert counter(statuses(linked), "jobs_aborted") == counter(before, "jobs_aborted")
    assert_released(linked)


def test_link_that_stays_down_loses_its_node(linked: Running) -> None:
    with job(linked, RANKS, "tree") as members:
        with under_way(members) as outcomes, link_down(linked.fabric, "nic1"):
            eventually(lambda: outcomes)
        assert errors_of(outcomes) == ["PeerLost"] * RANKS
        for rank in (0, 1, 4, 5):
            assert outcomes[rank].missing_ranks == (2, 3)
    assert_released(linked)
    assert works(linked)


# Processes that stand still


@ROUTES
def test_rank_that_is_stopped_is_slow_not_dead(running: Running, tmp_path: Path, route: str) -> None:
    placement, description = describe(running, RANKS, route)
    path = tmp_path / "job.txt"
    path.write_text(description.to_text())

    def measure() -> tuple[Statuses, Statuses]:
        before = statuses(running)
        with process(path, 3, socket_of(running, placement, 3), FEW) as child:

            def act(rank: int) -> Any:
                if rank == 3:
                    return None
                member = Communicator(description, rank, socket_of(running, placement, rank), timeout=BOUND_S)
                array = np.ones(FEW, "f4")
                member.allreduce(array, out=array)
                if rank == 0:
                    stop_for(child, 2 * DETECTION_S)
                rounds = [member.allreduce(np.ones(FEW, "f4"), timeout=BOUND_S)[-1] for _ in range(2)]
                member.close()
                return rounds

            expect_lines(child)
            outcomes = run_ranks(RANKS, act, BOUND_S)
        assert [outcomes[rank] for rank in range(RANKS) if rank != 3] == [[RANKS, RANKS]] * (RANKS - 1)
        return before, statuses(running)

    undisturbed(measure, "resent")
    assert_released(running)


def expect_lines(child: subprocess.Popen[str]) -> None:
    """Read the child's output in the background, so that it never waits."""
    threading.Thread(target=lambda: expect(child, "joined"), daemon=True).start()


def stop_for(child: subprocess.Popen[str], seconds: float) -> None:
    """Stop the process for a while."""
    with frozen(ProcessIdentity.of(child.pid)):
        time.sleep(seconds)


def test_nic_that_is_stopped_for_long_is_lost_also_to_its_own_ranks(running: Running) -> None:
    with job(running, RANKS, "ring") as members:
        with under_way(members) as outcomes, frozen_device(running, "nic2"):
            eventually(lambda: outcomes)
        assert errors_of(outcomes) == ["PeerLost"] * 4 + ["DeviceLost"] * 2
        for rank in range(4):
            assert outcomes[rank].missing_ranks == (4, 5)
    assert_released(running)
    assert works(running, "ring")


@pytest.mark.parametrize("device", ["nic1", "switch"])
def test_device_that_is_stopped_for_a_while_goes_on(running: Running, device: str) -> None:
    before = statuses(running)
    with job(running, RANKS, "tree") as members, under_way(members) as outcomes, frozen_device(running, device):
        time.sleep(DETECTION_S / 5)
    assert outcomes == [True] * RANKS
    assert counter(statuses(running), "jobs_aborted") == counter(before, "jobs_aborted")
    assert_released(running)


def test_switch_that_is_stopped_for_long_is_lost_and_serves_new_jobs_afterwards(running: Running) -> None:
    with job(running, RANKS, "tree") as members:
        with under_way(members) as outcomes, frozen_device(running, "switch"):
            eventually(lambda: outcomes)
        assert errors_of(outcomes) == ["PeerLost"] * RANKS
    assert_released(running)
    assert works(running)


# Devices that are restarted


@pytest.mark.parametrize(("device", "route"), [("nic1", "ring"), ("switch", "tree")])
def test_device_that_is_restarted_loses_its_jobs_and_takes_new_ones(running: Running, device: str, route: str) -> None:
    before = {name: open_descriptors(process_of(running, name)) for name in ("nic0", "nic2")}
    lost = (2, 3) if device == "nic1" else ()
    with job(running, RANKS, route) as members:
        with under_way(members) as outcomes:
            kill_device(running, device)
            lifecycle.restart(running.fabric.name, device, silent)
        names = errors_of(outcomes)
        assert [names[rank] for rank in range(RANKS) if rank not in lost] == ["PeerLost"] * (RANKS - len(lost))
        assert all(names[rank] == "DeviceLost" for rank in lost)
    assert_released(running)
    assert works(running, route)
    eventually(
        lambda: {name: open_descriptors(process_of(running, name)) for name in before},
        lambda now: all(now[name] <= before[name] for name in before),
    )


def test_restarted_device_is_known_to_the_fabric(running: Running) -> None:
    old = process_of(running, "nic0")
    lifecycle.restart(running.fabric.name, "nic0", silent)
    assert not old.alive
    assert process_of(running, "nic0").alive
    assert lifecycle.find(running.fabric.name) is not None
    assert works(running)


# Full buffers


def test_full_receive_buffers_lose_packets_and_no_bits(running: Running) -> None:
    """Junk fills the buffers of stopped devices, so the job's packets find no room."""
    with job(running, RANKS, "tree") as members, under_way(members) as outcomes, contextlib.ExitStack() as stack:
        for device in ("switch", "nic1"):
            stack.enter_context(frozen_device(running, device))
            flood(running.fabric.device(device).address)
    assert outcomes == [True] * RANKS
    assert_released(running)


def flood(address: str) -> None:
    """More than a receive buffer holds."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(256):
            sender.sendto(bytes(60_000), (address, UDP_PORT))


# A late rank


@ROUTES
def test_late_rank_costs_headers_and_no_payload(running: Running, route: str) -> None:
    """While it is late, longer than the detection time, the others send only headers."""
    seen, times = [], []

    def act(rank: int) -> bool:
        if rank == RANKS - 1:
            for pause in (DETECTION_S / 2, 2 * DETECTION_S):
                time.sleep(pause)
                times.append(time.monotonic())
                seen.append(statuses(running))
            times.append(time.monotonic())
        return reduce(members[rank], FEW)

    with job(running, RANKS, route) as members:
        assert run_ranks(RANKS, act, BOUND_S) == [True] * RANKS
    spent = {name: counter(seen[1], name) - counter(seen[0], name) for name in COUNTED}
    asked = spent.pop("tx_PROBE")
    assert spent == dict.fromkeys(spent, 0)
    # The lowest position of each node, once in a tenth of the detection time, and some at first
    assert asked <= NODES * (10 + (times[-1] - times[0]) / (DETECTION_S / 10))
