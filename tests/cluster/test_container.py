"""A container's grant, its pairs, and unusable pairs (002, [39] to [46])."""

import itertools
import shutil
from pathlib import Path

import pytest

from fanin_cluster.placement.classes import Pair, PlacementInvalid, server_classes
from fanin_cluster.placement.node import (
    NodePair,
    NodePaths,
    address_commands,
    fault,
    grant,
    nccl_conf,
    node_pairs,
    prefer,
    vf_ipv4,
)
from fanin_cluster.topology.sysfs import read_sysfs
from tests.cluster.machines import NCCL, machine_of
from tests.cluster.nodes import DOWN, UP, UUIDS, set_port, write_driver_of_the_document, write_node_of_the_document

CONF = Path("/run/fanin-device-plugin/mlx5_4.conf")


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    found = NodePaths(tmp_path / "sys", tmp_path / "proc")
    write_node_of_the_document(found.sysfs)
    write_driver_of_the_document(found.proc)
    return found


def pairs_of(paths: NodePaths, gpu_ids: dict[str, str] | None = None) -> tuple[list[NodePair], list[str]]:
    machine = read_sysfs(paths.sysfs)
    found, hindrances = node_pairs(machine, server_classes(machine), paths, gpu_ids)
    return list(found.values()), hindrances


def test_a_container_of_the_document(paths: NodePaths) -> None:
    """[45], [46]: two GPUs by their ids, and the one VF mlx5_4 with its PCI address 0000:5e:00.1."""
    pairs, hindrances = pairs_of(paths)
    assert hindrances == []
    found = grant(pairs[:2], CONF)
    assert found.environment == {
        "NVIDIA_VISIBLE_DEVICES": f"{UUIDS[0]},{UUIDS[1]}",
        "FANIN_VF": "mlx5_4",
        "FANIN_VF_PCI": "0000:5e:00.1",
        "FANIN_VF_INTERFACE": "ens0v0",
    }
    assert found.devices == ("/dev/infiniband/uverbs4", "/dev/infiniband/rdma_cm")
    assert [(each.container, each.host, each.read_only) for each in found.mounts] == [
        ("/etc/nccl.conf", str(CONF), True)
    ]
    assert found.annotations == {"fanin/vf": "mlx5_4", "fanin/vf-pci": "0000:5e:00.1", "fanin/gpus": "gpu0_gpu1"}
    with pytest.raises(PlacementInvalid, match="without a GPU"):
        grant([], CONF)


def test_the_socket_of_a_device(paths: NodePaths) -> None:
    """Its folder is mounted: a restarted device makes a new socket there."""
    found = grant(pairs_of(paths)[0][:1], CONF, Path("/run/fanin/nic0/control.sock"), "10.1.0.17/24")
    assert found.environment["FANIN_SOCKET"] == "/run/fanin/control.sock"
    assert (found.mounts[1].container, found.mounts[1].host) == ("/run/fanin", "/run/fanin/nic0")
    assert found.environment["FANIN_VF_IPV4"] == "10.1.0.17/24"


def test_nccl_reads_the_vf(paths: NodePaths) -> None:
    pair = pairs_of(paths)[0][0]
    assert nccl_conf(pair, 3) == "NCCL_IB_HCA==mlx5_4\nNCCL_SOCKET_IFNAME==ens0v0\nNCCL_IB_GID_INDEX=3\n"


def test_addresses_of_vfs() -> None:
    assert [vf_ipv4("10.1.0.16", "10.1.0.0/24", place) for place in (0, 3)] == ["10.1.0.16/24", "10.1.0.19/24"]
    assert address_commands("ens0v0", "10.1.0.16/24")[0] == (
        "ip",
        "address",
        "replace",
        "10.1.0.16/24",
        "dev",
        "ens0v0",
    )
    for first, subnet, place in (
        ("10.1.0.254", "10.1.0.0/24", 1),
        ("10.2.0.1", "10.1.0.0/24", 0),
        ("10.1.0", "10.1.0.0/24", 0),
    ):
        with pytest.raises(PlacementInvalid):
            vf_ipv4(first, subnet, place)


def test_what_hinders_a_pair(paths: NodePaths) -> None:
    (paths.proc / "driver/nvidia/gpus/0000:01:00.0/information").unlink()
    shutil.rmtree(paths.function("0000:5e:00.2") / "infiniband_verbs")
    pairs, hindrances = pairs_of(paths)
    assert len(pairs) == 6
    assert hindrances == [
        "gpu0_mlx5_4: the driver tells no id of gpu0; give it in gpu_ids",
        "gpu1_mlx5_5: the VF 0000:5e:00.2 has no verbs device; load its driver",
    ]
    assert pairs_of(paths, {"gpu0": "GPU-of-ours"})[0][0].gpu_id == "GPU-of-ours"
    assert pairs_of(paths, {"00000000:01:00.0": "GPU-of-ours"})[0][0].gpu_id == "GPU-of-ours", "as nvidia-smi has it"
    assert pairs_of(paths, {"gpu9": "GPU-of-ours"})[1][0].startswith("gpu_ids names gpu9; there are gpu0, ")
    with pytest.raises(PlacementInvalid, match=f"two GPUs have the id {UUIDS[2]}"):
        pairs_of(paths, {"gpu0": UUIDS[2]})


def test_vfs_that_are_not_made_hinder(tmp_path: Path) -> None:
    paths = NodePaths(tmp_path / "sys", tmp_path / "proc")
    write_node_of_the_document(paths.sysfs, functions=0)
    pairs, hindrances = pairs_of(paths)
    assert (pairs, len(hindrances)) == ([], 8)
    assert hindrances[0] == "gpu0_mlx5_0v0: mlx5_0 has no VFs; write 4 to its sriov_numvfs"


def test_faults(paths: NodePaths) -> None:
    pairs, _ = pairs_of(paths)
    first, last = pairs[0], pairs[-1]
    set_port(paths.sysfs, 0, DOWN)
    assert fault(first, paths) == "no port of mlx5_0 is active: 1: DOWN"
    assert fault(last, paths) == "", "the other NIC is up"
    set_port(paths.sysfs, 0, UP)
    assert fault(first, paths) == ""
    paths.function("0000:5e:00.1").unlink()
    assert fault(first, paths) == "the VF mlx5_4 (0000:5e:00.1) is not on the bus"
    paths.function(last.gpu_address).unlink()
    assert fault(last, paths) == "gpu7 (0000:44:00.0) is not on the bus"


def test_preferred_pairs(paths: NodePaths) -> None:
    """Of one NIC if possible; and of the NIC that is left with the fewest."""
    machine = read_sysfs(paths.sysfs)
    pairs = [each.pair for each in pairs_of(paths)[0]]
    assert prefer(machine, pairs[2:7], [], 3) == pairs[4:7]
    assert prefer(machine, pairs[1:7], [pairs[1]], 2) == pairs[1:3]
    assert prefer(machine, [*pairs[:4], pairs[5]], [], 1) == [pairs[5]], "a whole group of four stays free"
    assert prefer(machine, pairs, [], 8) == pairs
    for available, must, size in ((pairs[:2], [], 3), (pairs[:2], [pairs[5]], 2), (pairs[:2], pairs[:2], 1)):
        with pytest.raises(PlacementInvalid):
            prefer(machine, available, must, size)


def test_linked_gpus_are_preferred(tmp_path: Path) -> None:
    """gpu0 and gpu3 are on different NUMA nodes, and joined by NVLink."""
    machine = machine_of(NCCL, tmp_path)
    pairs = [Pair(f"gpu{number}", f"mlx5_0v{number}", "mlx5_0") for number in (3, 2, 0)]
    assert prefer(machine, pairs, [], 2) == [pairs[0], pairs[2]]


def test_preferences_hold_what_they_must(paths: NodePaths) -> None:
    machine = read_sysfs(paths.sysfs)
    pairs = [each.pair for each in pairs_of(paths)[0]]
    for size, must in itertools.product(range(1, 9), range(9)):
        if must <= size:
            found = prefer(machine, pairs, pairs[8 - must :], size)
            assert len(found) == len(set(found)) == size
            assert set(pairs[8 - must :]) <= set(found)
