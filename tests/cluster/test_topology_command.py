"""`fanin topology`: tree, matrix, table, JSON, errors; names in a file are only text."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from tests.cluster.machines import HWLOC_3, NCCL


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "machine.xml"
    path.write_text(NCCL)
    return path


def shown(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["topology", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result.stdout


def test_tree_and_matrix(file: Path) -> None:
    output = shown(str(file))
    assert "gpu0  0000:11:00.0  nvlink x4 gpu3" in output
    assert "gpu3  0000:ab:00.0" in output, "no emoji"
    assert "mlx5_0  0000:13:00.0  200 Gbit/s" in output
    assert "eth0  10 Gbit/s  no RDMA device" in output
    rows = {line.split()[1]: line.split("│")[2:5] for line in output.splitlines() if line.startswith("│ gpu")}
    assert [cell.strip() for cell in rows["gpu0"]] == ["switch", "NUMA", "mlx5_0"]
    assert [cell.strip() for cell in rows["gpu3"]] == ["other", "other", "mlx5_0"]


def test_table(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.xml"
    other.write_text(HWLOC_3)
    lines = [line for line in shown("--table", str(file), str(other)).splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    assert cells == [["machine", "4", "2", "1", "2", "0", "1", "1"], ["other", "4", "2", "1", "1", "1", "1", "1"]]


def test_json(file: Path) -> None:
    said = json.loads(shown(str(file), "--json"))
    assert said["nearness"]["gpu2"] == {"mlx5_0": "NUMA", "eth0": "NUMA"}
    assert said["nearest"]["gpu0"] == ["mlx5_0"]
    assert said["links"] == [{"kind": "nvlink", "ends": ["gpu0", "gpu3"], "count": 4}]
    assert [len(each["gpus"]) for each in json.loads(shown(str(file), str(file), "--json"))] == [4, 4]


def test_this_machine() -> None:
    assert json.loads(shown("--json"))["format"] == "sysfs"


def test_names_are_text(file: Path) -> None:
    file.write_text(NCCL.replace("mlx5_0", "[/red]:ab:&#x9b;2J"))
    output = shown(str(file))
    assert output.count("[/red]:ab:2J") == 6


def test_wrong_file(file: Path) -> None:
    file.write_text(NCCL.replace("0000:20:00.0", "slot 3"))
    said = json.loads(shown(str(file), "--json", code=2))
    assert said["error"]["name"] == "INVALID_REQUEST"
    assert said["error"]["cause"] == f"{file}: line 14: busid='slot 3' is not a PCI address"
