"""Two versions refuse each other by name, and the error names both versions."""

import ipaddress
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from fanin import device_status, errors
from fanin.verbs import CQ, PD, CollectiveQP, Context, Membership
from fanin.verbs.membership import Hop
from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query
from fanin_tools.fabric.lifecycle import Running
from fanin_wire import abi
from fanin_wire.abi import Route, Status
from fanin_wire.fields import BTH, CETH, UDP_PORT, WIRE_VERSION, Opcode
from tests.engine.rig import KEY, PARENT, NicRig, SwitchRig, config, pack, unpack
from tests.port.conftest import icrc_of
from tests.robustness.test_clients import client, message
from tests.waiting import BOUND_S

OTHERS = [abi.ABI_VERSION - 1, abi.ABI_VERSION + 1]
OTHER_WIRES = [WIRE_VERSION - 1, WIRE_VERSION + 1]


# The host interface


@pytest.mark.parametrize("version", OTHERS)
@pytest.mark.parametrize("kind", ["ATTACH", "STATUS", "JOIN"])
def test_client_of_another_version_is_told_so(nic: Path, version: int, kind: str) -> None:
    with client(nic) as other:
        record = message(kind, tag=9)
        head = record if record.dtype == abi.MESSAGE else record["head"]
        head["version"] = version
        reply = np.frombuffer(other.ask(record.tobytes()), abi.MESSAGE, count=1)[0]
    assert (reply["version"], reply["status"], reply["tag"]) == (abi.ABI_VERSION, Status.VERSION_MISMATCH, 9)


@contextmanager
def device_of_version(version: int, status: Status) -> Iterator[Path]:
    """A control socket that answers every request with a head of its own version."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own:
        path = Path(folder) / "control"
        own.bind(str(path))
        own.listen()

        def serve() -> None:
            connection, _ = own.accept()
            with connection:
                while request := connection.recv(4096):
                    head = np.frombuffer(request, abi.MESSAGE, count=1).copy()
                    head["version"], head["status"] = version, status
                    connection.send(head.tobytes())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield path
        thread.join(BOUND_S)


@pytest.mark.parametrize("version", OTHERS)
@pytest.mark.parametrize("status", ["VERSION_MISMATCH", "SUCCESS"])
def test_attach_to_a_device_of_another_version(version: int, status: str) -> None:
    """Also to one that does not notice: its answers can not be understood."""
    with device_of_version(version, Status[status]) as path, pytest.raises(errors.VersionMismatch) as raised:
        Context(path)
    assert f"it speaks version {version} of the host interface, this program version {abi.ABI_VERSION}" in str(
        raised.value
    )
    assert "Install the same version" in str(raised.value)


@pytest.mark.parametrize("version", OTHERS)
def test_status_of_a_device_of_another_version(version: int) -> None:
    refusal = Status.VERSION_MISMATCH
    library = pytest.raises(errors.VersionMismatch, match=f"it speaks version {version} ")
    with device_of_version(version, refusal) as path, library:
        device_status(path)
    command = pytest.raises(ToolError, match=f"VERSION_MISMATCH: .*speaks version {version} of the host interface")
    with device_of_version(version, refusal) as path, command:
        device_query.query_status(path)


# The wire, in an engine


@pytest.mark.parametrize("opcode", [opcode for opcode in Opcode if opcode not in (Opcode.CONFIG, Opcode.CONFIG_ACK)])
def test_all_else_of_another_version_is_dropped(opcode: Opcode) -> None:
    rig = SwitchRig()
    before = rig.job.copy()
    assert rig.receive(opcode, PARENT, version=WIRE_VERSION + 1, status=Status.VERSION_MISMATCH) == []
    assert rig.count("drop_version") == 1
    assert rig.job == before


def asking(route: Route) -> NicRig:
    rig = NicRig(route, join=False)
    rig.join(0)
    return rig


@pytest.mark.parametrize(
    ("source", "change"), [(PARENT + 1, {}), (PARENT, {"key": KEY + 1}), (PARENT, {"jid": 1}), (PARENT, {"status": 4})]
)
def test_refusal_in_another_version_of_somebody_else_is_dropped(source: int, change: dict) -> None:
    rig = asking(Route.TREE)
    assert (
        rig.receive(
            Opcode.CONFIG_ACK, source, **({"version": WIRE_VERSION + 1, "status": Status.VERSION_MISMATCH} | change)
        )
        == []
    )
    assert rig.count("drop_version") == 1
    assert rig.count("jobs_aborted") == 0


# The wire, between real devices and a peer of another version


def datagram(source: str, port: int, destination: str, covered: bytes) -> bytes:
    return covered + icrc_of(source, destination, port, covered)


def header(opcode: Opcode, length: int = 0, **ceth: int) -> bytes:
    return pack(BTH, opcode=opcode, pkey=0xFFFF, dqpn=0xFA0C01) + pack(CETH, length=length, **ceth)


@pytest.mark.parametrize("version", OTHER_WIRES)
def test_real_switch_refuses_a_nic_of_another_version(running: Running, version: int) -> None:
    device, own = running.fabric.switches[0].address, f"127.68.{1 + os.getpid() % 200}.1"
    body = config(0, 2, device=int(ipaddress.IPv4Address(device)))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.settimeout(BOUND_S)
        receiver.bind((own, UDP_PORT))
        sender.bind((own, 0))
        covered = header(Opcode.CONFIG, len(body), version=version, jid=5, key=6) + body
        sender.sendto(datagram(own, sender.getsockname()[1], device, covered), (device, UDP_PORT))
        answer = receiver.recv(4096)
    ceth = unpack(CETH, answer[BTH.size :])
    assert (answer[0], ceth["status"], ceth["version"]) == (Opcode.CONFIG_ACK, Status.VERSION_MISMATCH, WIRE_VERSION)


@pytest.mark.parametrize("version", [WIRE_VERSION + 1, 255])
def test_real_nic_below_a_switch_of_another_version(nic: Path, version: int) -> None:
    """The rank's JOIN ends with the name, and with the versions of both."""
    own = f"127.68.{1 + os.getpid() % 200}.2"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as switch, closing(Context(nic)) as context:
        switch.settimeout(BOUND_S)
        switch.bind((own, UDP_PORT))
        jid = version
        thread = threading.Thread(target=refuse, args=(switch, own, version, jid))
        thread.start()
        hop = Hop(int(ipaddress.IPv4Address(own)), 0, 0b11)
        way = Membership(jid=jid, key=6, route=Route.TREE, node_count=2, hops=(hop,))
        with pytest.raises(errors.VersionMismatch) as raised:
            CollectiveQP(PD(context), CQ(context)).join(way, BOUND_S)
        thread.join()
    assert f"speaks version {version} of the wire protocol, and this node's NIC version {WIRE_VERSION}" in str(
        raised.value
    )


def refuse(switch: socket.socket, own: str, version: int, jid: int) -> None:
    """Answer the CONFIG of a job as a switch of another version. The NIC may still repeat an earlier job's."""
    asked: dict[str, int] = {}
    while asked.get("jid") != jid:
        request, (address, _) = switch.recvfrom(4096)
        asked = unpack(CETH, request[BTH.size :])
    same = {name: asked[name] for name in ("jid", "key", "source")}
    covered = header(Opcode.CONFIG_ACK, 8, version=version, status=Status.VERSION_MISMATCH, **same) + bytes(8)
    switch.sendto(datagram(own, UDP_PORT, address, covered), (address, UDP_PORT))
