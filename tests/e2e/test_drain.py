"""Devices that drain: running jobs go on, new ones are refused by name, and then the devices end."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import device_query, drain
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import BOUND_S, Bench, eventually
from tests.e2e.members import errors_of, job, placed, run_ranks

TREE = Shape(2, 1)
RING = replace(TREE, direct=True)
LANES = replace(TREE, lanes=2)


def drains(running: Running, device: str) -> bool:
    return bool(device_query.query_status(running.state.socket(device))["draining"])


def refused(running: Running, route: str) -> list[str]:
    """The errors of a new job's ranks."""
    described, sockets = placed(running, 2, route, slots=8)
    return errors_of(run_ranks(2, lambda rank: Communicator(described, rank, sockets[rank], timeout=BOUND_S)))


@pytest.mark.parametrize(("shape", "route"), [(TREE, "tree"), (RING, "ring"), (LANES, "tree")], ids=str)
def test_a_job_ends_before_its_devices(bench: Bench, shape: Shape, route: str) -> None:
    running = bench.up(shape)
    name, devices = running.fabric.name, [device.name for device in running.fabric.daemons]
    done = threading.Event()

    def wait() -> None:
        drain.drain(name, None, None)
        done.set()

    with job(running, 2, route, slots=64) as members:
        drainer = threading.Thread(target=wait)
        drainer.start()
        for device in devices:
            eventually(lambda device=device: drains(running, device), bool)
        assert refused(running, route) == ["Draining"] * 2
        totals = run_ranks(2, lambda rank: members[rank].allreduce(np.arange(5000.0)))
        assert all((total == 2 * np.arange(5000.0)).all() for total in totals)
        assert not done.is_set()
    assert done.wait(BOUND_S)
    drainer.join()
    assert not running.state.exists


def test_one_device_refuses_for_all(bench: Bench) -> None:
    """The ranks at the other NIC learn it from the switch."""
    running = bench.up(TREE)
    with job(running, 1, "local", slots=8):  # keeps nic0 from ending
        with pytest.raises(ToolError) as found:
            drain.drain(running.fabric.name, "nic0", 0)
        assert (found.value.name, found.value.cause) == ("TIMEOUT", "nic0 has not ended within 0 s: it has 1 jobs")
        eventually(lambda: drains(running, "nic0"), bool)
        assert refused(running, "tree") == ["Draining"] * 2
    assert drain.drain(running.fabric.name, "nic0", BOUND_S) == ["nic0"]


def test_names_that_are_not_there(bench: Bench) -> None:
    running = bench.up(Shape(1, 1))
    with pytest.raises(UsageError, match=r"NO_DEVICE: fabric .* has no daemon 'nic7'; name one of nic0"):
        drain.drain(running.fabric.name, "nic7", None)
    with pytest.raises(ToolError, match="NO_FABRIC"):
        drain.drain("nobody", None, None)
    with pytest.raises(ToolError, match=r"NO_DEVICE: .*nobody.sock: No such file or directory"):
        drain.drain_devices({"nobody": running.state.folder / "nobody.sock"}, None)
