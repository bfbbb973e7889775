"""Start the daemons of a fabric and wait until each answers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from fanin_tools import control
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Device, Fabric
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.fabric.state import FabricState

Say = Callable[[str], None]
CommandOf = Callable[[Device, Fabric, Path], list[str]]

READY_SECONDS = 120.0  # a device that has to compile first, on a slow machine
POLL_SECONDS = 0.05
STATUS_TIMEOUT_SECONDS = 2.0
COMPILER = "fanin_nic.daemon.warm"  # compiles all device code into the cache of this user
SILENT_SECONDS = 3.0  # of compiler run before it is worth a line: with a warm cache it ends earlier
LOG_LINES = 5  # of a dead device, in the error


def daemon_command(device: Device, fabric: Fabric, socket: Path) -> list[str]:
    """Command line of the daemon of `device`."""
    entry = f"from fanin_nic.daemon.main import {device.kind}; {device.kind}()"
    options = {
        "--name": device.name,
        "--address": device.address,
        "--socket": str(socket),
        "--mtu": str(fabric.mtu),
        "--slots": str(device.slots),
        "--lanes": str(fabric.lanes),
    }
    return [sys.executable, "-c", entry, *(word for pair in options.items() for word in pair)]


def compile_device_code(say: Say) -> None:
    """Fill the cache of compiled code once, before several devices would each do it at the same time."""
    if importlib.util.find_spec(COMPILER) is None:
        return
    with subprocess.Popen(
        [sys.executable, "-m", COMPILER], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as compiler:
        try:
            compiler.wait(SILENT_SECONDS)
        except subprocess.TimeoutExpired:
            say("compiling the device code for this CPU (once; about a minute) ...")
        output, _ = compiler.communicate()
    if compiler.returncode:
        cause = f"compiling the device code failed: {_last_lines(output.decode(errors='replace'))}"
        raise ToolError("COMPILATION_FAILED", cause, f"run python -m {COMPILER} to see all of it")


def start(device: Device, fabric: Fabric, state: FabricState, command_of: CommandOf) -> ProcessIdentity:
    """Start one daemon in a session of its own, its output in its log."""
    command = [
        *namespaces.prefix_command(fabric, device.host),
        *command_of(device, fabric, state.socket(device.name)),
    ]
    log = (os.POSIX_SPAWN_OPEN, 1, str(state.log(device.name)), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), log, (os.POSIX_SPAWN_DUP2, 1, 2)]
    pid = os.posix_spawnp(command[0], command, os.environ, file_actions=actions, setsid=True)
    return ProcessIdentity.of(pid)


def wait_until_ready(processes: dict[str, ProcessIdentity], state: FabricState, seconds: float = READY_SECONDS) -> None:
    """Wait until every device answers STATUS; ToolError DEVICE_LOST or TIMEOUT names the one that does not."""
    end = time.monotonic() + seconds
    for name, process in processes.items():
        while not answers(state, name):
            if not process.alive:
                raise _lost(name, state, "ended while starting")
            if time.monotonic() > end:
                raise _lost(name, state, f"did not answer within {seconds:.0f} s")
            time.sleep(POLL_SECONDS)


def answers(state: FabricState, device: str) -> bool:
    """Whether a device answers STATUS now."""
    if not state.socket(device).exists():
        return False
    try:
        control.query(state.socket(device), STATUS_TIMEOUT_SECONDS)
    except ToolError:
        return False
    return True


def _lost(name: str, state: FabricState, what: str) -> ToolError:
    log = state.log(name)
    said = _last_lines(log.read_text(errors="replace")) if log.exists() else ""
    cause = f"device {name} {what}" + (f"; it said: {said}" if said else "")
    return ToolError("DEVICE_LOST", cause, "correct that; fanin doctor shows what this machine can do")


def _last_lines(text: str) -> str:
    return " | ".join(_nonempty(text.splitlines())[-LOG_LINES:])


def _nonempty(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]
