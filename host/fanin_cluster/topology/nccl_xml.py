"""Topologies of NCCL and RCCL (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).

| element | attributes that are read | stands for |
| --- | --- | --- |
| system | version | the machine |
| cpu | numaid | a NUMA node; NCCL knows no host bridges |
| pci | busid, class, vendor, link_speed, link_width | a PCI function |
| gpu | dev | the function above it is a GPU |
| nic, net | name, dev, speed (Mbit/s), guid, gdr | the function above it is a NIC; speed is that of its network |
| nvlink, xgmi | target, count | a link of the GPU above it |

A file for NCCL_TOPO_FILE may lack `gpu` and `nic`, which NCCL then finds on the machine: the PCI class then gives the
kind of a function, or OTHER and a note if the class is missing as well.
NCCL's plugin for sockets gives a device its number as GUID, and no access to memory of GPUs (gdr): this marks a NIC
without RDMA. A missing GUID means nothing: NCCL takes it from the machine.
Source: src/graph/xml.cc and topo.cc of NCCL; src/transport/net_socket.cc.
"""

from pathlib import Path

from fanin_cluster.topology.machine import (
    Component,
    Kind,
    Link,
    Machine,
    TopologyInvalid,
    kind_of_class,
    link_rate,
    name_components,
    normal_address,
)
from fanin_cluster.topology.xml_file import Element

FORMAT = "NCCL XML"
ROOT = "system"
LINKS = ("nvlink", "xgmi")
MBITS = 1e6 / 8
REMEDY = "correct the file, or let NCCL write it anew (NCCL_TOPO_DUMP_FILE)"


def read_nccl(root: Element, path: Path) -> Machine:
    """The machine that a `system` element describes. Raises TopologyInvalid with the wrong line."""
    return _Reader(path).read(root)


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.machine = Machine(Component(Kind.MACHINE), str(path), FORMAT)
        self.links: list[tuple[Component, Element]] = []
        self.unclassified = 0

    def invalid(self, element: Element, cause: str) -> TopologyInvalid:
        return TopologyInvalid(f"{self.path}: line {element.line}: {cause}", REMEDY)

    def whole(self, element: Element, name: str) -> int:
        """An attribute that is a whole number."""
        number = element.whole(name)
        if number is None:
            raise self.invalid(element, f"{element.shown(name)} of <{element.tag}> is not a whole number")
        return number

    def read(self, root: Element) -> Machine:
        nodes: dict[tuple[str, int], Component] = {}
        for element in root.all("cpu"):
            key = element.get("host_hash"), self.whole(element, "numaid")
            if key not in nodes:
                nodes[key] = self.machine.root.add(Component(Kind.NUMA, number=key[1]))
            self.below(element, nodes[key])
        hosts = {host for host, _ in nodes}
        if len(hosts) > 1:
            raise self.invalid(root, f"it describes {len(hosts)} hosts (host_hash); give a file of one")
        if not nodes:
            raise self.invalid(root, "it has no <cpu>")
        name_components(self.machine)
        self.add_links()
        self.add_notes()
        return self.machine

    def below(self, element: Element, above: Component) -> None:
        for child in element.children:
            if child.tag == "pci":
                self.function(child, above)
            elif child.tag == "nic":  # of a NIC without a PCI function, as a virtual one
                self.network(child, above.add(Component(Kind.NIC)))

    def function(self, element: Element, above: Component) -> None:
        address = normal_address(element.get("busid"))
        if address is None:
            raise self.invalid(element, f"{element.shown('busid')} is not a PCI address")
        vendor = element.get("vendor").lower()
        component = above.add(
            Component(
                kind_of_class(element.get("class"), vendor, address),
                address,
                vendor=vendor,
                bus_rate=link_rate(element.get("link_speed"), element.get("link_width")),
            )
        )
        for gpu in element.all("gpu"):
            component.kind, component.number = Kind.GPU, self.whole(gpu, "dev")
            self.links += [(component, link) for link in gpu.children if link.tag in LINKS]
        for nic in element.all("nic"):
            component.kind = Kind.NIC
            self.network(nic, component)
        if element.all("pci"):
            self.below(element, component)
        if component.kind is Kind.OTHER and not element.get("class"):
            self.unclassified += 1

    def network(self, element: Element, nic: Component) -> None:
        """Take name and rate of a NIC from the `net` elements, one for each port."""
        nets = element.all("net")
        nic.devices = tuple(net.get("name") for net in nets if net.get("name"))
        speeds = [self.whole(net, "speed") for net in nets if net.get("speed")]
        nic.rate = sum(speed * MBITS for speed in speeds if speed > 0)  # -1 is unknown
        if nets:
            said = {_has_rdma(net) for net in nets}
            nic.rdma = True if True in said else None if None in said else False

    def add_links(self) -> None:
        gpus = {gpu.address: gpu.name for gpu in reversed(self.machine.gpus)}
        seen: set[tuple[str, frozenset[str]]] = set()
        for gpu, element in self.links:
            target = element.get("target")
            other = gpus.get(normal_address(target) or "", target)
            pair = element.tag, frozenset((gpu.name, other))
            if other == gpu.name or pair in seen:
                continue
            seen.add(pair)
            self.machine.links.append(Link(element.tag, (gpu.name, other), self.whole(element, "count")))

    def add_notes(self) -> None:
        functions = [each for each in self.machine.root.walk() if each.address]
        addresses = [each.address for each in functions]
        for address in sorted({each for each in addresses if addresses.count(each) > 1}):
            self.machine.notes.append(f"{address} stands {addresses.count(address)} times in the file.")
        if self.unclassified:
            self.machine.notes.append(
                f"{self.unclassified} functions have neither a class nor <gpu> or <nic>: NCCL finds out on the machine."
            )


def _has_rdma(net: Element) -> bool | None:
    """Whether a device has RDMA: False for the plugin for sockets, None if unknown."""
    if net.get("gdr") == "1":
        return True
    guid = net.get("guid")
    return guid != f"{net.whole('dev') or 0:#x}" if guid else None
