"""`fanin handoff` and `fanin placement`: tables, JSON, errors by name."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from tests.cluster.machines import NCCL, NCCL_BY_CLASS

TWICE = ["--subnet", "mlx5_0=10.1.0.0/24", "--subnet", "mlx5_0=10.2.0.0/24"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "machine.xml"
    path.write_text(NCCL)
    return str(path)


def said(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_plan_of_a_hand_off(file: str) -> None:
    output = shown("handoff", file, "--bytes", "32M", "--holder", "0")
    assert "│ gpu0 │ mlx5_0 │ mlx5_0 │ gpu0 │ 100 Gbit/s │ 16 MiB │ gpu0 gpu2 │" in output
    assert "nearness of the second GPUs to their NICs: same switch" in output
    found = said("handoff", file, "--bytes", "4096", "--holder", "0", "--granule", "8")
    assert found["stage_bytes"] == {"spread": 2048, "send": 4096, "diffuse": 2048, "collect": 3 * 4096}
    assert found["send"][1] == {"source": 1, "target": 1, "offset": 2048, "length": 2048}
    assert found["groups"] == [[0, 2], [1, 3]]


def test_unknown_rates_are_said(file: str, tmp_path: Path) -> None:
    other = tmp_path / "other.xml"
    other.write_text(NCCL_BY_CLASS)
    assert "other.xml: the rate of nic0 is not known; it is taken for 100gbit" in shown(
        "handoff", file, str(other), "--nic", "100gbit"
    )


def test_classes(file: str) -> None:
    found = said("placement", "classes", file, "--subnet", "mlx5_0=10.1.0.0/24", "--affinity", "switch")
    assert [each["name"] for each in found["classes"]] == ["gpu-roce-10-1-0-0-24"]
    assert found["without_nic"] == ["gpu2", "gpu3"]
    assert "no NIC with RDMA is near enough to gpu3" in shown("placement", "classes", file)


def test_choice() -> None:
    assert said("placement", "choose", "0,3", "1,0", "3,2")["resource_class"] == 1
    assert said("placement", "choose", "0,3", "1,0", "3,2", "--reading", "votes")["resource_class"] == 0
    assert "workers on each node: 0 0 1" in shown("placement", "choose", "0,3", "1,0", "3,2", "--gpus", "2")


@pytest.mark.parametrize(
    ("arguments", "name", "cause"),
    [
        (["placement", "choose", "1,2", "3"], "INVALID_REQUEST", "different numbers of classes"),
        (["placement", "choose", "one"], "INVALID_REQUEST", "not lists of free pairs"),
        (["placement", "choose", "1,2", "--reading", "all"], "INVALID_REQUEST", "--reading all"),
        (["placement", "choose", "1,2", "--gpus", "3"], "NO_RESOURCES", "no class has room for 1 workers with 3 GPUs"),
        (["placement", "classes", "FILE", "--subnet", "mlx5_0"], "INVALID_REQUEST", "--subnet mlx5_0"),
        (["placement", "classes", "FILE", *TWICE], "INVALID_REQUEST", "--subnet is given twice for mlx5_0"),
        (["placement", "classes", "FILE", "--subnet", "eth0=10.0.0.0/8"], "INVALID_REQUEST", "there is no NIC eth0"),
        (["placement", "classes", "FILE", "--affinity", "rack"], "INVALID_REQUEST", "--affinity rack"),
        (["handoff", "FILE", "--holder", "4"], "INVALID_REQUEST", "there is no GPU 4"),
        (["handoff", "FILE", "--inside", "0"], "INVALID_REQUEST", "a rate is 0"),
        (["handoff", "/no/such.xml"], "INVALID_REQUEST", "/no/such.xml can not be read"),
    ],
)
def test_errors(arguments: list[str], name: str, cause: str, file: str) -> None:
    given = [file if each == "FILE" else each for each in arguments]
    error = said(*given, code=1 if name == "NO_RESOURCES" else 2)["error"]
    assert error["name"] == name
    assert cause in error["cause"]
    assert error["remedy"]
