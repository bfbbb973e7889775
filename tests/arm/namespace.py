"""Programs for arm64 on another processor: private namespaces of users, mounts, PIDs and networks, and qemu-user.

The file system binfmt_misc gives the kernel an interpreter for a kind of program. Each user namespace can have its own
(Linux 6.7), so nothing of the host changes, and all ends with the first process.

`python -m tests.arm.namespace ROOT.json COMMAND...` is that process: see `command_in`.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x2_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000  # sched.h
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000  # linux/mount.h
PR_SET_PDEATHSIG = 1  # linux/prctl.h
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
BINFMT = "/proc/sys/fs/binfmt_misc"
# The start of a 64-bit little-endian ELF file for AArch64, and its significant bits: not the ABI, and both kinds of
# executable.
MAGIC = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00"
MASK = b"\xff" * 7 + b"\x00" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
MODULE = "tests.arm.namespace"
CHECKOUT = Path(__file__).parents[2]
FAILED = 125  # exit code where the namespace can not be made

libc = ctypes.CDLL(None, use_errno=True)


class Root(NamedTuple):
    """A root file system for arm64, the emulator (linked statically), and folders of the host, at the same paths."""

    folder: str
    emulator: str
    shared: list[str]


def registration(emulator: str) -> bytes:
    """The line for binfmt_misc. P passes the program's own name; F opens the emulator now, for other roots as well."""
    magic, mask = (b"".join(b"\\x%02x" % byte for byte in text) for text in (MAGIC, MASK))
    return b":qemu-aarch64:M::" + magic + b":" + mask + b":" + os.fsencode(emulator) + b":PF"


def command_in(root: Root, description: Path, command: Sequence[str], *, emulated: bool = True) -> list[str]:
    """The command that runs another one in such a namespace. It ends with that one's exit code, or with FAILED.

    Args:
        root: written to the file `description`.
        command: a program of the root with its arguments; a program of the host if not `emulated`.
    """
    description.write_text(json.dumps(root._asdict()))
    where = "emulated" if emulated else "host"
    return [sys.executable, "-m", MODULE, str(description), where, *command]


def enter(root: str) -> None:
    """Let this process of the host in the namespace see the root: later programs are emulated. Its folder must be below
    a shared one, and stays."""
    here = os.getcwd()
    os.chroot(root)
    os.chdir(here)


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int = 0) -> None:
    names = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    _check(libc.mount(*names, ctypes.c_ulong(flags), None), f"mount {target}")


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack_from("16sh", answer)[1] | IFF_UP
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags))


def _furnish(root: Root) -> None:
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc")
    _mount("none", BINFMT, "binfmt_misc")
    Path(BINFMT, "register").write_bytes(registration(root.emulator))
    _mount("none", f"{root.folder}/tmp", "tmpfs")
    for folder in ("/dev", "/proc", *root.shared):
        target = root.folder + folder
        os.makedirs(target, exist_ok=True)
        _mount(folder, target, None, MS_BIND | MS_REC)
    _loopback_up()


def _map_identities(process: int) -> None:
    """All identities of the host for root; else only its own."""
    if os.getuid() == 0:
        users = groups = "0 0 65536"
    else:
        users, groups = f"0 {os.getuid()} 1", f"0 {os.getgid()} 1"
        Path(f"/proc/{process}/setgroups").write_text("deny")
    Path(f"/proc/{process}/uid_map").write_text(users)
    Path(f"/proc/{process}/gid_map").write_text(groups)


def _first_process(root: Root, where: str, command: Sequence[str]) -> None:
    _check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    _furnish(root)
    if where == "emulated":
        enter(root.folder)
    os.execvp(command[0], command)


def main() -> int:
    description, where, *command = sys.argv[1:]
    root = Root(**json.loads(Path(description).read_text()))
    unshared, mapped = os.pipe(), os.pipe()
    maker = os.fork()
    if maker == 0:
        try:
            _check(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
            _check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET), "unshare")
            os.write(unshared[1], b"\0")
            os.read(mapped[0], 1)
            first = os.fork()
            if first == 0:
                _first_process(root, where, command)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 0xFF)
        except OSError as error:
            print(
                f"a namespace for programs of arm64 ({error}); Linux 6.7, and leave to make user namespaces",
                file=sys.stderr,
                flush=True,
            )
            os._exit(FAILED)
    os.close(unshared[1])
    if os.read(unshared[0], 1):
        _map_identities(maker)
        os.write(mapped[1], b"\0")
    return os.waitstatus_to_exitcode(os.waitpid(maker, 0)[1]) & 0xFF


if __name__ == "__main__":
    sys.exit(main())
