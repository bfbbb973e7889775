"""The topology of a running Linux, from sysfs; it has no links between GPUs.

| path below /sys | is read for |
| --- | --- |
| bus/pci/devices/ADDRESS | a link to the function's folder, whose path names its host bridge and its bridges |
| .../class, vendor | its kind |
| .../driver | a link: its driver; a function that is passed on to a virtual machine does not count |
| .../numa_node | its NUMA node; -1 is unknown |
| .../current_link_speed, current_link_width | the rate of its PCIe link |
| .../physfn | a link: this is a virtual function of the NIC there |
| .../sriov_totalvfs | how many VFs a NIC can have; missing: none |
| .../infiniband/NAME/ports/N/rate | its RDMA device, and its rate in Gbit/s |
| .../net/NAME/speed | its network interface, and its rate in Mbit/s; that of a virtio device is in a folder virtioN |
| devices/system/node/online | the NUMA nodes |
"""

import re
from pathlib import Path

from fanin_cluster.topology.machine import (
    PASSED_ON,
    Component,
    Kind,
    Machine,
    TopologyInvalid,
    kind_of_class,
    link_rate,
    name_components,
    normal_address,
)

FORMAT = "sysfs"
ROOT = Path("/sys")
BRIDGE = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
GBITS, MBITS = 1e9 / 8, 1e6 / 8


def read_sysfs(root: Path = ROOT) -> Machine:
    """This machine. Raises TopologyInvalid if sysfs can not be read."""
    try:
        next((root / "devices").iterdir(), None)
        folder = root / "bus/pci/devices"
        functions = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise TopologyInvalid(
            f"{error.filename} can not be read: {error.strerror}", "give a file that lstopo or NCCL has written there"
        ) from None
    reader = _Reader(root)
    for function in functions:
        reader.function(function.resolve())
    name_components(reader.machine)
    if not functions:
        reader.machine.notes.append("There is no PCI bus.")
    reader.machine.notes.append("sysfs has no links between GPUs.")
    return reader.machine


class _Reader:
    def __init__(self, root: Path) -> None:
        self.machine = Machine(Component(Kind.MACHINE), str(root), FORMAT)
        self.nodes = {number: self.node(number) for number in _numbers(_text(root / "devices/system/node/online"))}
        self.known: dict[Path, Component] = {}

    def node(self, number: int) -> Component:
        return self.machine.root.add(Component(Kind.NUMA, number=number))

    def place(self, folder: Path) -> Component:
        """The NUMA node of a folder; on a machine with one node that node; else the machine."""
        text = _text(folder / "numa_node")
        if text.isdecimal():
            if int(text) not in self.nodes:
                self.nodes[int(text)] = self.node(int(text))
            return self.nodes[int(text)]
        return next(iter(self.nodes.values())) if len(self.nodes) == 1 else self.machine.root

    def function(self, folder: Path) -> Component:
        """The component of a function's folder. Those above it are made first."""
        if folder in self.known:
            return self.known[folder]
        above = self.function(folder.parent) if normal_address(folder.parent.name) else self.host_bridge(folder)
        component = self.known[folder] = above.add(described(folder))
        return component

    def host_bridge(self, folder: Path) -> Component:
        """The host bridge of a function at the top of its bus."""
        bridge = next((each for each in folder.parents if BRIDGE.fullmatch(each.name)), folder.parent)
        if bridge not in self.known:
            self.known[bridge] = self.place(folder).add(Component(Kind.HOST_BRIDGE, bridge.name.removeprefix("pci")))
        return self.known[bridge]


def described(folder: Path) -> Component:
    """The component of a function, from the files of its folder."""
    vendor, address = _text(folder / "vendor"), normal_address(folder.name) or folder.name
    component = Component(
        kind_of_class(_text(folder / "class"), vendor, address),
        address,
        vendor=vendor,
        bus_rate=link_rate(_text(folder / "current_link_speed"), _text(folder / "current_link_width")),
    )
    part_of_gpu = component.kind is Kind.GPU and (folder / "physfn").exists()  # made for a virtual machine
    if part_of_gpu or (folder / "driver").resolve().name in PASSED_ON:
        component.kind = Kind.OTHER
    if component.kind is Kind.NIC:
        _describe_nic(component, folder)
    return component


def _describe_nic(component: Component, folder: Path) -> None:
    rdma = _names(folder / "infiniband")
    holders = [folder, *(folder / name for name in _names(folder) if name.startswith("virtio"))]
    interfaces = [name for holder in holders for name in _names(holder / "net")]
    component.devices = (*rdma, *interfaces)
    component.rdma = bool(rdma)
    rates = [_first_number(_text(port / "rate")) * GBITS for name in rdma for port in _ports(folder, name)]
    speeds = [_first_number(_text(folder / "net" / name / "speed")) * MBITS for name in interfaces]
    component.rate = sum(rates) or sum(speeds)
    component.most_vfs = int(_first_number(_text(folder / "sriov_totalvfs")))
    if (folder / "physfn").exists():
        component.kind = Kind.VF
        component.physical = (folder / "physfn").resolve().name


def _ports(folder: Path, name: str) -> list[Path]:
    ports = folder / "infiniband" / name / "ports"
    return [ports / number for number in _names(ports)]


def _names(folder: Path) -> list[str]:
    """The names in a folder; none if it is missing, as devices disappear."""
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """The text of a file; "" if it is missing or the kernel has no answer (the speed of a link that is down)."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _first_number(text: str) -> float:
    """The number at the start of a text; 0 if there is none or it is negative (unknown)."""
    match = re.match(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match else 0.0


def _numbers(text: str) -> list[int]:
    """The numbers of a list of the kernel: "0-1,4"."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
