"""Which programs and libraries are installed, in which version."""

import ctypes
import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from fanin_tools.doctor.check import CheckResult, Level
from fanin_tools.launch.mpirun import name_of
from fanin_wire.installation import install_command, make_command

LIBRARIES = ("numpy", "numba", "cffi", "msgspec", "scapy", "typer", "rich")

# command, what it enables, how to get it
COMMANDS = (
    ("cc", "building the driver core", "install a C compiler (Debian: gcc)"),
    ("make", "make demo, test, lint, bench", "install make"),
    ("ip", "fabrics in namespaces (--netns)", "install iproute2"),
    ("tc", "shaped links (--rate)", "install iproute2"),
    ("nft", "random loss in the kernel", "install nftables"),
    ("tshark", "a second opinion on captured packets", "install tshark"),
)

PEERS_FOLDER = Path(".bench")  # where `make bench` puts them


def run_checks() -> Iterator[CheckResult]:
    yield _python()
    for name in LIBRARIES:
        yield _library(name)
    yield _driver_core()
    for command, enables, remedy in COMMANDS:
        path = shutil.which(command)
        yield CheckResult(
            command, Level.OK if path else Level.MISSING, path or "not found", enables, "" if path else remedy
        )
    yield _mpi()


def _python() -> CheckResult:
    level = Level.OK if sys.version_info >= (3, 11) else Level.BROKEN
    return CheckResult(
        "python", level, platform.python_version(), "everything", "" if level == Level.OK else "3.11 or newer"
    )


def _library(name: str) -> CheckResult:
    try:
        return CheckResult(name, Level.OK, importlib.metadata.version(name), "everything")
    except importlib.metadata.PackageNotFoundError:
        return CheckResult(name, Level.BROKEN, "not installed", "everything", install_command())


def _driver_core() -> CheckResult:
    package = importlib.util.find_spec("fanin")
    folders = list(package.submodule_search_locations or []) if package else []
    built = [path for folder in folders if (path := Path(folder) / "libfanin.so").exists()]
    if not built:
        return CheckResult(
            "driver core", Level.BROKEN, "libfanin.so is not built", "programs on a fabric", install_command()
        )
    try:
        ctypes.CDLL(str(built[0]))
    except OSError as error:
        return CheckResult("driver core", Level.BROKEN, str(error), "programs on a fabric", install_command())
    return CheckResult("driver core", Level.OK, built[0].name, "programs on a fabric")


def _mpi() -> CheckResult:
    runner = shutil.which("mpiexec") or next((str(path) for path in PEERS_FOLDER.glob("*/bin/mpiexec")), None)
    enables = "programs with the MPI shim"
    if runner:
        return CheckResult("MPI", Level.OK, f"{name_of(runner)} {runner}".strip(), enables)
    return CheckResult("MPI", Level.MISSING, "no mpiexec", enables, f"{make_command('peers')} installs two into .bench")
