"""An MPI program on a local fabric, started by its own mpirun with the shim preloaded, and compiled by its mpicc."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from fanin.mpi import library_path
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import end_with_caller
from fanin_tools.launch.launcher import TO_STANDARD_OUTPUT, Output
from fanin_tools.launch.placement import Placement
from fanin_tools.progress import BEAT_SECONDS

LAUNCHER = "mpirun"
COMPILER = "mpicc"
ALLOWS_ROOT = "--allow-run-as-root"
PROBE_TIMEOUT_SECONDS = 30.0  # to find out a version
VERSIONS = {"Open MPI": r"\((?:Open MPI|OpenRTE)\) (\S+)", "MPICH": r"HYDRA.*?Version: *(\S+)"}
# Lets Open MPI 4 and 5 start more ranks than the machine has cores, unless the user has other settings.
OVERSUBSCRIBE = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
NAMESPACES = "let an mpirun enter them (fanin mpi-lib --launch-agent, docs/mpi.md), or leave out --netns"


def launch(
    running: Running,
    placement: Placement,
    launcher: str,
    command: Sequence[str],
    output: Output = TO_STANDARD_OUTPUT,
    goes_on: Callable[[], None] | None = None,
) -> int:
    """Run `command` to its end. Returns the launcher's exit code, as a shell gives it. output: without a prefix.
    goes_on: called now and then meanwhile."""
    line = command_line(running, placement, launcher, command)
    with subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=output.inherited,
        env=OVERSUBSCRIBE | os.environ,
        preexec_fn=end_with_caller(signal.SIGTERM),  # at which it ends its ranks
    ) as process:
        try:
            code = process.wait() if goes_on is None else _wait(process, goes_on)
        except BaseException:
            process.terminate()
            raise
    return code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes], goes_on: Callable[[], None]) -> int:
    """Calls `goes_on` until the process ends."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(BEAT_SECONDS)
        goes_on()


def command_line(running: Running, placement: Placement, launcher: str, command: Sequence[str]) -> list[str]:
    """The shim is preloaded into the ranks only, not into the launcher. Raises UsageError NOT_SUPPORTED for a fabric in
    namespaces, NO_PROGRAM if there is no such launcher."""
    if running.fabric.netns:
        cause = "the launcher starts all ranks in one network namespace"
        raise UsageError(cause, NAMESPACES, name="NOT_SUPPORTED")
    variables = [f"{name}={value}" for name, value in environment(running, placement).items()]
    return plain_command_line(placement.size, launcher, ["env", *variables, *command])


def plain_command_line(ranks: int, launcher: str, command: Sequence[str]) -> list[str]:
    """Without the shim. Raises UsageError as `launcher_words`."""
    return [*launcher_words(launcher), "-n", str(ranks), *command]


def launcher_words(launcher: str) -> list[str]:
    """A launcher and its options. Raises UsageError for an open quotation, NO_PROGRAM if there is no such launcher."""
    try:
        words = shlex.split(launcher)
    except ValueError as error:
        raise UsageError(f"--mpirun {launcher!r}: {error}", "quote it as a shell would read it") from None
    if not words or shutil.which(words[0]) is None:
        remedy = "install an MPI, or name its launcher with --mpirun"
        raise UsageError(f"there is no program {launcher!r}", remedy, name="NO_PROGRAM")
    return words


def environment(running: Running, placement: Placement) -> dict[str, str]:
    """Of every rank. FANIN_SOCKET has the sockets of all nodes; a rank takes that of its node."""
    sockets = [str(running.state.socket(nic.name)) for nic in placement.nics]
    present = os.environ.get("LD_PRELOAD", "")
    return {
        "LD_PRELOAD": f"{library_path()}{':' if present else ''}{present}",
        "FANIN_SOCKET": ":".join(sockets),
        "FANIN_ROUTE": placement.route,
    }


def remedy_of_failure(launcher: str) -> str:
    remedy = "see its error output above"
    if refuses_root(launcher):
        remedy += f'; to root, Open MPI asks for --mpirun "{launcher} {ALLOWS_ROOT}"'
    return remedy


def refuses_root(launcher: str) -> bool:
    """Whether this process is root and the launcher Open MPI's, which then starts nothing unless it is told to."""
    words = launcher_words(launcher)
    if os.geteuid() or ALLOWS_ROOT in words or "OMPI_ALLOW_RUN_AS_ROOT" in os.environ:
        return False
    return name_of(words[0]).startswith("Open MPI")


def name_of(launcher: str) -> str:
    """Name and version of a launcher's MPI, by its own output; "" if it does not say."""
    try:
        said = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    for name, version in VERSIONS.items():
        if found := re.search(version, said, re.DOTALL):
            return f"{name} {found[1]}"
    return ""


def compile_program(launcher: str, source: Path, program: Path, remedy: str) -> Path:
    """Compile `source` with the compiler beside a launcher; the program's path.

    Raises UsageError NO_PROGRAM, with `remedy`, if there is no such compiler; ToolError BUILD_FAILED, with its first
    lines.
    """
    path = Path(shutil.which(launcher_words(launcher)[0]) or "").absolute()
    beside = path.with_name(COMPILER + path.suffix)  # Debian has mpirun.mpich and mpicc.mpich
    if not os.access(beside, os.X_OK):
        raise UsageError(f"there is no {beside.name} beside {path}", remedy, name="NO_PROGRAM")
    done = subprocess.run([beside, "-O2", source, "-o", program], capture_output=True, text=True)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:300]
        raise ToolError("BUILD_FAILED", f"{beside}: {said}", remedy)
    return program
