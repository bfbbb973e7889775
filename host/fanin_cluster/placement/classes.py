"""Resource classes of a server: its GPUs in pairs with virtual functions of their NIC (002, [23] to [39], [43]).

A GPU belongs to its nearest NIC with RDMA, if that is near enough; of equally near NICs to the one with the fewest
GPUs. A NIC needs as many virtual functions (VFs) as it has GPUs. All pairs in one subnet are one class, since the
workers of a job must not need a route between subnets. If subnets are unknown, all pairs of one NUMA node are one
class; a server whose NICs are in one NUMA node then has a single class.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_network

from fanin_cluster.errors import ClusterError
from fanin_cluster.topology.machine import Component, Machine, Nearness, numa_of
from fanin_cluster.topology.report import by_component, gpus_of_nics

PREFIX = "gpu-roce"


class Affinity(StrEnum):
    """How near a GPU must be to its NIC."""

    NUMA = "numa"  # as the founding document has it
    SWITCH = "switch"


LEAST = {Affinity.NUMA: Nearness.NUMA, Affinity.SWITCH: Nearness.SWITCH}


class PlacementInvalid(ClusterError):
    """A request that contradicts the machine or itself."""


@dataclass(frozen=True)
class Pair:
    """A GPU and the VF that is reserved for it: one device of Kubernetes.

    gpu: name of the GPU
    vf: RDMA device of the VF, or a name for a VF that does not exist yet
    nic: name of the physical NIC
    address: PCI address of the VF; "" before it exists
    """

    gpu: str
    vf: str
    nic: str
    address: str = ""

    @property
    def name(self) -> str:
        """The id of the device. The document has "/", which CDI forbids in names of devices."""
        return f"{self.gpu}_{self.vf}"


@dataclass
class ResourceClass:
    """Pairs that may serve one job. `name` is a DNS label, as Kubernetes demands of a resource."""

    name: str
    subnet: str = ""
    pairs: list[Pair] = field(default_factory=list)


@dataclass
class ServerClasses:
    """The classes of a server, and the devices in none.

    needed: VFs that each NIC must have, by the name of the NIC; 0 for a NIC without GPUs
    without_nic: GPUs without a near NIC
    without_vf: GPUs whose NIC has VFs, but too few
    without_subnet: NICs with GPUs but without a subnet, if other NICs have one
    absent: missing NICs for which a subnet is given
    """

    classes: list[ResourceClass]
    needed: dict[str, int]
    without_nic: list[str]
    without_vf: list[str]
    without_subnet: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """A pair, by PCI addresses, that keeps its GPU and its VF as long as the GPU belongs to this NIC."""

    gpu: str
    vf: str
    nic: str


def server_classes(
    machine: Machine, subnets: Mapping[str, str] | None = None, affinity: Affinity = Affinity.NUMA
) -> ServerClasses:
    """The classes of a server.

    Args:
        subnets: of each NIC with GPUs, "10.1.0.0/24" by the name or PCI address of the NIC; empty if unknown.

    Raises PlacementInvalid for an invalid subnet, a missing NIC, or a NIC with GPUs but without a subnet.
    """
    found = classes_now(machine, subnets, affinity)
    if found.absent:
        there = ", ".join(nic.name for nic in machine.rdma_nics) or "none"
        raise PlacementInvalid(f"there is no NIC {found.absent[0]} with RDMA", f"name one of {there}")
    if found.without_subnet:
        cause = f"the subnet of {found.without_subnet[0]} is missing"
        raise PlacementInvalid(cause, "give that of every NIC with GPUs")
    return found


def classes_now(
    machine: Machine,
    subnets: Mapping[str, str] | None = None,
    affinity: Affinity = Affinity.NUMA,
    kept: Iterable[Kept] = (),
    *,
    whole_nics: bool = False,
) -> ServerClasses:
    """The classes of a server whose devices come and go: the result lists NICs that are missing or have no subnet.

    Args:
        kept: pairs of an earlier call.
        whole_nics: a NIC that can have no VFs serves as its own VF.

    Raises PlacementInvalid for an invalid subnet.
    """
    texts = {name: subnet_text(name, text) for name, text in (subnets or {}).items()}
    given, absent = by_component(texts, machine.rdma_nics)
    groups, alone = gpus_of_nics(machine, LEAST[affinity])
    needed = {nic: len(gpus) for nic, gpus in groups.items()}
    found = ServerClasses([], needed, [gpu.name for gpu in alone], [], absent=absent)
    classes: dict[str, ResourceClass] = {}
    for nic in machine.rdma_nics:
        if not groups[nic.name]:
            continue
        if texts and nic.name not in given:
            found.without_subnet.append(nic.name)
            continue
        subnet = given.get(nic.name, "")
        name = f"{PREFIX}-{_label(subnet)}" if subnet else f"{PREFIX}{(numa_of(nic) or 0) + 1}"
        functions = functions_of(machine, nic, whole_nics=whole_nics)
        vfs = {each.gpu: each.vf for each in kept if each.nic == nic.address}
        pairs, lacking = _pairs(nic, groups[nic.name], functions, vfs)
        classes.setdefault(name, ResourceClass(name, subnet)).pairs += pairs
        found.without_vf += lacking
    found.classes = list(classes.values())
    return found


def functions_of(machine: Machine, nic: Component, *, whole_nics: bool) -> list[Component]:
    """The VFs of a NIC, or the NIC itself if it can have none and `whole_nics` is set."""
    return machine.virtual_functions(nic) or ([nic] if whole_nics and nic.most_vfs == 0 else [])


def _pairs(
    nic: Component, gpus: list[Component], functions: list[Component], kept: Mapping[str, str]
) -> tuple[list[Pair], list[str]]:
    """Pairs of GPUs and VFs in order, and the GPUs without a VF. A NIC without any VF gets names for them.

    kept: VF by GPU, both by their addresses; a kept VF stays reserved for its GPU.
    """
    if not functions:
        return [Pair(gpu.name, f"{nic.name}v{number}", nic.name) for number, gpu in enumerate(gpus)], []
    own = {each.address: each for each in functions}
    free = (each for each in functions if each.address not in kept.values())
    made, lacking = [], []
    for gpu in gpus:
        function = own.get(kept[gpu.address]) if gpu.address in kept else next(free, None)
        if function is None:
            lacking.append(gpu.name)
        else:
            vf = function.devices[0] if function.devices else function.address
            made.append(Pair(gpu.name, vf, nic.name, function.address))
    return made, lacking


def subnet_text(nic: str, text: str) -> str:
    """The subnet of a NIC as `ipaddress` writes it. Raises PlacementInvalid if it is invalid."""
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise PlacementInvalid(f"subnet of {nic}: {error}", "write it as in 10.1.0.0/24") from None


def _label(subnet: str) -> str:
    """A subnet as a part of a DNS label: 10-1-0-0-24."""
    return re.sub(r"[^0-9a-f]+", "-", subnet)


def vf_of_container(pairs: list[Pair]) -> str:
    """The one VF of a container: that of its first GPU ([45]). The others stay reserved. Raises PlacementInvalid."""
    if not pairs:
        raise PlacementInvalid("a container without a GPU has no VF", "request at least one pair")
    return pairs[0].vf
