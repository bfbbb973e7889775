"""The life of a device as a service: ready, stopped, drained."""

import contextlib
import os
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
from fanin_tools.fabric import device_query, drain
from tests.deploy.manager import Manager, listening
from tests.waiting import BOUND_S

pytestmark = pytest.mark.process
ADDRESS = f"127.64.{os.getpid() // 250 % 250}.{1 + os.getpid() % 250}"


class Service:
    """`fanin-nic` with the control socket `path`, and its service manager."""

    def __init__(self, folder: Path, manager: Manager) -> None:
        self.path, self.manager = folder / "control.sock", manager
        settings = folder / "nic0.toml"
        settings.write_text(f'address = "{ADDRESS}"\nslots = 64\n')
        arguments = ["--settings", str(settings), "--name", "nic0", "--socket", str(self.path)]
        environment = os.environ | {"NOTIFY_SOCKET": manager.name}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from fanin_nic.daemon.main import nic; nic()", *arguments], env=environment
        )

    def end(self) -> int:
        """How the process has ended."""
        return self.process.wait(BOUND_S)


@pytest.fixture
def service() -> Iterator[Service]:
    with TemporaryDirectory(dir="/tmp") as folder, contextlib.ExitStack() as stack:
        started = Service(Path(folder), stack.enter_context(listening(f"@fanin-life-{os.getpid()}")))
        try:
            started.manager.wait_for("READY=1")
            yield started
        finally:
            started.process.kill()
            started.process.wait()


def job(jid: int) -> Job:
    return Job(jid=jid, key=1, nodes=(JobNode(ADDRESS, (0,)),), slots=8)


def fanin(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)


def test_ready_means_that_ranks_are_accepted_and_sigterm_ends_it(service: Service) -> None:
    with Communicator(job(1), 0, service.path, timeout=BOUND_S) as communicator:
        assert communicator.allreduce(np.ones(4)).tolist() == [1, 1, 1, 1]
        service.process.send_signal(signal.SIGTERM)
        assert service.manager.take() == ["STOPPING=1", "STATUS=ending"]
        assert service.end() == 0
        with pytest.raises(errors.DeviceLost):
            communicator.allreduce(np.ones(4), timeout=BOUND_S)
    assert not service.path.exists()


def test_drain_of_a_device_that_has_a_job(service: Service) -> None:
    with Communicator(job(1), 0, service.path, timeout=BOUND_S) as communicator:
        service.process.send_signal(signal.SIGUSR1)
        assert service.manager.take() == ["STATUS=draining: 1 jobs, 1 queue pairs"]
        with pytest.raises(errors.Draining):
            Communicator(job(2), 0, service.path, timeout=BOUND_S)
        assert communicator.allreduce(np.ones(4)).tolist() == [1, 1, 1, 1]
        assert device_query.query_status(service.path)["draining"]
        assert fanin("device", "status", service.path).returncode == 1
    assert service.manager.wait_for("STOPPING=1")
    assert service.end() == 0


def test_drain_by_the_command(service: Service) -> None:
    status = fanin("device", "status", service.path)
    assert (status.returncode, status.stdout) == (0, f"nic nic0 at {ADDRESS} is ready, 0 jobs\n")
    assert fanin("device", "drain", service.path).returncode == 0
    assert service.end() == 0
    again = fanin("device", "drain", service.path)
    assert again.returncode == 1
    assert again.stderr.startswith(f"fanin: NO_DEVICE: {service.path}: No such file or directory")


def test_a_second_drain_waits_for_the_same_end(service: Service) -> None:
    with Communicator(job(1), 0, service.path, timeout=BOUND_S):
        first = threading.Thread(target=drain.drain_devices, args=({"nic0": service.path}, BOUND_S))
        first.start()
        service.manager.wait_for("STATUS=draining")
        assert fanin("device", "drain", service.path, "--timeout", 0).stderr.startswith("fanin: TIMEOUT: ")
    first.join(BOUND_S)
    assert service.end() == 0
