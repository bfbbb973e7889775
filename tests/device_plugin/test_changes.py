"""Devices that come, go and are made anew while the plugin runs; kubelets that hang up, answer late, or are old."""

import shutil
from pathlib import Path

import grpc
import pytest

from fanin_cluster.placement.classes import server_classes
from fanin_cluster.placement.node import NodePaths, node_pairs
from fanin_cluster.topology.machine import Kind
from fanin_cluster.topology.sysfs import read_sysfs
from fanin_device_plugin.kubelet_api import HEALTHY, UNHEALTHY
from tests.cluster.machines import write_function
from tests.cluster.nodes import (
    SUBNETS,
    UUIDS,
    gpu_address,
    pair_id,
    remove_vfs,
    vf_address,
    write_driver_of_the_document,
    write_node_of_the_document,
    write_vf,
)
from tests.device_plugin.rig import RESOURCES, ROCE1, ROCE2, Node, running
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
FIRST = [pair_id(gpu) for gpu in range(4)]


def wait_for(node: Node, resource: str, healthy: list[str], unhealthy: list[str] | None = None) -> None:
    """Until the kubelet knows exactly these devices of a resource."""
    wanted = {**dict.fromkeys(healthy, HEALTHY), **dict.fromkeys(unhealthy or [], UNHEALTHY)}
    endpoints = node.kubelet.endpoints
    node.kubelet.wait(lambda: resource in endpoints and endpoints[resource].health == wanted, str(wanted))


def refusal(node: Node, devices: list[str], resource: str = ROCE1) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        node.kubelet.allocate_these(resource, devices)
    return str(caught.value.details())


def make_anew(node: Node) -> None:
    """The VFs of the first NIC go and come back; the kernel gives their devices other numbers."""
    remove_vfs(node.sysfs, 0)
    wait_for(node, ROCE1, [], FIRST)
    for number, name in enumerate((7, 6, 5, 4)):
        write_vf(node.sysfs, 0, number, name)
    wait_for(node, ROCE1, FIRST)


def test_vfs_that_are_made_anew(node: Node) -> None:
    """By its address a pair is the same VF, and gets the VF's present device file."""
    make_anew(node)
    given = node.kubelet.allocate(ROCE1, 1, "default/job/main")
    assert given.envs["FANIN_VF_PCI"] == vf_address(0, 0)
    assert (given.devices[0].host_path, given.envs["FANIN_VF"]) == ("/dev/infiniband/uverbs7", "mlx5_7")
    assert Path(given.mounts[0].host_path).read_text() == "NCCL_IB_HCA==mlx5_7\nNCCL_SOCKET_IFNAME==ens0v0\n"


def test_a_device_file_that_changed_hands_between_two_looks() -> None:
    """The plugin looks once a minute; at Allocate it reads the present state."""
    with running(period="60") as node:
        for number, name in ((0, 5), (1, 4)):
            folder = (node.sysfs / "bus/pci/devices" / vf_address(0, number)).resolve()
            for kind in ("infiniband/mlx5_", "infiniband_verbs/uverbs"):
                (folder / f"{kind}{name}").mkdir()
                (folder / f"{kind}{name ^ 1}").rmdir()
        given = node.kubelet.allocate_these(ROCE1, FIRST[:1])
        assert (given.devices[0].host_path, given.envs["FANIN_VF_PCI"]) == ("/dev/infiniband/uverbs5", vf_address(0, 0))


def test_a_container_does_not_start_again_with_the_device_of_another_pair(node: Node) -> None:
    """The kubelet starts it with the device file of its first start."""
    node.kubelet.allocate(ROCE1, 1, "default/job/main")
    assert node.kubelet.start_container(ROCE1, FIRST[:1]) is None
    make_anew(node)
    with pytest.raises(grpc.RpcError, match=r"was given as uverbs4 and is uverbs7 now: its VF was made anew"):
        node.kubelet.start_container(ROCE1, FIRST[:1])
    assert refusal(node, FIRST[:1]).startswith("gpu0_mlx5_7 is taken: default/job/main has ")


def test_a_container_does_not_start_after_a_boot_with_the_device_of_another_pair(node: Node) -> None:
    """A boot empties /run, and the kernel gives the VFs other numbers. The kubelet only asks for the start."""
    node.kubelet.allocate(ROCE1, 1, "default/job/main")
    node.process.terminate()
    assert node.process.wait(BOUND_S) == 0
    shutil.rmtree(node.root / "files")
    remove_vfs(node.sysfs, 0)
    for number, name in enumerate((7, 6, 5, 4)):
        write_vf(node.sysfs, 0, number, name)
    node.kubelet.restart()
    node.process = node.start_plugin()
    wait_for(node, ROCE1, FIRST)
    with pytest.raises(grpc.RpcError, match=r"was given as uverbs4 and is uverbs7 now: its VF was made anew"):
        node.kubelet.start_container(ROCE1, FIRST[:1])
    node.kubelet.start_container(ROCE1, FIRST[1:2])


def test_a_link_that_goes_while_it_is_read() -> None:
    """A file that is no link represents one that has gone: neither can be followed."""

    def prepare(node: Node) -> None:
        (node.sysfs / "bus/pci/devices/0000:5e:00.0/virtfn00").touch()

    with running(prepare=prepare, addresses='{mlx5_0 = "10.1.0.16"}') as node:
        wait_for(node, ROCE1, FIRST)
        assert node.kubelet.allocate_these(ROCE1, FIRST[1:2]).envs["FANIN_VF_IPV4"] == "10.1.0.17/24"


def test_a_vf_that_goes_while_it_is_read(tmp_path: Path) -> None:
    """Its NIC has no link to it and the machine no such VF; the other pairs stay available."""
    paths = NodePaths(tmp_path / "sys", tmp_path / "proc")
    write_node_of_the_document(paths.sysfs)
    write_driver_of_the_document(paths.proc)
    machine = read_sysfs(paths.sysfs)
    classes = server_classes(machine, SUBNETS)
    (paths.function("0000:5e:00.0") / "virtfn1").unlink()
    next(each for each in machine.all(Kind.VF) if each.address == vf_address(0, 1)).physical = ""
    found, hindrances = node_pairs(machine, classes, paths)
    assert hindrances == ["gpu1_mlx5_5: the VF 0000:5e:00.2 is not among those of mlx5_0 any more"]
    assert set(found) == {pair_id(gpu) for gpu in range(8) if gpu != 1}


def test_vfs_and_ids_that_come_later() -> None:
    """As at boot: first no VF, then those of one NIC, then the other NIC, then the GPUs' driver."""

    def prepare(node: Node) -> None:
        (node.root / "proc").rename(node.root / "later")
        shutil.move(node.sysfs / "bus/pci/devices/0000:be:00.0/infiniband", node.root / "infiniband")
        remove_vfs(node.sysfs, 0)

    with running(prepare=prepare) as node:
        node.says("NO_RESOURCES: there is no pair of a GPU and a VF yet")
        node.says("mlx5_0 has no VFs; write 4 to its sriov_numvfs")
        node.says("the settings name mlx5_1, which is no NIC with RDMA here")
        for number in range(4):
            write_vf(node.sysfs, 0, number, 4 + number)
        node.says("gpu3_mlx5_7: the driver tells no id of gpu3; give it in gpu_ids")
        (node.root / "later").rename(node.root / "proc")
        wait_for(node, ROCE1, FIRST)
        shutil.move(node.root / "infiniband", node.sysfs / "bus/pci/devices/0000:be:00.0/infiniband")
        wait_for(node, ROCE2, [pair_id(gpu) for gpu in range(4, 8)])
        assert node.kubelet.allocate(ROCE2, 4, "default/job/main").envs["NVIDIA_VISIBLE_DEVICES"].endswith(UUIDS[7])


def test_a_gpu_that_is_lost_moves_no_other(node: Node) -> None:
    """The other GPUs keep their VFs, and the names by which the kubelet knows them."""
    link = node.sysfs / "bus/pci/devices" / gpu_address(1)
    folder = link.resolve()
    link.unlink()
    wait_for(node, ROCE1, [FIRST[0], *FIRST[2:]], [FIRST[1]])
    given = node.kubelet.allocate_these(ROCE1, [FIRST[2]])
    assert (given.envs["NVIDIA_VISIBLE_DEVICES"], given.envs["FANIN_VF_PCI"]) == (UUIDS[2], vf_address(0, 2))
    link.symlink_to(folder)
    wait_for(node, ROCE1, FIRST)


def test_another_gpu_in_its_place(node: Node) -> None:
    path = node.root / "proc/driver/nvidia/gpus" / gpu_address(0) / "information"
    path.write_text(path.read_text().replace(UUIDS[0], "GPU-0000abcd"))
    given = node.kubelet.allocate_these(ROCE1, FIRST[:1])
    assert given.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0000abcd"


def test_a_stream_that_ends(node: Node) -> None:
    """The kubelet ends it, all sockets stay: the plugin registers again."""
    node.kubelet.end_streams()
    for resource in RESOURCES:
        node.kubelet.wait(lambda resource=resource: node.kubelet.free(resource) == [], "no stream")
    wait_for(node, ROCE1, FIRST)
    wait_for(node, ROCE2, [pair_id(gpu) for gpu in range(4, 8)])


def test_a_kubelet_that_answers_late() -> None:
    """It does not take a registration in time: devices are looked at meanwhile, and it is asked again."""
    with running() as node:
        node.kubelet.late = True
        node.kubelet.restart()
        remove_vfs(node.sysfs, 0)
        node.says("(0000:01:00.0_0000:5e:00.1) is unhealthy: the VF mlx5_4 (0000:5e:00.1) is not on the bus")
        assert not node.kubelet.endpoints
        node.kubelet.late = False
        wait_for(node, ROCE1, [], FIRST)


@pytest.mark.parametrize("lister", ["v1alpha1.PodResourcesLister", "v9.PodResourcesLister"])
def test_an_old_kubelet(lister: str) -> None:
    """Before 1.20 another service says what pods have. A kubelet that never does still starts pods."""
    with running(prepare=lambda node: node.kubelet.change_lister(lister)) as node:
        node.ready()
        node.kubelet.allocate(ROCE1, 1, "default/job/main")
        if lister.startswith("v1alpha1."):
            assert "is taken: default/job/main has" in refusal(node, FIRST[:1])
        else:
            node.says("does not say which devices pods have: devices that other plugins give away are not seen")
            assert node.kubelet.allocate_these(ROCE1, FIRST[:1])


def test_ids_of_an_earlier_release(node: Node) -> None:
    """Running containers have ids of older names: both halves are taken, and they start again."""
    node.kubelet.held["default/old/main"] = {ROCE1: ["gpu0_mlx5_5"]}
    node.kubelet.held["default/older/main"] = {"fanin/gpu-roce1": ["gpu6_mlx5_10"]}
    wait_for(node, ROCE1, FIRST[2:], FIRST[:2])
    assert refusal(node, FIRST[1:2]) == f"gpu1_mlx5_5 can not be used: default/old/main has gpu0_mlx5_5 of {ROCE1}"
    wait_for(node, ROCE2, [pair_id(gpu) for gpu in (4, 5, 7)], [pair_id(6)])
    assert (node.root / "files/mlx5_10.conf").read_text().startswith("NCCL_IB_HCA==mlx5_10")
    node.kubelet.start_container(ROCE2, ["gpu6_mlx5_10"])


def test_bus_ids_of_nvidia(node: Node) -> None:
    """As nvidia-smi prints them; settings name NICs and GPUs by them."""
    node.kubelet.held["default/thief/main"] = {"example.org/gpu": ["00000000:01:00.0"], "example.org/vf": ["5E:00.3"]}
    wait_for(node, ROCE1, [FIRST[1], FIRST[3]], [FIRST[0], FIRST[2]])


def test_settings_by_bus_id() -> None:
    subnets = '{"00000000:5E:00.0" = "10.1.0.0/24", "0000:be:00.0" = "10.2.0.0/24"}'
    with running(subnets=subnets, addresses='{"5e:00.0" = "10.1.0.16"}', gpu_ids='{"00000000:01:00.0" = "9"}') as node:
        given = node.kubelet.allocate_these(ROCE1, FIRST[:2])
        assert given.envs["NVIDIA_VISIBLE_DEVICES"] == f"9,{UUIDS[1]}"
        assert given.envs["FANIN_VF_IPV4"] == "10.1.0.16/24"
        # The address of a VF depends on its number only.
        (node.sysfs / "bus/pci/devices" / vf_address(0, 0)).unlink()
        assert node.kubelet.allocate_these(ROCE1, FIRST[1:2]).envs["FANIN_VF_IPV4"] == "10.1.0.17/24"


def write_nic_of_a_guest(node: Node) -> None:
    """A node as a virtual machine has it: NICs without VFs."""
    for nic, bus in enumerate(("5e", "be")):
        remove_vfs(node.sysfs, nic)
        folder = (node.sysfs / f"bus/pci/devices/0000:{bus}:00.0").resolve()
        (folder / "sriov_totalvfs").unlink()
        (folder / f"infiniband_verbs/uverbs{nic}").mkdir(parents=True)


def test_nics_that_were_passed_to_a_virtual_machine() -> None:
    with running(prepare=write_nic_of_a_guest) as node:
        node.says("mlx5_0 can have no VFs; set whole_nics to give away the NIC itself, or enable SR-IOV")
        assert "sriov_numvfs" not in node.log


def test_whole_nics() -> None:
    with running(prepare=write_nic_of_a_guest, whole_nics="true") as node:
        wait_for(node, ROCE1, ["0000:01:00.0_0000:5e:00.0"])
        node.says("there is no VF for gpu1")
        given = node.kubelet.allocate(ROCE1, 1, "default/job/main")
        assert (given.devices[0].host_path, given.envs["FANIN_VF"]) == ("/dev/infiniband/uverbs0", "mlx5_0")


def test_displays_are_no_gpus() -> None:
    """Nor are functions that a virtual machine has: none of them takes a VF."""

    def prepare(node: Node) -> None:
        functions = {
            "0x1af4 0x038000": "virtio-pci",  # the display of a virtual machine
            "0x1234 0x038000": "bochs-drm",
            "0x1a03 0x038000": "ast",  # of a management controller
            "0x10ee 0x120000": "xclmgmt",  # an FPGA card
            "0x10de 0x030200": "vfio-pci",  # a GPU that a virtual machine has
        }
        for number, (said, driver) in enumerate(functions.items()):
            vendor, code = said.split()
            place = f"pci0000:01/0000:00:1{number}.0"
            folder = write_function(node.sysfs, place, **{"class": code, "vendor": vendor, "numa_node": "0"})
            (folder / "driver").symlink_to(f"../../bus/pci/drivers/{driver}")

    with running(prepare=prepare) as node:
        wait_for(node, ROCE1, FIRST)
