"""The command when FANIN_SOCKET names devices on other hosts; tests/e2e/test_rdma_host.py has those that answer."""

import os
import subprocess
import sys

import pytest

from fanin_tools.doctor import remote
from fanin_tools.doctor.check import Level
from fanin_tools.fabric.tree import remote_addresses

ADDRESS = "rdma://mlx5_0@192.168.100.2:4792"


@pytest.mark.parametrize(
    ("sockets", "addresses"),
    [
        ("", []),
        ("/run/nic0.sock:/run/nic1.sock", []),
        (ADDRESS, [ADDRESS]),
        (f"/run/nic0.sock:{ADDRESS}:/run/nic1.sock", [ADDRESS]),
        (f"{ADDRESS}:rdma://10.0.0.1:1", [ADDRESS, "rdma://10.0.0.1:1"]),
        ("rdma://10.0.0.1", ["rdma://10.0.0.1"]),
        ("/run/rdma://nic0", []),
    ],
)
def test_addresses_in_a_list(sockets: str, addresses: list[str]) -> None:
    assert remote_addresses(sockets) == addresses


@pytest.mark.process
def test_run_is_refused() -> None:
    """It would use other devices than the user named."""
    line = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", "run", "--", "true"]
    refused = subprocess.run(line, env=os.environ | {"FANIN_SOCKET": ADDRESS}, capture_output=True, text=True)
    assert refused.returncode == 2
    cause = f"FANIN_SOCKET is {ADDRESS}, and fanin run starts ranks on devices of this host alone"
    assert refused.stderr.startswith(f"fanin: NOT_SUPPORTED: {cause}; ")


@pytest.mark.process
@pytest.mark.parametrize("command", ["capture", "trace"])
def test_a_tap_over_rdma_is_refused(command: str) -> None:
    line = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", command, "-d", ADDRESS]
    refused = subprocess.run(line, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"fanin: NOT_SUPPORTED: {ADDRESS}: a device shows its records on its own host alone; "
    )


def test_device_that_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device is asked about one of this host."""
    monkeypatch.setenv("FANIN_SOCKET", "/run/nic0.sock:rdma://10.0.0.1")
    (found,) = remote.run_checks()
    assert (found.subject, found.level) == ("rdma://10.0.0.1", Level.BROKEN)
    assert "write rdma://ADDRESS:PORT" in found.detail
    assert found.remedy
