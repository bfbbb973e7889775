"""A machine as data for tables and for programs."""

from collections import Counter
from typing import Any

from fanin_cluster.topology.machine import Component, Kind, Machine, Nearness, distance, nearness, numa_of

LEAVES = (Kind.GPU, Kind.NIC)


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
