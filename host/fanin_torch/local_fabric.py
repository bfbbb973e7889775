"""A NIC for one run, where the ranks are on one machine and nothing else is there.

Rank 0 starts this file as a program, which starts the NIC and listens at a socket of its own. (As a module of its
package it would load torch.) Each rank connects there and stays connected. The NIC ends when the last of them has
ended, however it did: so the death of rank 0 is the loss of a rank to the others, and not of their device. It ends also
when the program has ended, by SIGKILL too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from fanin.errors import FaninError, NoDevice
from fanin.verbs.context import device_status

READY_SECONDS = 180.0  # the first NIC of a machine compiles its code
FIRST_RANK_SECONDS = 60.0
BRING_UP = "fanin fabric up --nodes 1"
TRIES = 16  # of addresses
LONGEST_SOCKET = 107  # bytes of the name of a Unix socket
GUARD, NIC, LOG = "guard", "nic0.sock", "nic.log"
PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


class LocalFabric:
    """The NIC of a run, as one of those who use it. It ends when all of them have left or ended."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / NIC)
        self._membership = socket.socket(socket.AF_UNIX)  # closed by the system if this process ends before
        try:
            self._membership.connect(str(folder / GUARD))
        except OSError as error:
            self._membership.close()
            raise NoDevice(f"the NIC of this run has ended: {error}", remedy="Start the program again.") from None

    @classmethod
    def join(cls, store: Any, rank: int) -> Self:
        """Rank 0 starts the NIC; all ranks call this."""
        if rank == 0:
            store.set("fanin/local", _start())
        try:
            store.wait(["fanin/local"], timedelta(seconds=READY_SECONDS))  # the time of the store itself may be shorter
        except RuntimeError as late:
            remedy = f"See what rank 0 does, or bring a fabric up before the run: {BRING_UP}."
            raise NoDevice(f"rank 0 has started no NIC in {READY_SECONDS:g} s ({late})", remedy=remedy) from None
        answer = store.get("fanin/local").decode()
        folder = Path(answer)
        if not folder.is_absolute():
            raise NoDevice(answer, remedy=f"Correct that, or bring a fabric up before the run: {BRING_UP}.")
        return cls(folder)

    def leave(self) -> None:
        """This process needs it no more."""
        self._membership.close()


def _start() -> str:
    """The folder of a new NIC that answers; or why there is none."""
    folder = _new_folder()
    command = [sys.executable, "-P", __file__, str(folder)]
    with (folder / LOG).open("w") as log:
        guard = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
        )
    assert guard.stdout is not None
    with guard.stdout as output:
        said = output.readline().strip()
    if said == "ready":
        return str(folder)
    if not said:
        said = f"the program that starts the NIC of this run ended with {guard.wait()}: {_end_of_log(folder)!r}"
    shutil.rmtree(folder, ignore_errors=True)
    return said


def _new_folder() -> Path:
    """In TMPDIR, or in /tmp where the names of sockets would be too long."""
    folder = Path(tempfile.mkdtemp(prefix="fanin-torch-"))
    if len(os.fsencode(folder / NIC)) <= LONGEST_SOCKET:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="fanin-torch-", dir="/tmp"))


def _end_of_log(folder: Path) -> str:
    return (folder / LOG).read_text()[-500:] if (folder / LOG).exists() else ""


def main() -> None:
    """Entry point of the program: NIC and socket in the folder that is named, until all ranks have ended."""
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: for the ranks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / GUARD))
        listener.listen(128)
        nic = None
        try:
            nic = _start_nic(folder)
            if nic is not None:
                print("ready", flush=True)
                _serve(listener, nic)
        finally:
            if nic is not None:
                nic.terminate()
                nic.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _start_nic(folder: Path) -> subprocess.Popen[bytes] | None:
    """A NIC that answers, at a loopback address that nobody uses; None, and a line that says why, if there is none."""
    program = Path(sysconfig.get_path("scripts")) / "fanin-nic"
    found = str(program) if program.exists() else shutil.which("fanin-nic")
    if found is None:
        print("the program fanin-nic is not on the PATH", flush=True)
        return None
    end_with_this, end = _ending_with_this_process(), time.monotonic() + READY_SECONDS
    for _ in range(TRIES):
        address = f"127.78.{random.randrange(256)}.{random.randrange(1, 255)}"
        command = [found, "--name", "torch", "--address", address, "--socket", str(folder / NIC)]
        nic = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=end_with_this)
        if _answers(nic, folder / NIC, end):
            return nic
        if _is_unwanted() or time.monotonic() > end:
            break
    if not _is_unwanted():
        print(f"no NIC could be started: {_end_of_log(folder)!r}", flush=True)
    return None


def _ending_with_this_process() -> Callable[[], None]:
    """For preexec_fn of Popen: the system ends the process when this one, which has one thread, has ended."""
    prctl, this = ctypes.CDLL(None).prctl, os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)  # what it starts to compile its code ends with it
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != this:  # it has ended before
            os._exit(1)

    return prepare


def _answers(nic: subprocess.Popen[bytes], path: Path, end: float) -> bool:
    """Whether the NIC does until `end`, by the monotonic clock. It has ended if not."""
    while nic.poll() is None and time.monotonic() < end and not _is_unwanted():
        with contextlib.suppress(FaninError):
            device_status(path)
            return True
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(nic.pid, signal.SIGKILL)
    nic.wait()
    return False


def _is_unwanted() -> bool:
    """Whether rank 0 has ended, which reads what this program says."""
    waiting = select.poll()
    waiting.register(sys.stdout, 0)  # for its errors alone
    return bool(waiting.poll(0))


def _serve(listener: socket.socket, nic: subprocess.Popen[bytes]) -> None:
    """Until all who have come have gone, or the NIC has ended."""
    nic_end = os.pidfd_open(nic.pid)
    ranks: set[socket.socket] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(nic_end, selectors.EVENT_READ)
        patience: float | None = FIRST_RANK_SECONDS
        while events := selector.select(patience):
            for key, _ in events:
                if key.fileobj is listener:
                    rank, _ = listener.accept()
                    ranks.add(rank)
                    selector.register(rank, selectors.EVENT_READ)
                    patience = None
                elif isinstance(key.fileobj, socket.socket):
                    selector.unregister(key.fileobj)
                    ranks.discard(key.fileobj)
                    key.fileobj.close()
                else:
                    return
            if not ranks and patience is None:
                return


if __name__ == "__main__":
    main()
