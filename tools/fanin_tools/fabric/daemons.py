"""Start the daemons of a fabric, and wait until each answers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from fanin_nic.native.cache import choose_cache_folder
from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query, fork_server, simulated_switch
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.processes import ProcessIdentity
from fanin_tools.fabric.state import FabricState, writing
from fanin_tools.kernel_files import require_proc
from fanin_tools.progress import ProgressCallback, activity

Start = Callable[[Fabric, FabricState, ProgressCallback], Iterator[tuple[str, ProcessIdentity]]]

START_LOG = ".start"  # log of the fork server; no name of a device begins with a dot

READY_SECONDS = 120.0  # a device on a slow machine
POLL_SECONDS = 0.05
STATUS_TIMEOUT_SECONDS = 2.0
LOG_LINES = 5  # of a dead device, in the error
# OpenBLAS would start threads, which do not survive a fork.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


def start(
    fabric: Fabric, state: FabricState, progress: ProgressCallback, names: Sequence[str] = ()
) -> Iterator[tuple[str, ProcessIdentity]]:
    """Start all daemons of `fabric`, or those called `names`.

    Yields name and process of each. The daemons begin to work when the last one has been taken, so that the caller can
    record every process before.

    Raises ToolError COMPILATION_FAILED if the device code can not be loaded; NOT_SUPPORTED without /proc, or if a
    simulated switch lacks what it needs; CacheUnavailable.
    """
    require_proc()
    choose_cache_folder()
    simulated_switch.build(fabric, progress)
    command = [sys.executable, "-m", fork_server.MODULE, fabric.name, *names]
    pipe = subprocess.PIPE
    with (
        _start_log(state) as log,
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=log, text=True, env=os.environ | ENVIRONMENT, process_group=0
        ) as loader,
        _ending_with_an_error(loader),
    ):
        assert loader.stdin is not None
        assert loader.stdout is not None
        for line in loader.stdout:
            if line.strip() == fork_server.COMPILING:
                line = _first_after_compiling(loader.stdout, progress)
            if line:
                name, process = line.split()
                yield name, ProcessIdentity.of(int(process))
        if loader.wait():
            cause = f"the device code could not be loaded: {_last_lines(state.log(START_LOG).read_text())}"
            raise ToolError("COMPILATION_FAILED", cause, "run python -m fanin_nic.daemon.precompile to see all of it")
        loader.stdin.write("\n" * (len(names) or len(fabric.daemons)))


@contextlib.contextmanager
def _ending_with_an_error(loader: subprocess.Popen[str]) -> Iterator[None]:
    """If the block is interrupted, end the fork server, its compiler, and devices that wait."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(loader.pid, signal.SIGKILL)
        raise


def _start_log(state: FabricState) -> TextIO:
    """Emptied."""
    with writing(state.folder):
        return state.log(START_LOG).open("w")


def _first_after_compiling(said: Iterable[str], progress: ProgressCallback) -> str:
    """Show that the fork server compiles. Returns its first other line; "" at the end."""
    with activity("compiling the device code for this CPU (once; a minute or two)", progress, silence=0) as compiling:
        compiling.update()
        for line in said:
            if line.strip() != fork_server.COMPILING:
                return line
            compiling.update()
    return ""


def wait_until_ready(
    processes: dict[str, ProcessIdentity],
    state: FabricState,
    progress: ProgressCallback,
    seconds: float = READY_SECONDS,
) -> None:
    """Until every device answers a STATUS request. Raises ToolError DEVICE_LOST for one that does not in `seconds`."""
    end = time.monotonic() + seconds
    with activity("starting devices", progress, total=len(processes)) as starting:
        for ready, (name, process) in enumerate(processes.items()):
            while not answers(state, name):
                if not process.alive:
                    raise _lost(name, state, "ended while starting")
                if time.monotonic() > end:
                    raise _lost(name, state, f"did not answer within {seconds:.0f} s")
                starting.update(ready)
                time.sleep(POLL_SECONDS)
            starting.update(ready + 1)


def answers(state: FabricState, device: str) -> bool:
    """A STATUS request, now."""
    if not state.socket(device).exists():
        return False
    try:
        device_query.query_status(state.socket(device), STATUS_TIMEOUT_SECONDS)
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
