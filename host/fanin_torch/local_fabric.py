"""A NIC for the runs of one machine, where there is no other; settings from the environment, for programs that do not
know Fanin.

Rank 0 takes the NIC that an earlier run of the same user has left (`guard`), or starts one; the others connect to it.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from fanin.errors import FaninError, InvalidRequest, NoDevice
from fanin.job.description import REPRODUCIBLE, ROUTES
from fanin.verbs.context import device_status
from fanin_torch import guard
from fanin_torch.guard import GUARD, JOIN, LOG, NIC, READY_SECONDS, SAID_SECONDS, TAKE, TAKEN, end_of_log
from fanin_wire.limits import DEFAULT_JOB_SLOTS, MAX_JOB_SLOTS, MIN_JOB_SLOTS

BRING_UP = "fanin fabric up --nodes 1"
MAX_SOCKET_NAME = 107  # bytes of the name of a Unix socket
PREFIX = "fanin-torch-"
SUBGROUP_SHARE = 4  # groups other than the first ask for a quarter, as in the MPI shim
KEPT_SECONDS = 60
MESSAGES = ("auto", "nic")
ORDERS = {"rank": "run", "arrival": "none"}  # FANIN_ORDER -> reproducible


class LocalFabric:
    """One user's share of the NIC of a run, which may end when all have left or ended."""

    def __init__(self, folder: Path, membership: socket.socket) -> None:
        self.socket = str(folder / NIC)
        self._membership = membership  # closed by the system if this process ends before

    @classmethod
    def join(cls, store: Any, rank: int) -> Self:
        """Rank 0 takes or starts the NIC; all ranks call this."""
        if rank == 0:
            taken = _take()
            store.set("fanin/local", str(taken[0]) if taken else _start())
            if taken:
                return cls(*taken)
        try:
            store.wait(["fanin/local"], timedelta(seconds=READY_SECONDS))  # the store's own may be shorter
        except RuntimeError as late:
            remedy = f"See what rank 0 does, or bring a fabric up before the run: {BRING_UP}."
            raise NoDevice(f"rank 0 has started no NIC in {READY_SECONDS:g} s ({late})", remedy=remedy) from None
        answer = store.get("fanin/local").decode()
        folder = Path(answer)
        if not folder.is_absolute():
            raise NoDevice(answer, remedy=f"Correct that, or bring a fabric up before the run: {BRING_UP}.")
        membership = _ask(folder, JOIN)
        if membership is None:
            raise NoDevice("the NIC of this run has ended", remedy="Start the program again.")
        return cls(folder, membership)

    def leave(self) -> None:
        self._membership.close()


def _ask(folder: Path, what: bytes) -> socket.socket | None:
    """A connection that the guard of a folder has admitted."""
    connection = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        connection.settimeout(SAID_SECONDS)
        connection.connect(str(folder / GUARD))
        connection.send(what)
        if connection.recv(len(TAKEN)) == TAKEN:
            return connection
    connection.close()
    return None


def _take() -> tuple[Path, socket.socket] | None:
    """The NIC of an earlier run: its folder, and a connection to its guard."""
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp")):
        for folder in Path(parent).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError, FaninError):
                found = folder.lstat()  # another user may have made a link
                if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                    device_status(folder / NIC)
                    if (connection := _ask(folder, TAKE + _environment())) is not None:
                        return folder, connection
    return None


def _environment() -> bytes:
    """What a NIC shares with the runs that take it: code, settings, cores, network."""
    found = [importlib.util.find_spec(package) for package in ("fanin_nic", "fanin_wire")]
    code = [Path(path) for spec in found if spec is not None for path in spec.submodule_search_locations or ()]
    changed = max(file.stat().st_mtime_ns for path in code for file in path.rglob("*.py"))
    settings = sorted((name, value) for name, value in os.environ.items() if name.startswith("FANIN_"))
    place = [Path(f"/proc/self/ns/{kind}").stat().st_ino for kind in ("net", "pid")], sorted(os.sched_getaffinity(0))
    return hashlib.sha256(repr((sys.executable, code, changed, settings, place)).encode()).hexdigest().encode()


def _start() -> str:
    """The folder of a new NIC that answers; or why there is none."""
    folder = _new_folder()
    command = [sys.executable, "-P", guard.__file__, str(folder), _environment().decode(), str(kept_seconds())]
    with (folder / LOG).open("w") as log:
        keeper = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
        )
    assert keeper.stdout is not None
    with keeper.stdout as output:
        said = output.readline().strip()
    if said == "ready":
        return str(folder)
    if not said:
        said = f"the program that starts the NIC of this run ended with {keeper.wait()}: {end_of_log(folder)!r}"
    shutil.rmtree(folder, ignore_errors=True)
    return said


def _new_folder() -> Path:
    """In TMPDIR; in /tmp if the names of sockets would be too long."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if len(os.fsencode(folder / NIC)) <= MAX_SOCKET_NAME:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))


class Settings(NamedTuple):
    """Rank 0's route, reproducible and slots hold for the job of a group."""

    report: bool = False
    strict: bool = False
    route: str = "auto"
    reproducible: str = "run"
    slots: int = DEFAULT_JOB_SLOTS
    messages: str = "auto"

    @classmethod
    def from_environment(cls) -> Self:
        """FANIN_TORCH_REPORT, _STRICT, _REPRODUCIBLE, _SLOTS, _MESSAGES, _KEEP, FANIN_ORDER and FANIN_ROUTE.
        InvalidRequest names one that is wrong."""
        kept_seconds()
        order = ORDERS[_one_of("FANIN_ORDER", "rank", ORDERS)]
        return cls(
            report=os.environ.get("FANIN_TORCH_REPORT", "0") not in ("", "0"),
            strict=os.environ.get("FANIN_TORCH_STRICT", "0") not in ("", "0"),
            route=_one_of("FANIN_ROUTE", "auto", ROUTES),
            reproducible=_one_of("FANIN_TORCH_REPRODUCIBLE", order, REPRODUCIBLE),
            slots=_slots("FANIN_TORCH_SLOTS"),
            messages=_one_of("FANIN_TORCH_MESSAGES", "auto", MESSAGES),
        )


def kept_seconds() -> int:
    """FANIN_TORCH_KEEP: seconds that the NIC of a run stays for the next one. InvalidRequest if it is no number."""
    text = os.environ.get("FANIN_TORCH_KEEP") or str(KEPT_SECONDS)
    if not text.isdecimal() or len(text) > 6:
        raise InvalidRequest(f"FANIN_TORCH_KEEP is {text!r}", remedy="Set it to a number of seconds; 0: none.")
    return int(text)


def _one_of(name: str, default: str, allowed: Iterable[str]) -> str:
    value = os.environ.get(name) or default
    if value not in allowed:
        raise InvalidRequest(f"{name} is {value!r}", remedy=f"Set it to one of {', '.join(allowed)}, or not at all.")
    return value


def _slots(name: str) -> int:
    text = os.environ.get(name) or str(DEFAULT_JOB_SLOTS)
    slots = int(text) if text.isdecimal() and len(text) <= len(str(MAX_JOB_SLOTS)) else 0
    if not MIN_JOB_SLOTS <= slots <= MAX_JOB_SLOTS or slots & (slots - 1):
        remedy = f"Set it to a power of two from {MIN_JOB_SLOTS} to {MAX_JOB_SLOTS}."
        raise InvalidRequest(f"{name} is {text!r}", remedy=remedy)
    return slots
