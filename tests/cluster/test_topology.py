"""Each format gives the same model: kinds, names, rates, links, and the class of each pair of GPU and NIC."""

from pathlib import Path

import pytest

from fanin_cluster.topology.machine import (
    Kind,
    Link,
    Machine,
    Nearness,
    distance,
    kind_of_class,
    link_rate,
    nearness,
    normal_address,
    numa_of,
)
from fanin_cluster.topology.report import as_dict, class_counts, nearest
from fanin_cluster.topology.sysfs import read_sysfs
from tests.cluster.machines import HWLOC_2, HWLOC_3, NCCL, NCCL_BY_CLASS, machine_of, write_function, write_sysfs

SWITCH, BRIDGE, NUMA, OTHER = Nearness


def classes(machine: Machine) -> dict[str, list[Nearness]]:
    return {gpu.name: [nearness(gpu, nic) for nic in machine.nics] for gpu in machine.gpus}


def test_nccl(tmp_path: Path) -> None:
    machine = machine_of(NCCL, tmp_path)
    assert classes(machine) == {
        "gpu0": [SWITCH, NUMA],
        "gpu1": [SWITCH, NUMA],
        "gpu2": [NUMA, NUMA],
        "gpu3": [OTHER] * 2,
    }
    assert [nic.name for nic in machine.nics] == ["mlx5_0", "eth0"]
    assert [nic.name for nic in machine.rdma_nics] == ["mlx5_0"]
    assert machine.nics[0].rate == 25e9
    assert machine.gpus[0].bus_rate == pytest.approx(31.5e9, rel=0.001)
    assert machine.links == [Link("nvlink", ("gpu0", "gpu3"), 4)], "both ends tell of it, in capitals or not"
    assert machine.notes == []
    assert class_counts(machine) == {SWITCH: 2, BRIDGE: 0, NUMA: 1, OTHER: 1}


def test_nccl_by_class(tmp_path: Path) -> None:
    machine = machine_of(NCCL_BY_CLASS, tmp_path)
    assert classes(machine) == {"gpu0": [NUMA], "gpu1": [OTHER]}
    assert machine.nics[0].rdma is None, "the file does not say"
    assert machine.rdma_nics == machine.nics


def test_nccl_without_classes(tmp_path: Path) -> None:
    text = '<system version="1"><cpu numaid="0"><pci busid="0000:00:16.0"/><pci busid="0000:00:17.0"/></cpu></system>'
    machine = machine_of(text, tmp_path)
    assert (machine.gpus, machine.nics) == ([], [])
    assert machine.notes == ["2 functions have neither a class nor <gpu> or <nic>: NCCL finds out on the machine."]


@pytest.mark.parametrize(
    ("attributes", "rdma"),
    [
        ('dev="1" guid="0x1" gdr="0"', False),  # virbr0 of RCCL's topo_8p1h_2
        ('dev="0" guid="0x0" gdr="1"', True),  # cxi0 of RCCL's topo_4p_940
        ('dev="0" guid="0x187f5600039f59b8" gdr="0"', True),  # an HCA without GPUDirect
        ('dev="0"', None),
        ('dev="1" gdr="0"', None),
    ],
)
def test_nccl_says_which_nic_has_rdma(attributes: str, rdma: bool | None, tmp_path: Path) -> None:
    """A device of the plugin for sockets has its number as GUID."""
    nic = f'<pci busid="0:1:0.0" class="0x020000"><nic><net name="net" {attributes}/></nic></pci>'
    assert machine_of(f'<system version="1"><cpu numaid="0">{nic}</cpu></system>', tmp_path).nics[0].rdma is rdma


def test_nccl_with_an_address_twice(tmp_path: Path) -> None:
    machine = machine_of(NCCL.replace("0000:12:00.0", "0000:11:00.0"), tmp_path)
    assert len(machine.gpus) == 4
    assert machine.notes == ["0000:11:00.0 stands 2 times in the file."]


@pytest.mark.parametrize("text", [HWLOC_2, HWLOC_3], ids=["2", "3"])
def test_hwloc(text: str, tmp_path: Path) -> None:
    machine = machine_of(text, tmp_path)
    assert [gpu.address for gpu in machine.gpus] == ["0000:02:00.0", "0000:04:00.0", "0000:41:00.0", "0000:81:00.0"]
    assert classes(machine) == {
        "gpu0": [SWITCH, OTHER],
        "gpu1": [BRIDGE, OTHER],
        "gpu2": [NUMA, OTHER],
        "gpu3": [OTHER, BRIDGE],
    }
    assert [(nic.devices, nic.rdma) for nic in machine.nics] == [(("mlx5_0", "ib0"), True), (("eth0",), False)]
    assert machine.nics[0].bus_rate == 31.5e9


def test_sysfs(tmp_path: Path) -> None:
    write_sysfs(tmp_path)
    machine = read_sysfs(tmp_path)
    assert classes(machine) == {"gpu0": [SWITCH, OTHER], "gpu1": [NUMA, OTHER]}
    nic, other = machine.nics
    assert (nic.name, nic.devices, nic.rate, nic.rdma) == ("mlx5_0", ("mlx5_0", "ib0"), 25e9, True)
    assert (other.name, other.rate, other.rdma, numa_of(other)) == ("eth0", 25e9 / 8, False, None)
    assert [each.devices for each in machine.virtual_functions(nic)] == [("mlx5_1",), ("mlx5_2",)]
    assert machine.virtual_functions(other) == []
    assert machine.gpus[0].bus_rate == nic.bus_rate > 31e9
    assert as_dict(machine)["nics"][0]["virtual_functions"][0] == {"address": "0000:53:00.1", "devices": ["mlx5_1"]}


def test_a_single_numa_node_has_all(tmp_path: Path) -> None:
    """A kernel reports -1 on machines with one node."""
    (tmp_path / "devices/system/node").mkdir(parents=True)
    (tmp_path / "devices/system/node/online").write_text("0\n")
    write_function(tmp_path, "pci0000:00/0000:00:01.0", **{"class": "0x030200", "vendor": "0x10de", "numa_node": "-1"})
    assert numa_of(read_sysfs(tmp_path).gpus[0]) == 0


def test_this_machine() -> None:
    machine = read_sysfs()
    assert machine.all(Kind.HOST_BRIDGE) or not machine.gpus


def test_fewer_bridges_are_nearer(tmp_path: Path) -> None:
    """Within a class the number of bridges counts: two levels of switches, a NIC on each."""
    text = """<system version="1"><cpu numaid="0"><pci busid="0:10:0.0" class="0x060400">
      <pci busid="0:11:0.0" class="0x060400">
        <pci busid="0:12:0.0" class="0x030200"/><pci busid="0:13:0.0" class="0x020700"/></pci>
      <pci busid="0:14:0.0" class="0x020700"/></pci></cpu></system>"""
    machine = machine_of(text, tmp_path)
    (gpu,), (near, far) = machine.gpus, machine.nics
    assert (distance(gpu, near), distance(gpu, far)) == ((SWITCH, 1), (SWITCH, 2))
    assert nearest(machine, gpu) == (SWITCH, [near])


def test_pci() -> None:
    assert normal_address("5e:0.1") == "0000:5e:00.1"
    assert normal_address("FFFF:FF:01.0") == "ffff:ff:01.0"
    assert normal_address("00:5e:00.1") == "0000:5e:00.1", "as the founding document writes it"
    assert normal_address("5e") is None
    assert kind_of_class("0x030000", "0x1a03") is Kind.OTHER, "the display of a management controller"
    assert kind_of_class("0300", "0x10de") is Kind.GPU
    assert link_rate("8 GT/s", "16") == pytest.approx(15.75e9, rel=0.001)
    assert link_rate("2.5 GT/s PCIe", "1") == 250e6
    assert link_rate("Unknown", "16") == link_rate("", "0") == 0
