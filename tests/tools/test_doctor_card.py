"""The doctor on a BlueField and on its host, by trees like sysfs. No card was available."""

from pathlib import Path

import pytest

from fanin_tools.doctor import card
from fanin_tools.doctor.check import CheckResult, Level

UNLIMITED = -1
BLUEFIELD3, HOST_VIEW = "0xa2dc", "0xc2d5"


class Sysfs:
    """A tree that replaces `/`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def pci(self, address: str, device: str, vendor: str = card.NVIDIA) -> None:
        self.write(f"sys/bus/pci/devices/{address}/vendor", vendor)
        self.write(f"sys/bus/pci/devices/{address}/device", device)

    def netdev(self, name: str, port: str = "", mtu: int = 9000, state: str = "up") -> None:
        self.write(f"sys/class/net/{name}/mtu", str(mtu))
        self.write(f"sys/class/net/{name}/operstate", state)
        if port:
            self.write(f"sys/class/net/{name}/phys_port_name", port)

    def verbs(self, name: str, netdev: str, gids: dict[int, tuple[str, str]], state: str = card.ACTIVE) -> None:
        port = f"sys/class/infiniband/{name}/ports/1"
        self.write(f"{port}/state", state)
        for index, (gid, kind) in gids.items():
            self.write(f"{port}/gids/{index}", gid)
            self.write(f"{port}/gid_attrs/types/{index}", kind)
            self.write(f"{port}/gid_attrs/ndevs/{index}", netdev)

    def sub_function(self, index: int, number: int, netdev: str, verbs: str) -> None:
        folder = f"sys/bus/auxiliary/devices/mlx5_core.sf.{index}"
        self.write(f"{folder}/sfnum", str(number))
        self.write(f"{folder}/net/{netdev}/mtu", "9000")
        self.write(f"{folder}/infiniband/{verbs}/node_type", "1: CA")

    def results(self, locked: int = UNLIMITED) -> dict[str, CheckResult]:
        return {result.subject: result for result in card.run_checks(self.root, locked)}


IPV4 = "0000:0000:0000:0000:0000:ffff:c0a8:6402"  # 192.168.100.2
LINK_LOCAL = "fe80:0000:0000:0000:0202:00ff:fe00:0001"


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


@pytest.fixture
def dpu(sysfs: Sysfs) -> Sysfs:
    """A card in DPU mode, with a sub-function, as its own Linux sees it."""
    sysfs.pci("0000:00:00.0", "0xa2da")
    sysfs.pci("0000:03:00.0", BLUEFIELD3)
    sysfs.write("sys/class/dmi/id/product_name", "BlueField-3 DPU")
    sysfs.netdev("p0", "p0")
    sysfs.netdev("pf0hpf", "c1pf0")
    sysfs.netdev("en3f0pf0sf0", "pf0sf0")
    sysfs.netdev("enp3s0f0s0")
    sysfs.verbs("mlx5_0", "p0", {})
    gids = {0: (LINK_LOCAL, "IB/RoCE v1"), 1: (LINK_LOCAL, "RoCE v2"), 2: (IPV4, "IB/RoCE v1"), 3: (IPV4, "RoCE v2")}
    sysfs.verbs("mlx5_2", "enp3s0f0s0", gids)
    sysfs.sub_function(2, 0, "enp3s0f0s0", "mlx5_2")
    sysfs.write("sys/devices/system/cpu/isolated", "8-15")
    sysfs.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3072")
    sysfs.write("sys/kernel/mm/hugepages/hugepages-32768kB/nr_hugepages", "0")
    sysfs.write("dev/infiniband/uverbs0", "")
    return sysfs


def test_card_in_dpu_mode(dpu: Sysfs) -> None:
    results = dpu.results()
    assert {name for name, result in results.items() if result.level != Level.OK} == set()
    assert "BlueField-3" in results["BlueField"].detail
    assert "untried" in results["BlueField"].detail
    assert "embedded" in results["mode"].detail
    assert results["ports of the card"].detail == "p0 (up, MTU 9000)"
    assert results["representors"].detail == "en3f0pf0sf0 (up, MTU 9000), pf0hpf (up, MTU 9000)"
    assert results["sub-functions"].detail == "0: enp3s0f0s0, mlx5_2"
    assert results["RoCE addresses"].detail == "mlx5_2@192.168.100.2 (enp3s0f0s0)"
    assert results["huge pages"].detail == "3072 of 2048kB"


def test_host_of_a_card(sysfs: Sysfs) -> None:
    sysfs.pci("0000:17:00.0", BLUEFIELD3)
    sysfs.pci("0000:17:00.2", HOST_VIEW)
    sysfs.write("sys/class/dmi/id/product_name", "PowerEdge R750")
    sysfs.netdev("tmfifo_net0", mtu=1500)
    results = sysfs.results()
    assert "host of a BlueField-3" in results["BlueField"].detail
    assert results["rshim"].level == Level.OK
    assert (results["RoCE addresses"].level, results["RoCE addresses"].detail) == (
        Level.MISSING,
        "none; no verbs device",
    )
    assert results["/dev/infiniband"].level == Level.MISSING
    assert not {"mode", "representors", "sub-functions"} & set(results)


def test_card_in_nic_mode(sysfs: Sysfs) -> None:
    sysfs.pci("0000:03:00.0", "0xa2d6")
    sysfs.write("sys/class/dmi/id/product_name", "BlueField SoC")
    results = sysfs.results()
    assert "BlueField-2" in results["BlueField"].detail
    assert (results["mode"].level, "INTERNAL_CPU_OFFLOAD_ENGINE=0" in results["mode"].remedy) == (Level.MISSING, True)
    assert {results[name].level for name in ("ports of the card", "representors", "sub-functions")} == {Level.MISSING}


def test_host_without_a_function(dpu: Sysfs) -> None:
    dpu.write("sys/class/net/pf0hpf/phys_port_name", "")
    result = dpu.results()["mode"]
    assert (result.level, "NUM_OF_PF" in result.remedy) == (Level.LIMITED, True)


@pytest.mark.parametrize(
    ("path", "text", "subject", "level"),
    [
        ("sys/class/net/pf0hpf/operstate", "down", "representors", Level.LIMITED),
        ("sys/class/net/p0/operstate", "down", "ports of the card", Level.MISSING),
        ("sys/class/net/enp3s0f0s0/mtu", "1500", "RoCE addresses", Level.LIMITED),
        ("sys/class/infiniband/mlx5_2/ports/1/state", "1: DOWN", "RoCE addresses", Level.MISSING),
        ("sys/class/infiniband/mlx5_2/ports/1/gid_attrs/types/3", "IB/RoCE v1", "RoCE addresses", Level.MISSING),
        ("sys/class/infiniband/mlx5_2/ports/1/gids/3", "damaged", "RoCE addresses", Level.MISSING),
        ("sys/devices/system/cpu/isolated", "", "isolated cores", Level.LIMITED),
    ],
)
def test_what_is_wrong_is_named(dpu: Sysfs, path: str, text: str, subject: str, level: Level) -> None:
    """One thing at a time: only this subject is wrong, and says what to do."""
    dpu.write(path, text)
    wrong = {result.subject: result for result in dpu.results().values() if result.level != Level.OK}
    assert set(wrong) == {subject}
    assert wrong[subject].level == level
    assert wrong[subject].remedy


@pytest.mark.parametrize(("limit", "level"), [(8 << 20, Level.LIMITED), (64 << 20, Level.OK), (UNLIMITED, Level.OK)])
def test_locked_memory(dpu: Sysfs, limit: int, level: Level) -> None:
    assert dpu.results(limit)["locked memory"].level == level


@pytest.mark.parametrize(("vendor", "device"), [("0x8086", BLUEFIELD3), (card.NVIDIA, "0x1017")])
def test_other_cards_are_none(sysfs: Sysfs, vendor: str, device: str) -> None:
    sysfs.pci("0000:17:00.0", device, vendor)
    (result,) = sysfs.results().values()
    assert (result.subject, result.level) == ("BlueField", Level.ABSENT)


def test_nothing_at_all(sysfs: Sysfs) -> None:
    """As in a container without sysfs."""
    (result,) = sysfs.results().values()
    assert result.level == Level.ABSENT
