"""Components by their names, which GPUs belong to which NIC, and a machine as data for tables and programs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fanin_cluster.topology.machine import (
    Component,
    Kind,
    Machine,
    Nearness,
    distance,
    nearness,
    normal_address,
    numa_of,
)

T = TypeVar("T")
LEAVES = (Kind.GPU, Kind.NIC)


def gpus_of_nics(machine: Machine, least: Nearness) -> tuple[dict[str, list[Component]], list[Component]]:
    """The GPUs of each NIC with RDMA, by the name of the NIC, and the GPUs without one in the class `least` or nearer.

    A GPU belongs to its nearest NIC; of equally near ones to the one with the fewest GPUs.
    """
    groups: dict[str, list[Component]] = {nic.name: [] for nic in machine.rdma_nics}
    alone = []
    for gpu in machine.gpus:
        near = [nic for nic in machine.rdma_nics if nearness(gpu, nic) <= least]
        if near:
            nearest = min(distance(gpu, nic) for nic in near)
            equal = [nic for nic in near if distance(gpu, nic) == nearest]
            groups[min(equal, key=lambda nic: len(groups[nic.name])).name].append(gpu)
        else:
            alone.append(gpu)
    return groups, alone


def by_component(given: Mapping[str, T], there: Iterable[Component]) -> tuple[dict[str, T], list[str]]:
    """`given` by the names of the components, and the names without a component.

    Args:
        given: by name, by a device of the component, or by PCI address in any form. The last of two names for one
            component counts.
    """
    names = {
        name: each.name
        for each in reversed(list(there))
        for name in (*reversed(each.devices), each.address, each.name)
        if name
    }
    found = {names[canonical(name)]: value for name, value in given.items() if canonical(name) in names}
    return found, [name for name in given if canonical(name) not in names]


def canonical(name: str) -> str:
    """The form in which names are compared: a PCI address as Linux writes it, any other name unchanged."""
    return normal_address(name) or name


def nearest(machine: Machine, gpu: Component) -> tuple[Nearness, list[Component]] | None:
    """The class of the RDMA NICs nearest to a GPU, and these; None if there are none."""
    nics = machine.rdma_nics
    if not nics:
        return None
    least = min(distance(gpu, nic) for nic in nics)
    return least[0], [nic for nic in nics if distance(gpu, nic) == least]


def matrix(machine: Machine) -> list[tuple[Component, list[Nearness]]]:
    """The classes from each GPU to all NICs, in the order of `machine.nics`."""
    return [(gpu, [nearness(gpu, nic) for nic in machine.nics]) for gpu in machine.gpus]


def class_counts(machine: Machine) -> dict[Nearness, int]:
    """How many GPUs have their nearest RDMA NIC in each class."""
    found = Counter(best[0] for gpu in machine.gpus if (best := nearest(machine, gpu)))
    return {each: found[each] for each in Nearness}


def shown_children(component: Component) -> list[Component]:
    """The components below one that are or lead to a GPU or a NIC."""
    return [child for child in component.children if any(each.kind in LEAVES for each in child.walk())]


def as_dict(machine: Machine) -> dict[str, Any]:
    """The machine for `--json`. Rates are in bytes per second, 0 where unknown."""

    def function(each: Component) -> dict[str, Any]:
        return {"name": each.name, "address": each.address, "numa": numa_of(each), "bus_rate": each.bus_rate}

    return {
        "source": machine.source,
        "format": machine.format,
        "numa_nodes": [each.number for each in machine.all(Kind.NUMA)],
        "gpus": [function(gpu) for gpu in machine.gpus],
        "nics": [
            {
                **function(nic),
                "rate": nic.rate,
                "rdma": nic.rdma,
                "devices": list(nic.devices),
                "virtual_functions": [
                    {"address": each.address, "devices": list(each.devices)} for each in machine.virtual_functions(nic)
                ],
            }
            for nic in machine.nics
        ],
        "nearness": {
            gpu.name: {nic.name: each.name for nic, each in zip(machine.nics, classes, strict=True)}
            for gpu, classes in matrix(machine)
        },
        "nearest": {gpu.name: [nic.name for nic in (nearest(machine, gpu) or (0, []))[1]] for gpu in machine.gpus},
        "links": [{"kind": link.kind, "ends": list(link.ends), "count": link.count} for link in machine.links],
        "notes": machine.notes,
    }
