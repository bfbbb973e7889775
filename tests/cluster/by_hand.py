"""A dozen public topologies of different kinds, read from their XML by hand: which NIC is near which GPU.

`python -m tests.cluster.survey FOLDER` compares the code with it. Addresses are those of the files, without ":00.0" at
the end and "0000:" at the start.
"""

from pathlib import Path
from typing import NamedTuple

from fanin_cluster.handoff.plan import HandoffInvalid, plan_handoff
from fanin_cluster.topology.machine import Component, Machine, Nearness
from fanin_cluster.topology.reading import read_machine
from fanin_cluster.topology.report import nearest

SWITCH, BRIDGE, NUMA, OTHER = Nearness


class Near(NamedTuple):
    """GPUs, and their nearest NICs with RDMA, all equally near."""

    level: Nearness
    gpus: str
    nics: str


BY_HAND: dict[str, tuple[int, list[Near]]] = {  # file -> links of a hand-off, nearness of all GPUs
    # four switches, each with two GPUs and a NIC; functions of another number than 0
    "aws/p4d-24xl-topo": (
        8,
        [
            Near(SWITCH, "10:1c 10:1d", "10:1b"),
            Near(SWITCH, "20:1c 20:1d", "20:1b"),
            Near(SWITCH, "90:1c 90:1d", "90:1b"),
            Near(SWITCH, "a0:1c a0:1d", "a0:1b"),
        ],
    ),
    # neither <gpu> nor <nic>, no switch; each function has a PCI domain of its own
    "azure/ndv2-topo": (
        4,
        [
            Near(NUMA, "0001:00 0002:00 0003:00 0004:00", "0101:00"),
            Near(OTHER, "0005:00 0006:00 0007:00 0008:00", "0101:00"),
        ],
    ),
    # switches with two GPUs and two NICs
    "azure/ndv4-topo": (
        8,
        [
            Near(SWITCH, "0003:00 0004:00", "0103:00 0104:00"),
            Near(SWITCH, "0001:00 0002:00", "0101:00 0102:00"),
            Near(SWITCH, "000d:00 000e:00", "0107:00 0108:00"),
            Near(SWITCH, "000b:00 000c:00", "0105:00 0106:00"),
        ],
    ),
    # a NIC for each GPU
    "azure/ndv5-topo": (
        8,
        [
            *(Near(SWITCH, f"000{gpu}:00", f"010{nic}:00") for nic, gpu in enumerate("1238", 1)),
            *(Near(SWITCH, f"000{gpu}:00", f"010{nic}:00") for nic, gpu in enumerate("9abc", 5)),
        ],
    ),
    # one NIC on a switch of two levels with half of the GPUs; the other half on a switch of its own
    "rccl/topo_4p2h": (4, [Near(SWITCH, "1d 20 23 26", "1a"), Near(NUMA, "3f 43 46 49", "1a")]),
    # one GPU in the NUMA node of the NIC: a hand-off wants two, and takes all
    "rccl/topo_3p_pcie": (3, [Near(NUMA, "23", "41"), Near(OTHER, "83 e4", "41")]),
    # two NICs, each with a GPU in its NUMA node; the others are equally far from both
    "rccl/topo_8p_ts1": (
        2,
        [Near(NUMA, "43", "61"), Near(NUMA, "83", "a1"), Near(OTHER, "23 26 03 e3 c3 c6", "61 a1")],
    ),
    # a NUMA node that has the NIC alone
    "rccl/topo_8p_rome_n4": (8, [Near(OTHER, "43 23 26 03 c3 c6 a3 83", "e1")]),
    # a virtual machine: all functions flat in their NUMA node
    "rccl/topo_8p_940vm": (
        8,
        [
            Near(NUMA, "0011:00 0021:00 0031:00 0041:00", "0010:00 0020:00 0030:00 0040:00"),
            Near(NUMA, "0051:00 0061:00 0071:00 0081:00", "0050:00 0060:00 0070:00 0080:00"),
        ],
    ),
    # NICs of Slingshot, whose GUIDs are their numbers, the first 0; each has RDMA (gdr="1")
    "rccl/topo_4p_940": (
        4,
        [Near(NUMA, "82", "81"), Near(NUMA, "c2", "c1"), Near(NUMA, "02", "01"), Near(NUMA, "42", "41")],
    ),
    # two devices of NCCL's plugin for sockets, the second a bridge of virtual machines: no RDMA
    "rccl/topo_4p1h_1": (0, []),
    # host bridges; a display of a management controller; two Ethernet ports without RDMA; an HCA
    "hwloc/32em64t-2n8c2t-pci-normalio": (
        2,
        [Near(SWITCH, "84:00.0 84:00.1", "04"), Near(BRIDGE, "83", "04"), Near(OTHER, "03", "04")],
    ),
}


def differences(folder: Path) -> list[str]:
    """The files on which the code differs."""
    return [
        f"{name}: {found} and not {wanted}"
        for name, wanted in BY_HAND.items()
        if (found := said(read_machine(folder / f"{name}.xml"))) != (wanted[0], in_full(wanted[1]))
    ]


def said(machine: Machine) -> tuple[int, dict[str, tuple[Nearness, list[str]]]]:
    """The code's result: the links of a hand-off, and for each GPU its class and the nearest NICs."""
    try:
        links = len(plan_handoff(1, machine, machine).links)
    except HandoffInvalid:
        return 0, {}
    return links, {gpu.address: near(machine, gpu) for gpu in machine.gpus}


def near(machine: Machine, gpu: Component) -> tuple[Nearness, list[str]]:
    level, nics = nearest(machine, gpu)
    return level, sorted(nic.address for nic in nics)


def in_full(rows: list[Near]) -> dict[str, tuple[Nearness, list[str]]]:
    return {
        address(gpu): (row.level, sorted(map(address, row.nics.split()))) for row in rows for gpu in row.gpus.split()
    }


def address(short: str) -> str:
    """ "10" is 0000:10:00.0, "10:1c" 0000:10:1c.0, "0001:00" 0001:00:00.0, "84:00.1" 0000:84:00.1."""
    if "." in short:
        return f"0000:{short}"
    if len(short) == len("0001:00"):
        return f"{short}:00.0"
    return f"0000:{short}.0" if ":" in short else f"0000:{short}:00.0"
