"""Which GPUs belong to which NIC."""

from fanin_cluster.topology.machine import Component, Machine, Nearness, distance, nearness


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
