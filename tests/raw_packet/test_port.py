"""A port over a RAW_PACKET queue pair on a host of the fabric, at an address of its own: which frames it takes, what it
refuses, and how it finds others. The frames come from another host."""

import contextlib
import ctypes
import errno
import os
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from fanin_nic.native import shared_words
from fanin_nic.port.port import PortError
from fanin_nic.port.receive import receive
from fanin_nic.port.verbs import interface, library
from fanin_nic.port.verbs.port import VerbsPort
from fanin_nic.port.verbs.raw_queue_pair import IS_KNOWN
from fanin_nic.port.verbs.resolver import is_of_this_host
from fanin_nic.port.verbs.wake import BROKEN
from fanin_tools.doctor import system
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import inside
from tests.e2e.fabrics import BOUND_S, eventually
from tests.port.conftest import Packet as Asked
from tests.port.conftest import bth, icrc_of, send_packets
from tests.raw_packet.rig import in_namespace

pytestmark = pytest.mark.netns

HOST, OTHER_HOST, OTHER_INTERFACE = "host0", "switch", namespaces.BRIDGE
DEVICE, INTERFACE = "raw-eth0", "eth0"
ADDRESS, STRANGER, NOBODY, GROUP = "10.77.250.1", "10.77.250.2", "10.77.250.3", "239.77.250.1"
SOURCE_PORT, MOVED = 0xC123, "02:00:00:00:00:99"
CAPABILITY_VERSION_3, NET_RAW = 0x20080522, 1 << 13  # linux/capability.h


@pytest.fixture(scope="module")
def host(running: Running, verbs_library: Path) -> Iterator[Callable]:
    """Calls functions on HOST, which has ADDRESS as well; OTHER_HOST has STRANGER."""
    name = namespaces.namespace(running.fabric, HOST)
    prefix = namespaces.PREFIX_LENGTH
    inside(running.fabric, HOST, "ip", "address", "add", f"{ADDRESS}/{prefix}", "dev", INTERFACE)
    inside(running.fabric, OTHER_HOST, "ip", "address", "add", f"{STRANGER}/{prefix}", "dev", OTHER_INTERFACE)
    library.library.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "NAME", str(verbs_library))
        yield lambda act: in_namespace(name, act)
    library.library.cache_clear()


@pytest.fixture(scope="module")
def port(host: Callable) -> Iterator[VerbsPort]:
    with contextlib.closing(host(lambda: VerbsPort(DEVICE, ADDRESS, 9000, group=GROUP, raw=True))) as port:
        yield port


@pytest.fixture(scope="module")
def wire(running: Running) -> Iterator[Callable[[bytes], None]]:
    """Sends a frame from OTHER_HOST."""

    def opened() -> socket.socket:
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        frames.bind((OTHER_INTERFACE, 0))
        return frames

    with in_namespace(namespaces.namespace(running.fabric, OTHER_HOST), opened) as frames:
        yield lambda frame: frames.send(frame)


def take(port: VerbsPort, count: int) -> list[bytes]:
    """Packets from BTH to before the ICRC, until there are `count`."""
    found: list[bytes] = []
    end = time.monotonic() + BOUND_S
    while len(found) < count:
        assert time.monotonic() < end, f"{found} {port.drops()}"
        entries = port.received[: receive(port.state)]
        found += [ctypes.string_at(int(entry["address"]), int(entry["length"])) for entry in entries]
        select.select([], [], [], 0.001)
    return found


def packet(number: int, destination: str = ADDRESS) -> bytes:
    """An ordinary packet of 16 bytes behind its BTH, from the stranger."""
    covered = bth(0x04, dqpn=number) + bytes(16)
    return covered + icrc_of(STRANGER, destination, SOURCE_PORT, covered)


def frame(host: Callable, content: bytes, destination: str = ADDRESS, **fields: object) -> Packet:
    """A frame with this packet, as scapy has it, and an ICRC that is right whatever the given fields of the IP header
    are."""
    mac = "01:00:5e:4d:fa:01" if destination == GROUP else mac_text(host(lambda: interface.mac_of(INTERFACE)))
    headers = IP(**({"src": STRANGER, "dst": destination, "flags": "DF", "id": 0} | fields))
    return Ether(dst=mac) / headers / UDP(sport=SOURCE_PORT, dport=4791) / Raw(content)


def mac_text(mac: int) -> str:
    return mac.to_bytes(6).hex(":")


def test_frames_of_a_stranger(host: Callable, port: VerbsPort, wire: Callable) -> None:
    """Good ones, to the port and to its group, are taken. Those that a rule lets through and that are not whole are
    dropped and counted; the rule keeps others away."""
    good, to_group = packet(1), packet(2, GROUP)
    before = Counter(port.drops())
    for damaged in (
        frame(host, good, chksum=1),
        frame(host, good, flags="MF"),
        frame(host, good, len=28 + len(good) + 4),
        frame(host, good, options=b"\x01" * 4),  # UDP does not begin where a rule looks for it
        frame(host, good, dst="10.77.250.77"),
        frame(host, good[:-1] + bytes([good[-1] ^ 1])),
        frame(host, b""),
    ):
        wire(bytes(damaged))
    wire(bytes(frame(host, good))[:-1])
    wire(bytes(frame(host, good)) + bytes(20))
    wire(bytes(frame(host, to_group, GROUP)))
    assert take(port, 2) == [good[:-4], to_group[:-4]]
    assert Counter(port.drops()) - before == Counter(drop_frame=3, drop_icrc=1, drop_runt=2)
    assert port.peers()[STRANGER]["rx_packets"] == 2


def test_frames_go_where_the_kernel_says(host: Callable, running: Running) -> None:
    """To a neighbour, or to the router of its network. An address of the host itself is known as such."""
    inside(running.fabric, HOST, "ip", "route", "add", "192.0.2.0/24", "via", STRANGER)
    inside(running.fabric, HOST, "ip", "route", "add", "192.0.2.64/26", "via", NOBODY)
    hops = host(lambda: [interface.next_hop(INTERFACE, address) for address in (STRANGER, "192.0.2.9", "192.0.2.70")])
    assert hops == [STRANGER, STRANGER, NOBODY]
    assert host(lambda: [is_of_this_host(address) for address in (ADDRESS, STRANGER)]) == [True, False]


def send(port: VerbsPort, destination: str) -> None:
    send_packets(port, [Asked(destination, bytes(8))])


def test_neighbour_is_asked_for_once_it_is_sent_to(
    host: Callable, port: VerbsPort, running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """What is sent before is lost, and counted. It may move to another Ethernet address. One IP address is the host's
    own, which the log says."""
    inside(running.fabric, HOST, "ip", "neighbour", "flush", "dev", INTERFACE)
    before = port.drops()["drop_unresolved"]
    send(port, STRANGER)
    assert port.drops()["drop_unresolved"] == before + 1
    assert port.send_errors()[STRANGER][1] == errno.ENOTCONN

    def sent() -> int:
        send(port, STRANGER)
        return int(port.peers()[STRANGER]["tx_packets"])

    eventually(sent, bool)
    words = [STRANGER, "lladdr", MOVED, "nud", "permanent", "dev", INTERFACE]
    inside(running.fabric, HOST, "ip", "neighbour", "replace", *words)

    def known() -> str:
        send(port, STRANGER)
        return mac_text(port._queue_pair.handles[STRANGER] & ~IS_KNOWN)

    eventually(known, lambda mac: mac == MOVED)  # since it answers nothing, it is looked up again
    inside(running.fabric, HOST, "ip", "neighbour", "delete", STRANGER, "dev", INTERFACE)
    send(port, running.fabric.nics[0].address)
    eventually(lambda: caplog.text, lambda text: "is an address of this host: no frame that raw-eth0 sends" in text)


def test_queue_pair_that_fails(host: Callable, port: VerbsPort, wire: Callable) -> None:
    """It is brought up again, and its rules are as they were."""
    queue_pair = port._queue_pair
    shared_words.store_release(queue_pair.state + BROKEN, 1)
    os.eventfd_write(queue_pair.wake_fd, 1)
    eventually(lambda: shared_words.load_acquire(queue_pair.state + BROKEN), lambda broken: broken == 0)
    wire(bytes(frame(host, packet(3))))
    assert take(port, 1) == [packet(3)[:-4]]


def without_net_raw(act: Callable) -> Callable:
    """`act` by a thread that may not have packet sockets."""

    def run() -> object:
        header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.capget(header, sets) == 0
        sets[0] &= ~NET_RAW
        assert libc.capset(header, sets) == 0
        return act()

    return run


def opened(address: str = NOBODY, device: str = DEVICE, mtu: int = 4124) -> None:
    """Open a port, and close it."""
    VerbsPort(device, address, mtu, raw=True).close()


REFUSED = {
    "no right": (
        without_net_raw(opened),
        "cannot make a RAW_PACKET queue pair on raw-eth0: Operation not permitted; run as root or with CAP_NET_RAW",
    ),
    "no device": (lambda: opened(device="mlx5_0"), "no verbs device is called mlx5_0; use one of raw-eth0"),
    "no such address": (
        lambda: opened("10.77.250.200"),
        "raw-eth0 has no network interface with the address 10.77.250.200; give it that address, or use its own for",
    ),
    "too long": (lambda: opened(mtu=60_000), "use mtu = {mtu}, or raise the MTU of the device's network interface"),
    "port of another": (lambda: opened(ADDRESS), f"cannot take UDP port 4791 of {ADDRESS}: Address already in use"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(host: Callable, port: VerbsPort, running: Running, name: str) -> None:
    act, said = REFUSED[name]
    with free_address(running), pytest.raises(PortError) as refusal:
        host(act)
    assert said.format(mtu=running.fabric.mtu) in str(refusal.value)


@contextlib.contextmanager
def free_address(running: Running) -> Iterator[None]:
    """HOST has NOBODY meanwhile."""
    words = [f"{NOBODY}/{namespaces.PREFIX_LENGTH}", "dev", INTERFACE]
    inside(running.fabric, HOST, "ip", "address", "add", *words)
    try:
        yield
    finally:
        inside(running.fabric, HOST, "ip", "address", "delete", *words)


def test_device_without_rules(
    host: Callable, port: VerbsPort, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAW_DEVICE_WITHOUT_RULES", "1")
    with free_address(running):
        with pytest.raises(PortError, match=r"raw-eth0 has no steering rules; leave out \?raw"):
            host(opened)
        monkeypatch.delenv("RAW_DEVICE_WITHOUT_RULES")
        host(opened)  # nothing of the refused one is left


def test_vlan_is_refused(
    host: Callable, port: VerbsPort, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames would need a tag."""
    (tmp_path / INTERFACE).touch()
    monkeypatch.setattr(interface, "VLANS", tmp_path)
    with free_address(running), pytest.raises(PortError, match="network interface eth0 is a VLAN; use an address of"):
        host(opened)


def test_doctor_says_who_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlx5_0").mkdir()
    monkeypatch.setattr(system, "RDMA_FOLDER", tmp_path)
    found: list[str] = []
    thread = threading.Thread(target=without_net_raw(lambda: found.append(rdma_devices())))
    thread.start()
    thread.join()
    assert rdma_devices() == "mlx5_0; RAW_PACKET queue pairs are allowed"
    assert found == ["mlx5_0; RAW_PACKET queue pairs are not allowed (CAP_NET_RAW)"]


def rdma_devices() -> str:
    """What `fanin doctor` says of RDMA devices."""
    return next(found.detail for found in system.run_checks() if found.subject == "RDMA devices")


def test_device_whose_roce_is_off(
    host: Callable, port: VerbsPort, running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no GID; its network interface is found in sysfs, by its first address."""
    there = tmp_path / DEVICE / "device" / "net" / INTERFACE
    there.mkdir(parents=True)
    (there / "dev_port").write_text("1\n")
    monkeypatch.setattr(interface, "DEVICES", tmp_path)
    first = running.fabric.nics[0].address
    assert host(lambda: interface.with_address(DEVICE, first)) == (INTERFACE, 2)
