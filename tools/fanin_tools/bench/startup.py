"""The time before the first collective: of a program (import, attach, join), and of a device until it is ready."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fanin
from fanin_tools.bench.samples import Summary
from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_tools.progress import ProgressCallback
from fanin_wire.installation import install_command

IMPORTS, ATTACHES, DEVICES = 15, 50, 9
READY_SECONDS = 120.0  # on a slow machine
NIC = "from fanin_nic.daemon.main import nic; nic()"
# Run in an interpreter of its own; prints the import's time, and whether it loaded the compiler.
PROGRAM = """
import json, sys, time
start = time.perf_counter_ns()
import fanin
print(json.dumps([time.perf_counter_ns() - start, "numba" in sys.modules]))
"""


@dataclass(frozen=True)
class Row:
    what: str
    microseconds: Summary


def measure(running: Running, progress: ProgressCallback) -> list[Row]:
    """Every step, on a fabric of one node."""
    progress("importing ...")
    rows = [Row("import fanin, in a new interpreter", Summary.of([_import() for _ in range(IMPORTS)]))]
    socket = running.state.socket(running.fabric.nics[0].name)
    progress("attaching ...")
    attach = [_timed(lambda: fanin.verbs.Context(socket)) for _ in range(ATTACHES)]
    progress("joining ...")
    join = [_join(running) for _ in range(ATTACHES)]
    rows += [Row("attach to the device", Summary.of(attach)), Row("attach, and join a job", Summary.of(join))]
    progress("starting devices ...")
    spare = str(ipaddress.IPv4Address(running.fabric.nics[0].address) + 100)  # the fabric has the block of addresses
    _start_device(spare)  # writes the bytecode that is missing
    ready, processor = zip(*(_start_device(spare) for _ in range(DEVICES)), strict=True)
    rows.append(Row("a device, from its start to READY=1", Summary.of(list(ready))))
    if 0 in processor:
        progress("no row of the device's processor time: this kernel does not count it in /proc/PID/task/TID/schedstat")
        return rows
    return [*rows, Row("the same, of processors", Summary.of(list(processor)))]


def _start_device(address: str) -> tuple[int, int]:
    """Start a NIC in an interpreter of its own, as a service manager does, and end it. Nanoseconds until it is ready,
    and of processors (0: not counted)."""
    with (
        tempfile.TemporaryDirectory(prefix="fanin-start-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices,
    ):
        notices.bind(f"{folder}/notices")
        options = ["--name", "start", "--address", address, "--socket", f"{folder}/socket"]
        environment = os.environ | {"NOTIFY_SOCKET": f"{folder}/notices"}
        start = time.perf_counter_ns()
        device = subprocess.Popen([sys.executable, "-c", NIC, *options], env=environment, stderr=subprocess.PIPE)
        with device:
            try:
                _await_ready(device, notices)
                return time.perf_counter_ns() - start, _processor_time(device.pid)
            finally:
                device.terminate()


def _await_ready(device: subprocess.Popen[bytes], notices: socket.socket) -> None:
    """Wait for READY=1. Raises ToolError if the device ends, or is not ready in time."""
    notices.settimeout(0.1)
    until = time.monotonic() + READY_SECONDS
    while device.poll() is None and time.monotonic() < until:
        try:
            if b"READY=1" in notices.recv(4096).split(b"\n"):
                return
        except TimeoutError:
            continue
    status = device.poll()
    device.kill()
    said = (device.stderr.read() if device.stderr else b"").decode(errors="replace")[-300:]
    how = f"is not ready within {READY_SECONDS:.0f} s" if status is None else f"has ended with status {status}"
    raise ToolError("PROGRAM_FAILED", f"a device {how}: {said}", "run fanin doctor, which says what this machine lacks")


def _processor_time(process: int) -> int:
    """Nanoseconds of processors of a process's threads: proc(5), schedstat. 0 if the kernel does not count them."""
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{process}/task").glob("*/schedstat"))


def _import() -> int:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    if found.returncode:
        raise ToolError(
            "PROGRAM_FAILED", f"import fanin: {found.stderr[-300:]}", f"install it anew: {install_command()}"
        )
    nanoseconds, with_compiler = json.loads(found.stdout)
    if with_compiler:
        cause = "import fanin has loaded numba, which programs do not need"
        raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
    return int(nanoseconds)


def _timed(make: Callable[[], fanin.verbs.Context | fanin.Communicator]) -> int:
    start = time.perf_counter_ns()
    made = make()
    end = time.perf_counter_ns()
    made.close()
    return end - start


def _join(running: Running) -> int:
    placement = place(running.fabric, 1, "local")
    path = job_file.write(running, job_file.describe(running, placement))
    try:
        job, socket = fanin.Job.from_file(path), running.state.socket(placement.nics[0].name)
        return _timed(lambda: fanin.Communicator(job, 0, socket))
    finally:
        path.unlink()
