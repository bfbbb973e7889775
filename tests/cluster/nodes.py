"""The node of founding document 002 as Linux shows it: 8 GPUs and two NICs, in folders for sysfs and proc."""

import shutil
from pathlib import Path

from tests.cluster.machines import write_function

SUBNETS = {"mlx5_0": "10.1.0.0/24", "mlx5_1": "10.2.0.0/24"}
UUIDS = [f"GPU-{number:08x}-07bd-00a5-c751-e173757cad99" for number in range(8)]
UP, DOWN = "4: ACTIVE", "1: DOWN"


def gpu_address(gpu: int) -> str:
    return f"0000:{gpu % 4 + 1 + 0x40 * (gpu // 4):02x}:00.0"


def pair_id(gpu: int) -> str:
    """The kubelet's id for the pair of a GPU."""
    return f"{gpu_address(gpu)}_{vf_address(gpu // 4, gpu % 4)}"


def write_node_of_the_document(root: Path, functions: int = 4) -> None:
    """[30] to [39]: 8 GPUs, two NICs of different NUMA groups, each with the VFs mlx5_4 to 7, or 8 to 11."""
    (root / "devices/system/node").mkdir(parents=True)
    (root / "devices/system/node/online").write_text("0-1\n")
    for numa, bus in enumerate(("5e", "be")):
        kinds = {"numa_node": str(numa)}
        for gpu in range(4 * numa, 4 * numa + 4):
            address = gpu_address(gpu)
            write_function(root, f"pci{address[:7]}/{address}", **kinds, **{"class": "0x030200", "vendor": "0x10de"})
        nic = {**kinds, "class": "0x020000", "vendor": "0x15b3"}
        physical = write_function(root, f"pci0000:{bus}/0000:{bus}:00.0", **nic)
        (physical / f"infiniband/mlx5_{numa}/ports/1").mkdir(parents=True)
        (physical / "sriov_totalvfs").write_text("8\n")
        for number in range(functions):
            write_vf(root, numa, number, 4 + 4 * numa + number)
        set_port(root, numa, UP)


def write_vf(root: Path, nic: int, number: int, name: int) -> Path:
    """Make a VF of a NIC, with the devices mlx5_NAME and uverbsNAME. Returns its folder."""
    address = vf_address(nic, number)
    kinds = {"numa_node": str(nic), "class": "0x020000", "vendor": "0x15b3"}
    physical = (root / "bus/pci/devices" / f"{address[:-1]}0").resolve()
    virtual = write_function(root, f"pci{address[:7]}/{address}", **kinds)
    (physical / f"virtfn{number}").symlink_to(f"../{address}")
    (virtual / "physfn").symlink_to(physical)
    (virtual / f"infiniband/mlx5_{name}").mkdir(parents=True)
    (virtual / f"infiniband_verbs/uverbs{name}").mkdir(parents=True)
    (virtual / f"net/ens{nic}v{number}").mkdir(parents=True)
    return virtual


def remove_vfs(root: Path, nic: int) -> None:
    """Write 0 to sriov_numvfs."""
    for number in range(8):
        link = root / "bus/pci/devices" / vf_address(nic, number)
        if link.exists():
            folder = link.resolve()
            ((folder / "physfn").resolve() / f"virtfn{number}").unlink()
            link.unlink()
            shutil.rmtree(folder)


def vf_address(nic: int, number: int) -> str:
    return f"0000:{('5e', 'be')[nic]}:00.{number + 1}"


def write_driver_of_the_document(root: Path) -> None:
    """NVIDIA's driver below /proc: the ids of the GPUs."""
    for gpu, uuid in enumerate(UUIDS):
        folder = root / "driver/nvidia/gpus" / gpu_address(gpu)
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t NVIDIA A100\nIRQ:   \t\t 42\nGPU UUID: \t {uuid}\n")


def set_port(root: Path, nic: int, state: str) -> None:
    address = ("0000:5e:00.0", "0000:be:00.0")[nic]
    path = root / "bus/pci/devices" / address / f"infiniband/mlx5_{nic}/ports/1/state"
    path.write_text(f"{state}\n")
