"""Checks of a BlueField card: on the card itself and on its host. Without such a card one result says so.

All is read from sysfs: the card, the owner of its switch, representors, sub-functions, verbs devices with addresses,
huge pages and cores. Names and files are those of the kernel's mlx5 driver and of NVIDIA's documents. It was never
tried on a card: the tests make such trees.

Sources: pci.ids; Documentation/ABI/testing/sysfs-class-net (phys_port_name), sysfs-class-infiniband; Linux,
networking/device_drivers/ethernet/mellanox/mlx5/switchdev.rst (sub-functions).
"""

import ipaddress
import os
import platform
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fanin_tools.doctor.check import CheckResult, Level

ROOT = Path("/")
NVIDIA = "0x15b3"  # pci.ids: Mellanox Technologies
CARDS = {"0xa2d6": "BlueField-2", "0xa2dc": "BlueField-3"}  # pci.ids: their network controllers
MANAGEMENT = {"0xc2d3": "BlueField-2", "0xc2d5": "BlueField-3"}  # pci.ids: seen by the host, also in NIC mode
GUIDE = "docs/bluefield.md"
# Kinds of ports, by phys_port_name: cCONTROLLER is the host's if the switch is the card's.
UPLINK = re.compile(r"p\d+")
HOST_PORT = re.compile(r"(c\d+)?pf\d+(vf\d+)?")
SUB_FUNCTION_PORT = re.compile(r"(c\d+)?pf\d+sf\d+")
ACTIVE = "4: ACTIVE"  # ports/1/state
LOCKED = 64 << 20  # bytes: a port over a verbs device takes 21 MiB, ranks over RDMA their staging memory
VERBS_MTU = 4200  # of an interface whose verbs device carries datagrams of 4096 bytes


class Netdev(NamedTuple):
    """Name, phys_port_name ("": none), MTU in bytes, whether it is up."""

    name: str
    port: str
    mtu: int
    up: bool


class Verbs(NamedTuple):
    """Name, state of its first port, its IPv4 addresses for RoCE v2, its interface ("": none)."""

    name: str
    state: str
    addresses: tuple[str, ...]
    netdev: str


def run_checks(root: Path = ROOT, locked: int | None = None) -> Iterator[CheckResult]:
    """root: what to take for `/`. locked: bytes that a process may lock, -1: all; None: this process's limit."""
    card = card_of(root)
    if not card:
        yield CheckResult("BlueField", Level.ABSENT, "no such card", "devices on a DPU")
        return
    netdevs = list(netdevs_of(root))
    verbs = list(verbs_of(root))
    if is_card(root):
        detail = f"this is the {card} (untried: no test has run on one)"
        yield CheckResult("BlueField", Level.OK, detail, "devices here")
        yield _mode(netdevs)
        yield _uplinks(netdevs)
        yield _representors(netdevs)
        yield _sub_functions(root)
        yield _cores(root)
    else:
        detail = f"this is the host of a {card} (untried: no test has run on one)"
        yield CheckResult("BlueField", Level.OK, detail, "ranks here, with their device on the card")
        yield _management(root)
    yield _verbs(verbs, netdevs)
    yield _access(root)
    yield _locked(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] if locked is None else locked)
    yield _huge_pages(root)
    yield CheckResult("kernel", Level.OK, platform.release(), "the drivers of the card")


def text_of(file: Path) -> str:
    """What a file of sysfs says; "" if it is missing or empty."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def folders(folder: Path) -> list[Path]:
    """Of sysfs, by name; none if `folder` is missing."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def card_of(root: Path) -> str:
    """Such as "BlueField-3"; "" for none. In NIC mode the host sees the same network controller."""
    for device in folders(root / "sys/bus/pci/devices"):
        if text_of(device / "vendor") == NVIDIA:
            number = text_of(device / "device")
            if name := CARDS.get(number) or MANAGEMENT.get(number):
                return name
    return ""


def is_card(root: Path) -> bool:
    """This machine is the card, not its host."""
    return "BlueField" in text_of(root / "sys/class/dmi/id/product_name")


def netdevs_of(root: Path) -> Iterator[Netdev]:
    for folder in folders(root / "sys/class/net"):
        mtu = text_of(folder / "mtu")
        yield Netdev(
            folder.name,
            text_of(folder / "phys_port_name"),
            int(mtu) if mtu.isdecimal() else 0,
            text_of(folder / "operstate") == "up",
        )


def verbs_of(root: Path) -> Iterator[Verbs]:
    for folder in folders(root / "sys/class/infiniband"):
        port = folder / "ports/1"
        addresses, netdev = [], ""
        for gid in folders(port / "gids"):
            if text_of(port / "gid_attrs/types" / gid.name) != "RoCE v2":
                continue
            try:
                mapped = ipaddress.IPv6Address(text_of(gid)).ipv4_mapped
            except ValueError:
                continue
            if mapped:
                addresses.append(str(mapped))
                netdev = text_of(port / "gid_attrs/ndevs" / gid.name)
        yield Verbs(folder.name, text_of(port / "state"), tuple(addresses), netdev)


def _mode(netdevs: list[Netdev]) -> CheckResult:
    subject, enables = "mode", "a path from the host through the card's cores"
    if any(HOST_PORT.fullmatch(each.port) for each in netdevs):
        return CheckResult(subject, Level.OK, "DPU (embedded, ECPF): the switch is the card's", enables)
    if any(UPLINK.fullmatch(each.port) for each in netdevs):
        remedy = "give the host a function: mlxconfig set NUM_OF_PF=1, then switch the power off and on"
        return CheckResult(subject, Level.LIMITED, "DPU, but the host has no function of the card", enables, remedy)
    remedy = f"mlxconfig set INTERNAL_CPU_OFFLOAD_ENGINE=0, then switch the power off and on ({GUIDE})"
    return CheckResult(subject, Level.MISSING, "NIC mode, or no driver: the card has no port", enables, remedy)


def _shown(netdevs: list[Netdev]) -> str:
    return ", ".join(f"{each.name} ({'up' if each.up else 'down'}, MTU {each.mtu})" for each in netdevs)


def _uplinks(netdevs: list[Netdev]) -> CheckResult:
    found = [each for each in netdevs if UPLINK.fullmatch(each.port)]
    subject, enables = "ports of the card", "packets between devices"
    if any(each.up for each in found):
        return CheckResult(subject, Level.OK, _shown(found), enables)
    remedy = "ip link set p0 up; see to the cable and the other side"
    return CheckResult(subject, Level.MISSING, _shown(found) or "none", enables, remedy)


def _representors(netdevs: list[Netdev]) -> CheckResult:
    found = [each for each in netdevs if HOST_PORT.fullmatch(each.port) or SUB_FUNCTION_PORT.fullmatch(each.port)]
    subject, enables = "representors", "a switch on the card that connects host, sub-functions and ports"
    if not found:
        return CheckResult(subject, Level.MISSING, "none", enables, f"see mode ({GUIDE})")
    if down := [each.name for each in found if not each.up]:
        remedy = "ip link set NAME up; ovs-vsctl show says whether each is in a bridge"
        return CheckResult(subject, Level.LIMITED, f"{_shown(found)}: {', '.join(down)} down", enables, remedy)
    return CheckResult(subject, Level.OK, _shown(found), enables)


def _sub_functions(root: Path) -> CheckResult:
    found = []
    for folder in folders(root / "sys/bus/auxiliary/devices"):
        if folder.name.startswith("mlx5_core.sf."):
            netdev, verbs = (" ".join(each.name for each in folders(folder / kind)) for kind in ("net", "infiniband"))
            found.append(f"{text_of(folder / 'sfnum')}: {netdev or 'no interface'}, {verbs or 'no verbs device'}")
    subject, enables = "sub-functions", "an interface and a verbs device of a Fanin device's own"
    if found:
        return CheckResult(subject, Level.OK, "; ".join(found), enables)
    return CheckResult(subject, Level.MISSING, "none", enables, f"mlnx-sf makes them ({GUIDE})")


def _cores(root: Path) -> CheckResult:
    isolated = text_of(root / "sys/devices/system/cpu/isolated")
    subject, enables = "isolated cores", "devices that nothing else disturbs"
    if isolated:
        return CheckResult(subject, Level.OK, isolated, enables)
    remedy = f"works; for cores of their own: isolcpus=, and CPUAffinity= in the unit ({GUIDE})"
    return CheckResult(subject, Level.LIMITED, "none", enables, remedy)


def _management(root: Path) -> CheckResult:
    subject, enables = "rshim", "a console and files of the card (tmfifo_net0)"
    names = {each.name for each in netdevs_of(root)}
    if "tmfifo_net0" in names:
        return CheckResult(subject, Level.OK, "tmfifo_net0", enables)
    return CheckResult(subject, Level.MISSING, "no tmfifo_net0", enables, "start rshim, or use the card's own network")


def _verbs(verbs: list[Verbs], netdevs: list[Netdev]) -> CheckResult:
    subject, enables = "RoCE addresses", "ranks on the host by rdma://, ports by verbs://"
    usable = [each for each in verbs if each.state == ACTIVE and each.addresses]
    if not usable:
        states = ", ".join(f"{each.name} {each.state or 'without a port'}" for each in verbs) or "no verbs device"
        remedy = "give an interface of an active verbs device an IPv4 address"
        return CheckResult(subject, Level.MISSING, f"none; {states}", enables, remedy)
    mtus = {each.name: each.mtu for each in netdevs}
    detail = "; ".join(f"{each.name}@{','.join(each.addresses)} ({each.netdev or '?'})" for each in usable)
    small = [each.netdev for each in usable if 0 < mtus.get(each.netdev, 0) < VERBS_MTU]
    if small:
        remedy = f"works for rdma://; for verbs:// with whole segments: ip link set {small[0]} mtu 9000"
        return CheckResult(subject, Level.LIMITED, f"{detail}; MTU below {VERBS_MTU}: {small[0]}", enables, remedy)
    return CheckResult(subject, Level.OK, detail, enables)


def _access(root: Path) -> CheckResult:
    nodes = [file for file in folders(root / "dev/infiniband") if file.name.startswith("uverbs")]
    subject, enables = "/dev/infiniband", "verbs devices"
    if not nodes:
        remedy = "load ib_uverbs and mlx5_ib; in a container, mount /dev/infiniband and allow the devices"
        return CheckResult(subject, Level.MISSING, "no uverbs device", enables, remedy)
    refused = [file.name for file in nodes if not os.access(file, os.R_OK | os.W_OK)]
    if refused:
        return CheckResult(
            subject, Level.LIMITED, f"no access to {', '.join(refused)}", enables, "rdma-core's udev rules give it"
        )
    return CheckResult(subject, Level.OK, ", ".join(file.name for file in nodes), enables)


def _locked(limit: int) -> CheckResult:
    subject, enables = "locked memory", "memory that verbs devices read and write"
    if limit == resource.RLIM_INFINITY:
        return CheckResult(subject, Level.OK, "no limit", enables)
    detail = f"{limit >> 10} KiB"
    if limit >= LOCKED:
        return CheckResult(subject, Level.OK, detail, enables)
    remedy = "ulimit -l unlimited; the units have LimitMEMLOCK=infinity, a container has its runtime's limit"
    return CheckResult(subject, Level.LIMITED, detail, enables, remedy)


def _huge_pages(root: Path) -> CheckResult:
    found = []
    for folder in folders(root / "sys/kernel/mm/hugepages"):
        if (number := text_of(folder / "nr_hugepages")) not in ("", "0"):
            found.append(f"{number} of {folder.name.removeprefix('hugepages-')}")
    return CheckResult("huge pages", Level.OK, ", ".join(found) or "none", "Open vSwitch over DPDK; not Fanin")
