"""What a service manager is told, and nobody else."""

import os
from pathlib import Path

import pytest

from fanin_nic.daemon.main import ENVIRONMENT_VARIABLE, ServiceManager
from tests.deploy.manager import listening

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_notices(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(tmp_path / "notify") if kind == "path" else f"@fanin-test-{os.getpid()}"
    with listening(name) as manager:
        monkeypatch.setenv(ENVIRONMENT_VARIABLE, name)
        told = ServiceManager()
        told.status("compiling")
        told.ready("accepts ranks")
        told.stopping("ending")
        assert [manager.take() for _ in range(3)] == [
            ["STATUS=compiling"],
            ["READY=1", "STATUS=accepts ranks"],
            ["STOPPING=1", "STATUS=ending"],
        ]


def test_children_know_no_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "@somebody")
    ServiceManager()
    assert ENVIRONMENT_VARIABLE not in os.environ


def test_without_a_manager_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    ServiceManager().ready("accepts ranks")


def test_a_manager_that_has_gone_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager(str(tmp_path / "nobody")).ready("accepts ranks")
    assert "does not accept notices" in caplog.text
