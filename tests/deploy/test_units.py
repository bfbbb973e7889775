"""The units of systemd: systemd's own opinion of them, and devices that run as such services."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fanin import Communicator, Job, JobNode, errors
from fanin_nic.native.compiled import CACHE_FOLDER
from fanin_tools.fabric import device_query
from tests.deploy.private_systemd import UNITS, PrivateSystemd, booted, require
from tests.e2e.fabrics import eventually

pytestmark = pytest.mark.process
ADDRESS = "127.0.0.1"
LATE_ADDRESS = "10.77.0.1"
MAX_EXPOSURE = 20  # tenths: the units name what is left open
SECONDS = 120.0


@pytest.fixture(params=["fanin-nic@", "fanin-switch@", "fanin-device-plugin"])
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """As installed, with the commands of this environment."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze (Debian: systemd)")
    source = (UNITS / f"{request.param}.service").read_text()
    path = tmp_path / f"{request.param}.service"
    path.write_text(source.replace("/opt/fanin/bin", str(Path(sys.executable).parent)))
    return path


def test_systemd_finds_no_fault(unit: Path) -> None:
    instance = unit.with_name(unit.name.replace("@", "@nic0"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", instance], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout, _about(found.stderr, unit)) == (0, "", [])


def _about(text: str, unit: Path) -> list[str]:
    """Lines about a unit; systemd also complains of other units of the machine."""
    return [line for line in text.splitlines() if unit.stem.rstrip("@") in line]


def test_a_fault_would_be_found(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("Restart=on-failure", "Restart=on-failures"))
    instance = unit.with_name(unit.name.replace("@", "@nic0"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", instance], capture_output=True, text=True, check=False
    )
    assert "on-failures" in found.stderr


def test_little_is_exposed(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MAX_EXPOSURE}", "--no-pager", unit]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout.splitlines()[-1:]


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateSystemd]:
    """A booted systemd with the settings of a NIC and of a switch."""
    require()
    files = {
        "/etc/fanin/nic0.toml": f'address = "{ADDRESS}"\nslots = 64\n',
        "/etc/fanin/leaf0.toml": 'address = "127.0.0.2"\nslots = 64\n',
        "/etc/fanin/wrong.toml": "slots = 63\n",
        "/etc/fanin/late.toml": f'address = "{LATE_ADDRESS}"\nslots = 64\n',
    }
    with TemporaryDirectory(dir="/tmp") as work, booted(Path(work), CACHE_FOLDER, files) as systemd:
        yield systemd


def socket_of(machine: PrivateSystemd, device: str) -> Path:
    return machine.root / f"run/fanin/{device}/control.sock"


def job(jid: int) -> Job:
    return Job(jid=jid, key=1, nodes=(JobNode(ADDRESS, (0,)),), slots=8)


def test_started_means_ready(machine: PrivateSystemd) -> None:
    machine.systemctl("start", "fanin-nic@nic0", "fanin-switch@leaf0")
    for kind, device in (("nic", "nic0"), ("switch", "leaf0")):
        status = device_query.query_status(socket_of(machine, device))
        assert (status["kind"], status["name"]) == (kind, device)
        assert machine.show(f"fanin-{kind}@{device}", "ActiveState") == "active"
    assert machine.show("fanin-nic@nic0", "StatusText").startswith(f"nic at {ADDRESS} accepts ranks; MTU ")
    with Communicator(job(1), 0, socket_of(machine, "nic0"), timeout=SECONDS) as communicator:
        assert communicator.allreduce(np.ones(4)).tolist() == [1, 1, 1, 1]
    owner = os.stat(socket_of(machine, "nic0"))
    assert (owner.st_uid, owner.st_mode & 0o777) == (977, 0o600)


def test_a_killed_device_is_started_again(machine: PrivateSystemd) -> None:
    machine.systemctl("start", "fanin-nic@nic0")
    first = machine.process_of("fanin-nic@nic0")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: machine.show("fanin-nic@nic0", "NRestarts"), lambda count: count == "1", SECONDS)
    eventually(lambda: machine.show("fanin-nic@nic0", "ActiveState"), lambda state: state == "active", SECONDS)
    assert machine.process_of("fanin-nic@nic0") not in (0, first)
    device_query.query_status(socket_of(machine, "nic0"))


def test_an_address_that_comes_late(machine: PrivateSystemd) -> None:
    """The device is started again for as long as it takes; by default systemd gives up after five tries."""
    machine.systemctl("start", "--no-block", "fanin-nic@late")
    eventually(lambda: int(machine.show("fanin-nic@late", "NRestarts")), lambda count: count > 5, SECONDS)
    machine.command("ip", "address", "add", f"{LATE_ADDRESS}/32", "dev", "lo")
    eventually(lambda: machine.show("fanin-nic@late", "ActiveState"), lambda state: state == "active", SECONDS)
    device_query.query_status(socket_of(machine, "late"))
    machine.systemctl("stop", "fanin-nic@late")


def test_a_stop_lets_jobs_end(machine: PrivateSystemd) -> None:
    """One instance takes nothing from the other."""
    machine.systemctl("start", "fanin-nic@nic0", "fanin-switch@leaf0")
    path = socket_of(machine, "nic0")
    with Communicator(job(2), 0, path, timeout=SECONDS) as communicator:
        stopping = threading.Thread(target=machine.systemctl, args=("stop", "fanin-nic@nic0"))
        stopping.start()
        eventually(lambda: device_query.query_status(path)["draining"], bool, SECONDS)
        with pytest.raises(errors.Draining):
            Communicator(job(3), 0, path, timeout=SECONDS)
        assert communicator.allreduce(np.ones(4)).tolist() == [1, 1, 1, 1]
    stopping.join(SECONDS)
    assert [machine.show("fanin-nic@nic0", name) for name in ("ActiveState", "Result")] == ["inactive", "success"]
    assert not path.exists()
    device_query.query_status(socket_of(machine, "leaf0"))


def test_wrong_settings_are_tried_once(machine: PrivateSystemd) -> None:
    assert machine.systemctl("start", "fanin-nic@wrong", check=False).returncode != 0
    values = [machine.show("fanin-nic@wrong", name) for name in ("ActiveState", "ExecMainStatus", "NRestarts")]
    assert values == ["failed", "2", "0"]
