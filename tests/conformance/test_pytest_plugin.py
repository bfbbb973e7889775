"""The scripts as tests of pytest, in another project."""

import contextlib
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fanin_conform.datagram import dissect
from fanin_wire.fields import UDP_PORT
from tests.conformance.addresses import loopback_block

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
PLUGIN = "fanin_conform.pytest_plugin"
TEST = """
def test_conformance(fanin_script):
    fanin_script()
"""
FAULTY = """
import pytest

from fanin_conform import suite
from fanin_conform.profile import read
from fanin_conform.targets.reference import ReferenceTarget
from fanin_conform.mutants import MUTANTS, faulty_switch

@pytest.fixture(scope="session")
def fanin_target():
    with faulty_switch(next(fault for fault in MUTANTS if fault.clause == "7.1-5")) as kind:
        yield ReferenceTarget(suite.ADDRESSES, kind)

@pytest.fixture(scope="session")
def fanin_profile():
    return read("reproducible = false")
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_device.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-rs", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def test_a_device_by_its_name(tmp_path: Path) -> None:
    done = run(tmp_path, "--fanin-target", "engine", "-k", "recovery or flipped")
    assert done.returncode == 0, done.stdout
    assert "6 passed, 1 skipped" in done.stdout
    assert "the target has no port of its own" in done.stdout
    wrong = run(tmp_path, "--fanin-target", "nonsense", "-k", "recovery")
    assert "is not a target; use engine, engine-nic, rtl, or udp://" in wrong.stdout
    assert wrong.returncode != 0


def test_an_address_at_which_nothing_answers_is_asked_once(tmp_path: Path) -> None:
    """All scripts fail, by that name. Each would wait for seconds in its own job."""
    address = f"{loopback_block()}.200"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind((address, UDP_PORT))
        silent.setblocking(False)
        done = run(tmp_path, "--fanin-target", f"udp://{address}", "-k", "recovery")
        jobs = set()
        with contextlib.suppress(BlockingIOError):
            while packet := dissect(silent.recv(1 << 16)):
                jobs.add(packet.ceth["jid"])
    said = done.stdout.splitlines()
    assert "6 failed" in said[-1]
    assert said.count(f"NO_DEVICE: no Fanin device answers at {address}; start it, or correct --fanin-target") == 6
    assert len(jobs) == 1


def test_a_nic_by_its_name(tmp_path: Path) -> None:
    """Its scripts, by the role of its profile; an invalid agent is named, and so is an invalid profile."""
    (tmp_path / "rocev2.toml").write_text('role = "rocev2"\natomics = false\n')
    profile = ["--fanin-profile", "rocev2.toml"]
    done = run(tmp_path, "--fanin-target", "engine-nic", *profile, "-k", "fetch or every_padding or nic_segments")
    assert "1 passed, 1 skipped" in done.stdout, done.stdout
    assert "the device has no atomics" in done.stdout
    for options, text in (
        (["--fanin-agent", "true"], "AGENT_LOST: the agent at 'true' has ended; start the agent"),
        ([], "a NIC needs an agent; give --agent"),
        (["--fanin-profile", "none.toml"], "none.toml: profile: No such file or directory; give a file in TOML"),
    ):
        wrong = run(tmp_path, "--fanin-target", "nic://127.0.0.9", *options, "-k", "every_padding")
        assert text in wrong.stdout + wrong.stderr
        assert "Traceback" not in wrong.stdout + wrong.stderr


def test_a_device_of_a_fixture(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FAULTY)
    done = run(tmp_path, "-k", "duplicate_while or wait_names or order_of_the_bits")
    assert "1 failed, 1 passed, 2 skipped" in done.stdout
    again = "again: pytest 'test_device.py::test_conformance[duplicates/duplicate_while_others_are_missing]'"
    for part in ("demands: 7.1-2, 7.1-5", "expected to", "> device: CONTRIBUTION", "no reproducible jobs", again):
        assert part in done.stdout


def test_pip_installs_it_for_pytest() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points == {PLUGIN: PLUGIN}
