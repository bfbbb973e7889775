"""The model of a server: a tree from the machine down to PCI functions, and links between them.

| kind | stands for | below it |
| --- | --- | --- |
| MACHINE | the server | NUMA nodes; host bridges whose NUMA node is unknown |
| NUMA | a NUMA node | host bridges, or PCI functions where the source knows no host bridges |
| HOST_BRIDGE | a root complex of the processor | PCI bridges and functions |
| SWITCH | a PCI bridge: a root port, or a port of a switch | PCI bridges and functions |
| GPU, NIC, VF, OTHER | a PCI function; VF is a virtual function of a NIC | nothing that counts |

The kind of the lowest common ancestor is the nearness of two functions: the model of NCCL and hwloc, reduced to what
placement needs. Record 0084 (docs/decisions) says why a tree, and what its three sources do not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from fanin_cluster.errors import ClusterError

ADDRESS = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f])")
NVIDIA, AMD, INTEL, HABANA = "0x10de", "0x1002", "0x8086", "0x1da3"
# GPUs are functions of these classes by these vendors, or by an unknown one. Other functions have the classes too:
# management controllers (ASPEED, Matrox), the displays of virtual machines (virtio, bochs, QXL), FPGA cards.
GPU_VENDORS = {
    "0300": {NVIDIA, AMD},  # VGA controller
    "0302": {NVIDIA, AMD, INTEL},  # 3D controller
    "0380": {NVIDIA, AMD, INTEL},  # display controller
    "1200": {NVIDIA, AMD, HABANA},  # processing accelerator
}
INTEGRATED = {(INTEL, "0000:00:02.0")}  # vendor and address of the graphics in a processor
PASSED_ON = {"vfio-pci", "pci-stub", "pciback", "uio_pci_generic", "igb_uio"}  # drivers that hide a function from Linux
GIGABYTES = 1e9
# Transfers a second (10^9) up to which a generation of PCIe codes 8 bits in 10; later ones code 128 in 130.
OLD_CODE_GT = 5.0


class TopologyInvalid(ClusterError):
    """A source that does not describe a machine. `cause` names the place."""


class Kind(StrEnum):
    """The kind of a component."""

    MACHINE = "machine"
    NUMA = "NUMA node"
    HOST_BRIDGE = "host bridge"
    SWITCH = "PCI bridge"
    GPU = "GPU"
    NIC = "NIC"
    VF = "virtual function"
    OTHER = "other"


class Nearness(IntEnum):
    """How near two functions are; a smaller value is nearer.

    NCCL calls SWITCH PIX or PXB, HOST_BRIDGE PHB, NUMA NODE, and OTHER SYS.
    """

    SWITCH = 0
    HOST_BRIDGE = 1
    NUMA = 2
    OTHER = 3

    @property
    def words(self) -> str:
        """The class in words."""
        return ("same switch", "same host bridge", "same NUMA node", "other")[self]


NEARNESS_OF = {
    Kind.SWITCH: Nearness.SWITCH,
    Kind.HOST_BRIDGE: Nearness.HOST_BRIDGE,
    Kind.NUMA: Nearness.NUMA,
    Kind.MACHINE: Nearness.OTHER,
}
# The first four hexadecimal digits of the class (PCI Code and ID Assignment Specification): base class, subclass.
CLASSES = {
    "0200": Kind.NIC,  # Ethernet
    "0207": Kind.NIC,  # InfiniBand
    "0280": Kind.NIC,  # other network controller
    "0604": Kind.SWITCH,  # PCI bridge
}


@dataclass(eq=False)
class Component:
    """A vertex of the tree, compared by identity.

    address: PCI address in lower case, "0000:19:00.0"; "" for other components
    number: of a NUMA node, or of a GPU as its driver counts; None if unknown
    rate: of the network of a NIC in bytes per second, both ports together; 0 if unknown
    bus_rate: of the PCIe link above a function in bytes per second; 0 if unknown
    vendor: PCI vendor, "0x15b3"; "" if unknown
    devices: names in the operating system, RDMA devices first
    rdma: whether a NIC has an RDMA device; None if unknown
    physical: of a VF, the address of its physical function
    most_vfs: the limit of VFs of a NIC; None if unknown
    """

    kind: Kind
    address: str = ""
    number: int | None = None
    rate: float = 0.0
    bus_rate: float = 0.0
    vendor: str = ""
    devices: tuple[str, ...] = ()
    rdma: bool | None = None
    physical: str = ""
    most_vfs: int | None = None
    name: str = ""
    parent: Component | None = field(default=None, repr=False)
    children: list[Component] = field(default_factory=list, repr=False)

    def add(self, child: Component) -> Component:
        """Put a component below this one, and return it. A function with others below it is a bridge."""
        if self.kind not in NEARNESS_OF:
            self.kind = Kind.SWITCH
        child.parent = self
        self.children.append(child)
        return child

    def walk(self) -> Iterator[Component]:
        """This component and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def ancestors(self) -> list[Component]:
        """All components above this one, the machine last."""
        found = []
        above = self.parent
        while above is not None:
            found.append(above)
            above = above.parent
        return found


@dataclass(frozen=True)
class Link:
    """Connections between two GPUs, or from a GPU to a switch of such connections, that do not cross PCIe.

    kind: "nvlink" or "xgmi"
    ends: names of the two GPUs; the second is an address if it is not a GPU of this machine
    count: parallel connections
    """

    kind: str
    ends: tuple[str, str]
    count: int


@dataclass
class Machine:
    """A server.

    root: the tree
    source: the path that was read
    format: "NCCL XML", "hwloc XML" or "sysfs"
    links: between GPUs, each pair once
    notes: gaps and contradictions of the source, in sentences
    """

    root: Component
    source: str
    format: str
    links: list[Link] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def all(self, kind: Kind) -> list[Component]:
        """All components of a kind, in the order of the source."""
        return [each for each in self.root.walk() if each.kind is kind]

    @property
    def gpus(self) -> list[Component]:
        """The GPUs, by their numbers if these are unique."""
        found = self.all(Kind.GPU)
        numbers = [each.number for each in found]
        if None in numbers or len(set(numbers)) < len(numbers):
            return found
        return sorted(found, key=lambda each: each.number or 0)

    @property
    def nics(self) -> list[Component]:
        """The NICs, without virtual functions."""
        return self.all(Kind.NIC)

    @property
    def rdma_nics(self) -> list[Component]:
        """The NICs that have, or may have, an RDMA device."""
        return [nic for nic in self.nics if nic.rdma is not False]

    def virtual_functions(self, nic: Component) -> list[Component]:
        """The VFs of a physical function."""
        return [each for each in self.all(Kind.VF) if each.physical and each.physical == nic.address]


def common_ancestor(one: Component, other: Component) -> Component:
    """The lowest component above both. Raises ValueError if they are of different machines."""
    above = other.ancestors()
    for each in one.ancestors():
        if each in above:
            return each
    raise ValueError(f"{one.name} and {other.name} belong to different machines")


def nearness(one: Component, other: Component) -> Nearness:
    """The class of two functions of one machine."""
    return NEARNESS_OF[common_ancestor(one, other).kind]


def distance(one: Component, other: Component) -> tuple[Nearness, int]:
    """The class, and within it the number of bridges on the path: smaller is nearer."""
    top = common_ancestor(one, other)
    bridges = sum(
        each.kind in (Kind.SWITCH, Kind.HOST_BRIDGE)
        for start in (one, other)
        for each in start.ancestors()
        if each is not top and top in each.ancestors()
    )
    return NEARNESS_OF[top.kind], bridges + (top.kind in (Kind.SWITCH, Kind.HOST_BRIDGE))


def numa_of(component: Component) -> int | None:
    """The number of the NUMA node of a component; None if unknown."""
    return next((each.number for each in component.ancestors() if each.kind is Kind.NUMA), None)


def name_components(machine: Machine) -> None:
    """Give every component its name: `gpu0`, the RDMA device of a NIC or `nic0`, else its kind and place.

    Control characters are removed from names of devices: they would move the cursor of a terminal.
    """
    for each in machine.root.walk():
        each.devices = tuple("".join(filter(str.isprintable, device)) for device in each.devices)
    for position, gpu in enumerate(machine.gpus):
        gpu.name = f"gpu{position}"
    taken: set[str] = set()
    for position, nic in enumerate(machine.nics):
        known = nic.devices[0] if nic.devices else f"nic{position}"
        nic.name = f"{known}@{nic.address}" if known in taken else known
        taken.add(known)
    for each in machine.root.walk():
        if each.kind is Kind.NUMA:
            each.name = f"numa{each.number}"
        elif not each.name:
            each.name = (
                each.devices[0] if each.kind is Kind.VF and each.devices else f"{each.kind} {each.address}".strip()
            )


def normal_address(text: str) -> str | None:
    """An address in the form of Linux, "0000:19:00.0", also from nvidia-smi's "00000000:19:00.0"; None if invalid."""
    match = ADDRESS.fullmatch(text.strip().lower())
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus:0>2}:{device:0>2}.{function}"


def kind_of_class(code: str, vendor: str, address: str = "") -> Kind:
    """The kind of a function by its class "0x030200" or "0302", its vendor "0x10de" ("" if unknown), its address."""
    digits, vendor = code.strip().lower().removeprefix("0x")[:4], vendor.lower()
    if digits in GPU_VENDORS:
        counts = (not vendor or vendor in GPU_VENDORS[digits]) and (vendor, address) not in INTEGRATED
        return Kind.GPU if counts else Kind.OTHER
    return CLASSES.get(digits, Kind.OTHER)


def link_rate(speed: str, width: str) -> float:
    """Bytes per second of a PCIe link, from "16.0 GT/s PCIe" and "16" as in sysfs; 0 if either is unknown."""
    rate = re.match(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*GT/s", speed)
    lanes = re.match(r"\s*(\d{1,9})(?!\d)", width)
    if rate is None or lanes is None:
        return 0.0
    transfers = float(rate[1])
    share = 8 / 10 if transfers <= OLD_CODE_GT else 128 / 130
    return transfers * 1e9 * share * int(lanes[1]) / 8
