"""Which GPUs of two servers send and receive, and through which NICs (000, T1 to T3).

*First GPUs* are those of the sending node, *second GPUs* those of the receiving one: GPUs that share a switch with a
NIC with RDMA. If fewer than two do, the next class of nearness is taken, and so on; the plan names the class. Link i
joins the i-th first GPU to the i-th second GPU. GPUs are counted in turn over the NICs, so that the first k use as many
NICs as possible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from fanin_cluster.errors import ClusterError
from fanin_cluster.topology.affinity import gpus_of_nics
from fanin_cluster.topology.machine import Component, Machine, Nearness

AT_LEAST = 2  # [6]
NIC_RATE = 25e9  # bytes per second (200 Gbit/s) of a NIC whose rate is unknown


class HandoffInvalid(ClusterError):
    """A hand-off that is impossible to plan."""


@dataclass(frozen=True)
class Candidate:
    """A GPU that may take part, and its NIC. `gpu` is its index among the GPUs of its machine."""

    gpu: int
    nic: Component


@dataclass(frozen=True)
class Side:
    """The GPUs of a node that may take part, in turn over the NICs, and the class of nearness that was needed."""

    candidates: tuple[Candidate, ...]
    level: Nearness


@dataclass(frozen=True)
class Link:
    """A first GPU and a second GPU, by their indices, and their NICs. `rate`: bytes per second."""

    first: int
    second: int
    first_nic: str
    second_nic: str
    rate: float


def select(machine: Machine) -> Side:
    """The GPUs of a node that may take part (T2). Raises HandoffInvalid without a GPU or a NIC with RDMA."""
    if not machine.gpus:
        raise HandoffInvalid(f"{machine.source} has no GPU", "give a node with GPUs")
    if not machine.rdma_nics:
        raise HandoffInvalid(f"{machine.source} has no NIC with RDMA", "give a node with one")
    wanted = min(AT_LEAST, len(machine.gpus))
    for level in Nearness:
        groups, _ = gpus_of_nics(machine, level)
        if sum(map(len, groups.values())) >= wanted:
            break
    index = {id(gpu): position for position, gpu in enumerate(machine.gpus)}
    by_nic = [[Candidate(index[id(gpu)], nic) for gpu in groups[nic.name]] for nic in machine.rdma_nics]
    turns = zip_longest(*by_nic)
    return Side(tuple(each for turn in turns for each in turn if each is not None), level)


def pair(first: Side, second: Side, most: int = 0, nic_rate: float = NIC_RATE) -> tuple[Link, ...]:
    """The links of two nodes (T3): as many as the smaller side has GPUs, at most `most` unless that is 0.

    The links of a NIC divide its rate equally; a link has the lower rate of its two ends. `nic_rate` stands for unknown
    rates.
    """
    count = min(len(first.candidates), len(second.candidates))
    count = min(count, most) if most else count
    senders, receivers = first.candidates[:count], second.candidates[:count]
    return tuple(
        Link(
            one.gpu,
            other.gpu,
            one.nic.name,
            other.nic.name,
            min(_share(one, senders, nic_rate), _share(other, receivers, nic_rate)),
        )
        for one, other in zip(senders, receivers, strict=True)
    )


def _share(candidate: Candidate, side: Sequence[Candidate], nic_rate: float) -> float:
    return (candidate.nic.rate or nic_rate) / sum(each.nic is candidate.nic for each in side)


def device_of(devices: Mapping[str, str], nic: str, what: str = "device") -> str:
    """The socket, or another property, of the device of a NIC. Raises HandoffInvalid if it is missing."""
    if nic not in devices:
        raise HandoffInvalid(f"the {what} of {nic} is missing", "give it for each NIC of the plan's links")
    return devices[nic]
