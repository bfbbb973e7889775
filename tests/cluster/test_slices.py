"""The pairs of a node as ResourceSlices and DeviceClasses that Kubernetes' schemas allow."""

import json
import re
from pathlib import Path

import kubernetes_validate
import pytest
from jsonschema import ValidationError
from typer.testing import CliRunner

from fanin_cluster.placement import slices
from fanin_cluster.placement.classes import Pair, PlacementInvalid, ResourceClass, ServerClasses, server_classes
from fanin_cluster.topology.sysfs import read_sysfs
from fanin_tools.cli.app import app
from tests.cluster.machines import NCCL, machine_of
from tests.cluster.nodes import SUBNETS, write_node_of_the_document

NEWEST = kubernetes_validate.latest_version()
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,31}")
DRIVER = "fanin.example.com"


def test_a_node_of_the_document(tmp_path: Path) -> None:
    write_node_of_the_document(tmp_path)
    machine = read_sysfs(tmp_path)
    found = slices.objects(machine, server_classes(machine, SUBNETS), "node1", DRIVER)
    assert [each["kind"] for each in found] == ["ResourceSlice", "DeviceClass", "DeviceClass"]
    for each in found:
        kubernetes_validate.validate(each, NEWEST, strict=True)
    devices = found[0]["spec"]["devices"]
    assert [each["name"] for each in devices][:2] == ["gpu0-mlx5-4", "gpu1-mlx5-5"]
    assert devices[0]["attributes"] == {
        "resourceClass": {"string": "gpu-roce-10-1-0-0-24"},
        "subnet": {"string": "10.1.0.0/24"},
        "gpu": {"string": "gpu0"},
        "nic": {"string": "mlx5_0"},
        "vf": {"string": "mlx5_4"},
        "vfPciBusID": {"string": "0000:5e:00.1"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
        "resource.kubernetes.io/numaNode": {"int": 0},
    }
    for device in devices:
        assert LABEL.fullmatch(device["name"])
        assert all(IDENTIFIER.fullmatch(name.rpartition("/")[2]) for name in device["attributes"])
        assert all(len(each) == 1 for each in device["attributes"].values())
    (selector,) = found[1]["spec"]["selectors"]
    assert selector["cel"]["expression"] == (
        f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].resourceClass == "gpu-roce-10-1-0-0-24"'
    )
    found[0]["spec"]["nodeNames"] = "node1"
    with pytest.raises(ValidationError):
        kubernetes_validate.validate(found[0], NEWEST, strict=True)


def test_many_pairs_are_several_slices(tmp_path: Path) -> None:
    machine = machine_of(NCCL, tmp_path)
    pairs = [Pair("gpu0", f"mlx5_{number}", "mlx5_0") for number in range(129)]
    many = ServerClasses([ResourceClass("gpu-roce1", pairs=pairs)], {}, [], [])
    first, second, _ = slices.objects(machine, many, "node1", DRIVER)
    assert [len(each["spec"]["devices"]) for each in (first, second)] == [128, 1]
    assert (
        first["spec"]["pool"] == second["spec"]["pool"] == {"name": "node1", "generation": 1, "resourceSliceCount": 2}
    )
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert "resource.kubernetes.io/pcieRoot" not in first["spec"]["devices"][0]["attributes"], "NCCL has no bridges"


def test_wrong_names(tmp_path: Path) -> None:
    machine = machine_of(NCCL, tmp_path)
    with pytest.raises(PlacementInvalid, match="of the node is not a DNS name"):
        slices.objects(machine, server_classes(machine), "Node_1", DRIVER)
    same = [Pair("gpu0", "mlx5_4", "mlx5_0"), Pair("gpu0", "mlx5-4", "mlx5_0")]
    with pytest.raises(PlacementInvalid, match="two pairs would be called gpu0-mlx5-4"):
        slices.objects(machine, ServerClasses([ResourceClass("a", pairs=same)], {}, [], []), "node1", DRIVER)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "machine.xml").write_text(NCCL)
    done = CliRunner().invoke(app, ["placement", "slices", "--node", "node1", str(tmp_path / "machine.xml")])
    assert done.exit_code == 0
    items = json.loads(done.stdout)["items"]
    assert [each["kind"] for each in items] == ["ResourceSlice", "DeviceClass"]
    assert len(items[0]["spec"]["devices"]) == 3
