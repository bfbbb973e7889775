"""Resource classes of a server: its GPUs in pairs with virtual functions of their NIC (002, [23] to [39], [43]).

A GPU belongs to the NIC with RDMA that is nearest to it, if that is near enough; of equally near NICs to the one with
the fewest GPUs. A NIC needs as many virtual functions (VFs) as it has GPUs. All pairs that reach one subnet are one
class, since the workers of a job must not need a route between subnets. Where subnets are not known, all pairs of one
NUMA node are one class; a server whose NICs are in one NUMA node then has a single class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_network

from fanin_cluster.errors import ClusterError
from fanin_cluster.topology.affinity import gpus_of_nics
from fanin_cluster.topology.machine import Component, Machine, Nearness, numa_of

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
    vf: RDMA device of the VF, or the name that stands for a VF that is not made yet
    nic: name of the physical NIC
    address: PCI address of the VF; "" if it is not made yet
    """

    gpu: str
    vf: str
    nic: str
    address: str = ""

    @property
    def name(self) -> str:
        """The id of the device. The document has "/", which the names of CDI devices can not contain."""
        return f"{self.gpu}_{self.vf}"


@dataclass
class ResourceClass:
    """Pairs that may serve one job. `name` is a DNS label, as Kubernetes demands of a resource."""

    name: str
    subnet: str = ""
    pairs: list[Pair] = field(default_factory=list)


@dataclass
class ServerClasses:
    """The classes of a server, and what is in none.

    needed: VFs that each NIC must have, by the name of the NIC; 0 for a NIC without GPUs
    without_nic: GPUs that no NIC is near enough to
    without_vf: GPUs whose NIC has VFs, but too few
    """

    classes: list[ResourceClass]
    needed: dict[str, int]
    without_nic: list[str]
    without_vf: list[str]


def server_classes(
    machine: Machine, subnets: Mapping[str, str] | None = None, affinity: Affinity = Affinity.NUMA
) -> ServerClasses:
    """The classes of a server.

    Args:
        subnets: of each NIC with GPUs, "10.1.0.0/24" by the name of the NIC; none if they are not known.

    Raises PlacementInvalid if a subnet is none, if a NIC is not there, or if a NIC with GPUs has no subnet.
    """
    given = {name: _subnet(name, text) for name, text in (subnets or {}).items()}
    names = [nic.name for nic in machine.rdma_nics]
    for name in given:
        if name not in names:
            there = ", ".join(names) or "none"
            raise PlacementInvalid(f"there is no NIC {name} with RDMA", f"name one that is there: {there}")
    groups, alone = gpus_of_nics(machine, LEAST[affinity])
    found = ServerClasses([], {nic: len(gpus) for nic, gpus in groups.items()}, [gpu.name for gpu in alone], [])
    classes: dict[str, ResourceClass] = {}
    for nic in machine.rdma_nics:
        if not groups[nic.name]:
            continue
        if given and nic.name not in given:
            raise PlacementInvalid(f"the subnet of {nic.name} is not given", "give that of every NIC with GPUs")
        subnet = given.get(nic.name, "")
        key = subnet or f"numa {numa_of(nic)}"
        if key not in classes:
            number = len(classes) + 1
            classes[key] = ResourceClass(f"{PREFIX}-{_label(subnet)}" if subnet else f"{PREFIX}{number}", subnet)
        pairs, lacking = _pairs(machine, nic, groups[nic.name])
        classes[key].pairs += pairs
        found.without_vf += lacking
    found.classes = list(classes.values())
    return found


def _pairs(machine: Machine, nic: Component, gpus: list[Component]) -> tuple[list[Pair], list[str]]:
    """GPUs and VFs in their order, and the GPUs for which there is no VF. Without any VF, names stand for them."""
    functions = machine.virtual_functions(nic)
    if not functions:
        return [Pair(gpu.name, f"{nic.name}v{number}", nic.name) for number, gpu in enumerate(gpus)], []
    made = [
        Pair(gpu.name, function.devices[0] if function.devices else function.address, nic.name, function.address)
        for gpu, function in zip(gpus, functions, strict=False)
    ]
    return made, [gpu.name for gpu in gpus[len(functions) :]]


def _subnet(nic: str, text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise PlacementInvalid(f"subnet of {nic}: {error}", "write it as in 10.1.0.0/24") from None


def _label(subnet: str) -> str:
    """A subnet as a part of a DNS label: 10-1-0-0-24."""
    return re.sub(r"[^0-9a-f]+", "-", subnet)


def vf_of_container(pairs: list[Pair]) -> str:
    """The one VF that a container gets of the pairs that it was given ([45]): that of its first GPU. The others stay
    reserved with their GPUs. Raises PlacementInvalid if there is no pair."""
    if not pairs:
        raise PlacementInvalid("a container without a GPU has no VF", "request at least one pair")
    return pairs[0].vf
