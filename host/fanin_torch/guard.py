"""The program that keeps a NIC for the ranks of one machine: python guard.py FOLDER ENVIRONMENT KEEP.

Rank 0 of a run starts it. It starts the NIC, says "ready", and listens at a socket in the folder; each rank connects
and stays connected. The NIC ends with this program, even by SIGKILL, and KEEP seconds after the last rank, so the death
of rank 0 does not take the device from the others. Until then the next run may take it, if it has the same ENVIRONMENT.
It is a file of its own, since a module of its package would load torch.
"""

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
import time
from collections.abc import Callable
from pathlib import Path

from fanin.errors import FaninError
from fanin.verbs.context import device_status

READY_SECONDS = 180.0  # the first NIC of a machine compiles its code
FIRST_RANK_SECONDS = 60.0
SAID_SECONDS = 10.0  # for a new connection to say what it wants
TRIES = 16  # of addresses
GUARD, NIC, LOG = "guard", "nic0.sock", "nic.log"
JOIN, TAKE, TAKEN = b"join", b"take ", b"taken"  # from a rank of the run, from rank 0 of the next run, the answer
PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def end_of_log(folder: Path) -> str:
    """The last output of the program and its NIC."""
    return (folder / LOG).read_text()[-500:] if (folder / LOG).exists() else ""


def main() -> None:
    folder, environment, keep = Path(sys.argv[1]), sys.argv[2].encode(), float(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the ranks
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / GUARD))
        listener.listen(128)
        nic = None
        try:
            nic = _start_nic(folder)
            if nic is not None:
                os.chdir("/")  # not before: settings may have relative paths
                print("ready", flush=True)
                serve(listener, nic, environment, keep)
        finally:
            if nic is not None:
                nic.terminate()
                nic.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _start_nic(folder: Path) -> subprocess.Popen[bytes] | None:
    """A NIC that answers, at an unused loopback address; else None, and a printed line says why."""
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
        print(f"no NIC could be started: {end_of_log(folder)!r}", flush=True)
    return None


def _ending_with_this_process() -> Callable[[], None]:
    """For Popen's preexec_fn: the system ends the child when this process, of one thread, has ended."""
    prctl, this = ctypes.CDLL(None).prctl, os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)  # what it starts to compile its code ends with it
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != this:  # it has ended before
            os._exit(1)

    return prepare


def _answers(nic: subprocess.Popen[bytes], path: Path, end: float) -> bool:
    """Whether the NIC answers before `end` (monotonic clock); else it has been ended."""
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
    """Whether rank 0, which reads this program's output, has ended."""
    waiting = select.poll()
    waiting.register(sys.stdout, 0)  # for its errors alone
    return bool(waiting.poll(0))


def serve(listener: socket.socket, nic: subprocess.Popen[bytes], environment: bytes, keep: float) -> None:
    """Serve until no run wants the NIC, or it has ended."""
    nic_end = os.pidfd_open(nic.pid)
    ranks: set[socket.socket] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(nic_end, selectors.EVENT_READ)
        had_ranks, end = False, time.monotonic() + FIRST_RANK_SECONDS
        while events := selector.select(None if ranks else max(0.0, end - time.monotonic())):
            for key, _ in events:
                if key.fileobj is listener:
                    rank = admitted(listener, environment, bool(ranks) or not had_ranks)
                    if rank is not None:
                        ranks.add(rank)
                        had_ranks = True
                        selector.register(rank, selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    selector.unregister(key.fileobj)
                    ranks.discard(key.fileobj)
                    key.fileobj.close()
                    end = time.monotonic() + keep
                else:
                    return


def admitted(listener: socket.socket, environment: bytes, is_busy: bool) -> socket.socket | None:
    """The next connection that may use the NIC; it must say at once who it is."""
    rank, _ = listener.accept()
    rank.settimeout(SAID_SECONDS)
    try:
        said = rank.recv(256)
        if said == JOIN or (not is_busy and said == TAKE + environment):
            rank.send(TAKEN)
            return rank
    except OSError:
        pass
    rank.close()
    return None


if __name__ == "__main__":
    main()
