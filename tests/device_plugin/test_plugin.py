"""The device plugin as a process, by the real interface: registration, lists, health, allocation, refusals."""

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from fanin_device_plugin.kubelet_api import HEALTHY, UNHEALTHY
from fanin_device_plugin.settings import Settings
from tests.cluster.nodes import DOWN, UP, UUIDS, pair_id, set_port
from tests.device_plugin.rig import RESOURCES, ROCE1, ROCE2, Node, running
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
FIRST = [pair_id(gpu) for gpu in range(4)]


def refusal(node: Node, resource: str, devices: list[str]) -> str:
    """The plugin's answer to a request that it must refuse."""
    with pytest.raises(grpc.RpcError) as caught:
        node.kubelet.allocate_these(resource, devices)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    return str(caught.value.details())


def test_pairs_are_listed_and_given(node: Node) -> None:
    """[35] to [46]: two classes of four pairs; a container of two gets both GPUs and one VF."""
    kubelet = node.kubelet
    assert kubelet.free(ROCE1) == FIRST
    assert kubelet.endpoints[ROCE1].numa == {name: [0] for name in FIRST}
    assert kubelet.endpoints[ROCE2].numa[pair_id(4)] == [1]
    given = kubelet.allocate(ROCE1, 2, "default/job/main")
    assert given.envs["NVIDIA_VISIBLE_DEVICES"] == f"{UUIDS[0]},{UUIDS[1]}"
    assert given.envs["FANIN_VF_PCI"] == given.annotations["fanin/vf-pci"] == "0000:5e:00.1"
    assert [(each.host_path, each.container_path, each.permissions) for each in given.devices] == [
        (path, path, "rw") for path in ("/dev/infiniband/uverbs4", "/dev/infiniband/rdma_cm")
    ]
    (mount,) = given.mounts
    assert (mount.container_path, mount.read_only) == ("/etc/nccl.conf", True)
    assert Path(mount.host_path).read_text() == "NCCL_IB_HCA==mlx5_4\nNCCL_SOCKET_IFNAME==ens0v0\n"
    assert Path(mount.host_path).stat().st_mode & 0o777 == 0o644, "a program of any user may read it"
    other = kubelet.allocate(ROCE1, 1, "default/other/main")
    assert other.mounts[0].host_path != mount.host_path, "each container has its own"
    sockets = list(kubelet.plugins.glob("fanin-*.sock"))
    assert [path.stat().st_mode & 0o077 for path in sockets] == [0, 0], "for root alone"


def test_health_goes_both_ways() -> None:
    """A NIC that goes down makes its four pairs unhealthy, until it is up again. The times are printed, not judged."""
    period = Settings().period
    with running(period=str(period)) as node:
        kubelet = node.kubelet
        times: dict[str, list[float]] = {UNHEALTHY: [], HEALTHY: []}
        for state, health in ((DOWN, UNHEALTHY), (UP, HEALTHY)) * 5:
            begin = time.perf_counter()
            set_port(node.sysfs, 0, state)
            kubelet.wait(lambda health=health: set(kubelet.endpoints[ROCE1].health.values()) == {health}, health)
            times[health].append(1e3 * (time.perf_counter() - begin))
            if health == UNHEALTHY:
                assert refusal(node, ROCE1, FIRST[:1]) == (
                    "gpu0_mlx5_4 can not be used: no port of mlx5_0 is active: 1: DOWN"
                )
        assert set(kubelet.endpoints[ROCE2].health.values()) == {HEALTHY}
    for health, found in times.items():
        print(f"{health} after {min(found):.0f} to {max(found):.0f} ms, with a look every {1e3 * period:.0f} ms")


def test_a_restarted_kubelet_knows_the_plugin_again(node: Node) -> None:
    node.kubelet.allocate(ROCE1, 1, "default/job/main")
    node.kubelet.refuses = "not now"
    node.kubelet.restart()
    node.kubelet.refuses = ""
    node.ready()
    assert node.kubelet.free(ROCE1) == FIRST[1:], "what a container has stays its own"
    # Only the sockets are deleted, as by a kubelet that is slow to make its own.
    for path in node.kubelet.plugins.glob("fanin-*.sock"):
        path.unlink()
    before = [node.kubelet.endpoints[name] for name in RESOURCES]
    node.kubelet.wait(
        lambda: all(node.kubelet.endpoints.get(name) not in (None, *before) for name in RESOURCES), "registered anew"
    )
    node.ready()


def test_a_killed_plugin_starts_over_its_old_sockets(node: Node) -> None:
    node.process.kill()
    assert node.process.wait(BOUND_S) == -signal.SIGKILL
    node.kubelet.wait(lambda: node.kubelet.endpoints[ROCE1].health[FIRST[0]] == UNHEALTHY, "the stream ended")
    shutil.rmtree(node.root / "files")  # as a reboot does; the kubelet then starts containers without asking
    node.process = node.start_plugin()
    node.kubelet.wait(lambda: node.kubelet.endpoints[ROCE1].health.get(FIRST[0]) == HEALTHY, "registered anew")
    node.ready()
    assert {path.stem for path in (node.root / "files").glob("0000*.conf")} == {
        pair_id(gpu).partition("_")[2].replace(":", "-") for gpu in range(8)
    }
    assert node.kubelet.allocate(ROCE1, 4, "default/job/main")


def test_no_pair_is_given_twice(node: Node) -> None:
    """Not even to a kubelet that has forgotten its grants, nor half of it by another plugin."""
    kubelet = node.kubelet
    kubelet.allocate(ROCE1, 1, "default/job/main")
    assert refusal(node, ROCE1, FIRST[:1]) == f"gpu0_mlx5_4 is taken: default/job/main has {FIRST[0]} of {ROCE1}"
    kubelet.held["default/thief/main"] = {"nvidia.com/gpu": [f"{UUIDS[2]}::3"]}
    assert refusal(node, ROCE1, FIRST[2:3]) == (
        f"gpu2_mlx5_6 is taken: default/thief/main has {UUIDS[2]} of nvidia.com/gpu"
    )
    kubelet.held["default/vf/main"] = {"nvidia.com/mlnx_vf": ["0000:be:00.2"]}
    taken = {ROCE1: [pair_id(2)], ROCE2: [pair_id(5)]}
    kubelet.wait(
        lambda: all(kubelet.endpoints[name].health[pair] == UNHEALTHY for name, (pair,) in taken.items()),
        "pairs of which others have a half",
    )
    assert kubelet.free(ROCE1) == [FIRST[1], FIRST[3]]
    del kubelet.held["default/thief/main"], kubelet.held["default/vf/main"]
    kubelet.wait(lambda: kubelet.endpoints[ROCE1].health[FIRST[2]] == HEALTHY, "the GPU is free again")


def test_wrong_requests(node: Node) -> None:
    for devices, cause in (
        (["gpu9_mlx5_4"], f"{ROCE1} has no device gpu9_mlx5_4"),
        (FIRST[:1] * 2, f"a device is named twice: {FIRST[0]}, {FIRST[0]}"),
        ([], "a container without a GPU has no VF; request at least one pair"),
        (["../../etc/passwd"], f"{ROCE1} has no device ../../etc/passwd"),
    ):
        assert refusal(node, ROCE1, devices) == cause
    assert node.kubelet.free(ROCE1) == FIRST


def test_the_nic_of_fanin_is_a_source_of_health() -> None:
    """Its folder is mounted; while it does not answer, the pairs beside it are unhealthy."""
    with running(sockets='{mlx5_0 = "/proc/self/cwd/none.sock"}') as node:
        assert node.kubelet.free(ROCE1) == []
        assert "the Fanin NIC at /proc/self/cwd/none.sock does not answer: No such file or directory" in node.log
        assert len(node.kubelet.free(ROCE2)) == 4


def test_a_fanin_nic_that_answers(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = Path(f"/tmp/fanin-plugin-{time.monotonic_ns()}.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nic:
        nic.bind(str(path))
        nic.listen()
        try:
            with running(sockets=f'{{mlx5_0 = "{path}"}}') as node:
                given = node.kubelet.allocate(ROCE1, 1, "default/job/main")
                assert given.envs["FANIN_SOCKET"] == f"/run/fanin/{path.name}"
                assert given.mounts[1].host_path == "/tmp"
        finally:
            path.unlink()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("subnet = {}", 2, "unknown field `subnet`"),
        (
            'subnets = {mlx5_7 = "10.1.0.0/33"}\nsysfs = "SYS"',
            2,
            "subnet of mlx5_7: '10.1.0.0/33' does not appear to be",
        ),
        ('sysfs = "SYS/none"', 2, "SYS/none/devices can not be read: No such file or directory"),
    ],
)
def test_the_program_says_why_it_ends(tmp_path: Path, text: str, code: int, message: str) -> None:
    (tmp_path / "sys/devices").mkdir(parents=True)
    path = tmp_path / "device-plugin.toml"
    path.write_text(text.replace("SYS", str(tmp_path / "sys")))
    command = [sys.executable, "-m", "fanin_device_plugin", "--settings", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S)
    assert (done.returncode, message in done.stderr.replace(str(tmp_path / "sys"), "SYS")) == (code, True), done.stderr
    assert len(done.stderr.splitlines()) == 1
