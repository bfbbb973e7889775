"""The example for cards: its files agree, and its devices, each with its own settings, verify an allreduce.

Unlike on cards, addresses are of loopback, packets are UDP, and ranks are on their device's machine.
"""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fanin import Job
from fanin_nic.daemon import main
from fanin_tools.fabric import description_file
from fanin_wire import settings
from fanin_wire.settings import DeviceSettings

from .manager import listening

EXAMPLE = Path(__file__).parents[2] / "examples/bluefield"
DEVICES = ("nic0", "nic1", "switch0")
SECONDS = 120.0
BLOCK = f"127.65.{os.getpid() // 250 % 250}"
PROGRAM = "from fanin_nic.daemon.main import {kind}; {kind}()"


def described(text: str, folder: Path) -> Job:
    """The job of `job.py` for a description."""
    (folder / "fabric.toml").write_text(text)
    command = [sys.executable, EXAMPLE / "job.py", folder / "fabric.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    (folder / "job.txt").write_text(done.stdout)
    return Job.from_file(folder / "job.txt")


@pytest.mark.parametrize("name", DEVICES)
def test_settings_agree_with_the_description(name: str) -> None:
    fabric = description_file.read(EXAMPLE / "fabric.toml")
    device = fabric.device(name)
    given = main.read_settings(EXAMPLE / f"{name}.toml")
    found = settings.convert({**given, "name": name, "socket": "/run/fanin"}, DeviceSettings)
    shared = ("address", "port", "slots", "rdma", "token_file")
    assert [getattr(found, each) for each in shared] == [getattr(device, each) for each in shared]
    assert (found.mtu, found.detection, found.lanes) == (fabric.mtu, fabric.detection, fabric.lanes)


@pytest.mark.process
def test_job_is_that_of_the_description(tmp_path: Path) -> None:
    text = (EXAMPLE / "fabric.toml").read_text()
    first, second = (described(text, tmp_path) for _ in range(2))
    assert [(node.address, node.ranks, node.switches) for node in first.nodes] == [
        ("10.0.0.1", (0, 1), ("10.0.0.254",)),
        ("10.0.0.2", (2, 3), ("10.0.0.254",)),
    ]
    assert (first.jid, first.key) != (second.jid, second.key)


@pytest.mark.process
def test_devices_and_ranks_of_the_example() -> None:
    with TemporaryDirectory(dir="/tmp") as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        for number, name in enumerate(DEVICES, start=1):
            manager = stack.enter_context(listening(str(folder / f"{name}.notify")))
            options = ["--settings", str(EXAMPLE / f"{name}.toml"), "--name", name, "--socket", str(folder / name)]
            options += ["--address", f"{BLOCK}.{number}", "--port", "udp", "--slots", "512"]
            options += ["--rdma", "", "--token-file", ""]
            command = [sys.executable, "-c", PROGRAM.format(kind=name[:-1]), *options]
            device = subprocess.Popen(command, env=os.environ | {"NOTIFY_SOCKET": manager.name})
            stack.callback(device.wait)
            stack.callback(device.kill)
            manager.wait_for("READY=1")
        text = (EXAMPLE / "fabric.toml").read_text()
        for number, address in enumerate(("10.0.0.1", "10.0.0.2", "10.0.0.254"), start=1):
            text = text.replace(f'address = "{address}"', f'address = "{BLOCK}.{number}"')
        job = described(re.sub(r"(?m)^(rdma|token_file|port) = .*$", "", text), folder)
        ranks = []
        for node, name in zip(job.nodes, DEVICES, strict=False):
            for rank in node.ranks:
                variables = {"FANIN_SOCKET": str(folder / name), "FANIN_JOB": str(folder / "job.txt")}
                variables |= {"FANIN_RANK": str(rank), "FANIN_SIZE": str(job.size)}
                command = [sys.executable, EXAMPLE / "allreduce.py"]
                ranks.append(subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True))
                stack.callback(ranks[-1].kill)
        said = [process.communicate(timeout=SECONDS)[0] for process in ranks]
        assert said == [f"rank {rank} of 4: 4000000 bytes, verified\n" for rank in range(4)]
        assert [process.returncode for process in ranks] == [0] * 4
