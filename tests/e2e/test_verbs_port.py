"""Devices that exchange packets over UD queue pairs of verbs devices: the same results, the same refusals.

The verbs devices are NICs of another fabric, by the preloaded verbs library. `tests/rdma` does the same over rxe.
"""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from fanin.verbs.enums import IBV_WR_RDMA_WRITE
from fanin.verbs_lib import library_path
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import kill_device
from tests.dissector.tshark import rows
from tests.e2e.fabrics import BOUND_S, Bench, assert_released, silent, statuses
from tests.e2e.members import job, run_ranks
from tests.e2e.taps import capturing, settled
from tests.ordinary.sides import Side, connect, sockets
from tests.waiting import POLL_S

NODES = 2
ELEMENTS = 70_001
LENGTH = 1_000_001  # bytes
GROUP = "239.77.0.1"


def over_verbs(bench: Bench, shape: Shape, carriers: Running) -> Fabric:
    """Each device uses the queue pairs, and the address, of one of the carriers."""
    fabric = bench.describe(shape)
    addresses = [nic.address for nic in carriers.fabric.nics]
    assert len(addresses) >= len(fabric.devices)
    devices = [
        replace(device, address=address, port=f"verbs://fanin{number}")
        for number, (device, address) in enumerate(zip(fabric.devices, addresses, strict=False))
    ]
    return replace(fabric, devices=tuple(devices))


@pytest.fixture(scope="module")
def carriers(bench: Bench) -> Running:
    """NICs that serve as verbs devices: fanin0, fanin1, ..."""
    return bench.up(Shape(NODES + 3, 1, direct=True, lanes=1))


@pytest.fixture(scope="module")
def on_carriers(carriers: Running) -> Iterator[pytest.MonkeyPatch]:
    """Started devices find the carriers."""
    sockets = ":".join(str(carriers.state.socket(nic.name)) for nic in carriers.fabric.nics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FANIN_SOCKET", sockets)
        patch.setenv("LD_PRELOAD", str(library_path()))
        yield patch


@pytest.fixture(scope="module")
def running(bench: Bench, carriers: Running, on_carriers: pytest.MonkeyPatch) -> Running:
    """Two NICs below a switch, over verbs."""
    return bench.build(over_verbs(bench, Shape(NODES, 2, lanes=1), carriers))


def check_allreduce(running: Running, route: str) -> None:
    with job(running, 2 * NODES, route) as members:

        def act(rank: int) -> np.ndarray:
            data = np.arange(ELEMENTS, dtype="i8") * (rank + 1)
            return members[rank].allreduce(data, out=data, timeout=BOUND_S)

        expected = np.arange(ELEMENTS, dtype="i8") * (NODES * (2 * NODES + 1))
        for outcome in run_ranks(2 * NODES, act):
            assert np.array_equal(outcome, expected)
    assert_released(running)


def sent_by_carriers(carriers: Running) -> int:
    """Packets that the carriers have exchanged."""
    return sum(link["tx_packets"] for status in statuses(carriers).values() for link in status["links"].values())


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_allreduce(running: Running, carriers: Running, route: str) -> None:
    """All packets of a device use its verbs device."""
    before = sent_by_carriers(carriers)
    own_before = sum(link["tx_packets"] for status in statuses(running).values() for link in status["links"].values())
    check_allreduce(running, route)
    own = sum(link["tx_packets"] for status in statuses(running).values() for link in status["links"].values())
    assert sent_by_carriers(carriers) - before >= own - own_before >= ELEMENTS * 8 // 2048


def test_ordinary_traffic(running: Running, carriers: Running) -> None:
    """A program writes to another's memory; the packets use the verbs devices."""
    before = sent_by_carriers(carriers)
    with contextlib.ExitStack() as stack:
        one, other = (stack.enter_context(contextlib.closing(Side(socket))) for socket in sockets(running))
        connect(one, other)
        one.fill()
        one.send(IBV_WR_RDMA_WRITE, one.piece(LENGTH), remote=(other, 0))
        one.completion()
        assert np.array_equal(one.data[:LENGTH], other.data[:LENGTH])
    assert sent_by_carriers(carriers) - before >= LENGTH // 4096


def test_capture(running: Running, tmp_path: Path) -> None:
    """The devices record datagrams of their queue pairs as packets, each with the headers that its ICRC covers."""
    path, before = tmp_path / "verbs.pcapng", settled(running)
    with capturing(running, path) as tally:
        check_allreduce(running, "tree")
        after = settled(running)
    found = rows(path, "fanin.icrc.status", "frame.comment")
    assert {status for status, _ in found} == {"1"}
    unsent = sum(comment == "drop_unresolved" for _, comment in found)  # which no device counts as sent
    assert len(found) == tally.packets == (after - before).total() + unsent > 0


def test_device_that_is_started_anew(running: Running) -> None:
    """It has another queue pair, which the others ask for."""
    check_allreduce(running, "tree")
    for name in ("switch", "nic0"):
        lifecycle.restart(running.fabric.name, name, silent)
        check_allreduce(running, "tree")


def test_queue_pairs_that_fail(carriers: Running, on_carriers: pytest.MonkeyPatch) -> None:
    """They are repaired, and packets pass again."""
    free = [f"fanin{number}={carriers.fabric.nics[number].address}" for number in (NODES + 1, NODES + 2)]
    program = Path(__file__).with_name("verbs_ports.py")
    done = subprocess.run([sys.executable, program, *free], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "whole"
    assert done.stderr.count("is up again") == 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"port": "verbs://nowhere"},
            "no verbs device is called nowhere; use one of fanin0, fanin1, fanin2, fanin3, fanin4",
        ),
        ({"port": "verbs://fanin1"}, "verbs device fanin1 has no RoCE v2 address {address}; give the device's"),
        ({"port": "verbs://fanin2?raw"}, "network interface lo has no Ethernet address; use one that has"),
    ],
)
def test_device_that_can_not_be_had(
    bench: Bench, carriers: Running, on_carriers: pytest.MonkeyPatch, changed: dict, said: str
) -> None:
    fabric = over_verbs(bench, Shape(1, 1, direct=True, lanes=1), carriers)
    (nic,) = fabric.devices
    # Another address than that of the running fabric's NIC, which has the same carriers.
    nic = replace(nic, address=carriers.fabric.nics[2].address, **changed)
    with pytest.raises(ToolError) as refusal:
        bench.build(replace(fabric, devices=(nic,)))
    assert refusal.value.name == "DEVICE_LOST"
    assert said.format(address=nic.address) in refusal.value.cause


def test_verbs_device_that_is_lost(bench: Bench, on_carriers: pytest.MonkeyPatch) -> None:
    """Its Fanin device says so, with what to do, and ends: its users learn it at once."""
    carrier = bench.up(Shape(1, 1, direct=True, lanes=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FANIN_SOCKET", str(carrier.state.socket(carrier.fabric.nics[0].name)))
        running = bench.build(over_verbs(bench, Shape(1, 1, direct=True, lanes=1), carrier))
    kill_device(carrier, carrier.fabric.nics[0].name)
    (nic,) = running.fabric.nics
    cause = "verbs device fanin0 has failed (IBV_EVENT_DEVICE_FATAL)"
    remedy = "restart this device when the verbs device is back"
    end = time.monotonic() + BOUND_S
    while f"{nic.name}: {cause}; {remedy}" not in (said := running.state.log(nic.name).read_text()):
        assert time.monotonic() < end, said
        time.sleep(POLL_S)
    assert nic.name not in statuses(running)


def test_devices_that_can_not_multicast(bench: Bench, carriers: Running, running: Running) -> None:
    """They say so by name, and each result goes to each NIC."""
    bench.down(running)  # its devices have the same carriers
    fabric = over_verbs(bench, Shape(NODES, 2, lanes=1), carriers)
    devices = [replace(device, group=GROUP if device.kind == "switch" else "") for device in fabric.devices]
    running = bench.build(replace(fabric, devices=tuple(devices)))
    check_allreduce(running, "tree")
    for nic in running.fabric.nics:
        said = running.state.log(nic.name).read_text()
        cause = "attach the queue pair on fanin. to it: Operation not supported"
        assert re.search(f"{nic.address} goes on without the multicast group {GROUP}: cannot {cause}", said), said
    (switch,) = running.fabric.switches
    end = time.monotonic() + BOUND_S
    while f"to {GROUP}: Invalid argument" not in (said := running.state.log(switch.name).read_text()):
        assert time.monotonic() < end, said  # it has not invited yet
        time.sleep(POLL_S)
    assert said.count(f"to {GROUP}") == 1
    bench.down(running)


def test_mtu_that_the_device_does_not_carry(bench: Bench, on_carriers: pytest.MonkeyPatch) -> None:
    narrow = bench.up(Shape(1, 1, direct=True, lanes=1, mtu=1500))
    on_carriers.setenv("FANIN_SOCKET", str(narrow.state.socket(narrow.fabric.nics[0].name)))
    fabric = over_verbs(bench, Shape(1, 1, direct=True, lanes=1), narrow)
    with pytest.raises(ToolError, match="carries datagrams of 1024 bytes, MTU 4124 needs more; raise the MTU of"):
        bench.build(fabric)
