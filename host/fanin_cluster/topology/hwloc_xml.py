"""Topologies of hwloc, version 2 and 3 (lstopo file.xml).

| object | attributes that are read | stands for |
| --- | --- | --- |
| NUMANode | os_index | a NUMA node |
| any with a nodeset | nodeset | the NUMA node of the host bridges below it, if it is a single one |
| Bridge | bridge_type | 0-1: a host bridge; 1-1: a PCI bridge |
| PCIDev | pci_busid, pci_type ("0302 [10de:1db8] ..."), pci_link_speed (GB/s) | a PCI function |
| OSDev | name, osdev_type | what the operating system calls the function above it |

`osdev_type` is a number in version 2 and a set of bits in version 3. By default hwloc merges bridges with one child,
which changes the number of bridges on a path, but no class. It does not mark virtual functions.
Source: doc/hwloc.doxy and hwloc/topology-xml.c of hwloc.
"""

import re
from pathlib import Path

from fanin_cluster.topology.machine import (
    GIGABYTES,
    Component,
    Kind,
    Machine,
    TopologyInvalid,
    kind_of_class,
    name_components,
    normal_address,
)
from fanin_cluster.topology.xml_file import MAX_SHOWN, Element

FORMAT = "hwloc XML"
ROOT = "topology"
HOST_BRIDGE = "0-1"
NETWORK, OPENFABRICS = "network", "OpenFabrics"
# Version 2: enum hwloc_obj_osdev_type_e. Version 3: its bits.
NUMBERS_2 = {2: NETWORK, 3: OPENFABRICS}
BITS_3 = {1 << 4: NETWORK, 1 << 5: OPENFABRICS}
TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\]")
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?")
REMEDY = "write the file anew: lstopo --whole-io FILE.xml"


def read_hwloc(root: Element, path: Path) -> Machine:
    """The machine that a `topology` element describes. Raises TopologyInvalid with the line of what is wrong."""
    return _Reader(root, path).read(root)


class _Reader:
    def __init__(self, root: Element, path: Path) -> None:
        self.path = path
        self.machine = Machine(Component(Kind.MACHINE), str(path), FORMAT)
        self.nodes: dict[int, Component] = {}
        version = root.get("version", "1")
        self.major = version.partition(".")[0]
        if self.major not in ("2", "3"):
            raise self.invalid(root, f"it is of hwloc {version}; give a file of version 2 or 3")

    def invalid(self, element: Element, cause: str) -> TopologyInvalid:
        return TopologyInvalid(f"{self.path}: line {element.line}: {cause}", REMEDY)

    def read(self, root: Element) -> Machine:
        machines = root.all("object")
        if not machines or machines[0].get("type") != "Machine":
            raise self.invalid(root, "it has no object of type Machine")
        self.numa_nodes(machines[0])
        self.descend(machines[0], self.machine.root, "")
        name_components(self.machine)
        return self.machine

    def numa_nodes(self, element: Element) -> None:
        if element.get("type") == "NUMANode":
            number = element.whole("os_index")
            if number is None:
                raise self.invalid(element, f"{element.shown('os_index')} of a NUMANode is not a whole number")
            if number not in self.nodes:
                self.nodes[number] = self.machine.root.add(Component(Kind.NUMA, number=number))
        for child in element.all("object"):
            self.numa_nodes(child)

    def descend(self, element: Element, above: Component, nodeset: str) -> None:
        """Walk the objects of the processors; I/O hangs below them."""
        nodeset = element.get("nodeset", nodeset)
        for child in element.all("object"):
            if child.get("type") in ("Bridge", "PCIDev"):
                self.function(child, self.node_of(element, nodeset))
            else:
                self.descend(child, above, nodeset)

    def node_of(self, element: Element, nodeset: str) -> Component:
        """The NUMA node of a nodeset: the machine if it has several or none."""
        try:  # 32 bits a word, the highest first
            words = [int(word or "0", 16) for word in nodeset.split(",")]
        except ValueError:
            raise self.invalid(element, f"nodeset={nodeset[:MAX_SHOWN]!r} is not a list of hexadecimal words") from None
        bits = [32 * place + bit for place, word in enumerate(reversed(words)) for bit in range(32) if word >> bit & 1]
        found = [self.nodes[bit] for bit in bits if bit in self.nodes]
        return found[0] if len(found) == 1 else self.machine.root

    def function(self, element: Element, above: Component) -> None:
        """A bridge, or a PCI function, and all below it."""
        if element.get("bridge_type") == HOST_BRIDGE:
            component = Component(Kind.HOST_BRIDGE)
        else:
            component = self.pci_function(element)
        above.add(component)
        for child in element.all("object"):
            if child.get("type") in ("Bridge", "PCIDev"):
                self.function(child, component)

    def pci_function(self, element: Element) -> Component:
        address = normal_address(element.get("pci_busid"))
        if address is None:
            raise self.invalid(element, f"{element.shown('pci_busid')} is not a PCI address")
        said = TYPE.match(element.get("pci_type").lower())
        if said is None:
            raise self.invalid(element, f"{element.shown('pci_type')} has no class and vendor")
        vendor = f"0x{said[2]}"
        kind = Kind.SWITCH if element.get("type") == "Bridge" else kind_of_class(said[1], vendor, address)
        devices = [(self.device_types(each), each.get("name")) for each in element.all("object")]
        rdma = [name for types, name in devices if OPENFABRICS in types and name]
        other = [name for types, name in devices if NETWORK in types and name not in rdma]
        component = Component(kind, address, vendor=vendor, bus_rate=self.bus_rate(element))
        if kind is Kind.NIC:
            component.devices = (*rdma, *other)
            component.rdma = bool(rdma)
        return component

    def bus_rate(self, element: Element) -> float:
        speed = element.get("pci_link_speed", "0")
        if not NUMBER.fullmatch(speed):
            raise self.invalid(element, f"{element.shown('pci_link_speed')} is not a number")
        return float(speed) * GIGABYTES

    def device_types(self, element: Element) -> set[str]:
        """The kinds of an OSDev that matter here."""
        number = element.whole("osdev_type")
        if element.get("type") != "OSDev" or number is None:
            return set()
        if self.major == "2":
            return {NUMBERS_2[number]} if number in NUMBERS_2 else set()
        return {what for bit, what in BITS_3.items() if number & bit}
