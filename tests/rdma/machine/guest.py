"""The virtual machine as a process, with a channel to the agent in it and the network as frames.

Network and channel are inherited sockets to this process: no files, no addresses to collide, and the emulator needs no
rights. Always TCG: an existing `/dev/kvm` may not be able to run a kernel of Debian.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .image import Image, with_agent

MEMORY = "768M"
MEMORY_WITH_FILES = "3G"  # for programs of this machine
BOOT_SECONDS = 1800  # a bound; an idle machine needs 10
CALL_SECONDS = 120
TAIL_LINES = 30
BUFFER = 1 << 22
PR_SET_PDEATHSIG = 1
ADDRESS, PEER_ADDRESS = "10.0.0.1/24", "10.0.0.2/24"
FILES = (
    *("-fsdev", "local,id=files,path=/,security_model=none,readonly=on,multidevs=remap"),
    *("-device", "virtio-9p-pci,fsdev=files,mount_tag=files"),
)
MAC, PEER_MAC = "52:54:00:00:00:01", "52:54:00:00:00:02"
_libc = ctypes.CDLL(None)


class GuestFailed(Exception):
    """The guest does not answer, or has ended. The message has the end of its console."""


class CallFailed(Exception):
    """The agent failed a call: the message is its error."""


class Place(NamedTuple):
    """A network of the host with a guest. prefix: words before a command that runs there."""

    prefix: Sequence[str]
    tap: str  # its interface of the guest
    address: str  # of the guest, with the length of its network's prefix

    @property
    def device(self) -> str:
        return f"tap,id=wire,ifname={self.tap},script=no,downscript=no"


class Guest:
    """A running guest. `frames` is its network: a stream of frames, each after its length in 4 bytes.

    serve: runs while a call waits, above all the wire; it may block for up to the given seconds, until one of the given
    file descriptors can be read.
    place: its network on the host, if any.
    peer: the guest at the other end of its network, which is then a link of the two.
    with_files: the guest has a read-only view of this machine's files in its folder `/machine`.
    """

    def __init__(
        self,
        image: Image,
        folder: Path,
        place: Place | None = None,
        *,
        peer: Guest | None = None,
        with_files: bool = False,
    ) -> None:
        address, mac = (PEER_ADDRESS, PEER_MAC) if peer else (ADDRESS, MAC)
        interface = place.address if place else address
        self.address = interface.partition("/")[0]
        self.console = folder / "console.log"
        self.serve: Callable[[float, Sequence[int]], None] = wait_only
        file_system = folder / "file-system"
        file_system.write_bytes(with_agent(image.file_system.read_bytes()))
        self.frames, its_frames = (peer.frames, peer.frames.dup()) if peer else socket.socketpair()
        self._channel, its_channel = socket.socketpair()
        for end in (self.frames, its_frames):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        with open(self.console, "wb") as console, its_frames, its_channel:
            command = [
                *(place.prefix if place else ()),
                *(str(image.emulator), *image.emulator_options),
                *("-accel", "tcg,thread=multi", "-smp", "2", *image.processor.options),
                *("-m", MEMORY_WITH_FILES if with_files else MEMORY),
                *(FILES if with_files else ()),
                *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"),
                *("-kernel", str(image.kernel), "-initrd", str(file_system)),
                *("-append", f"{image.processor.console} quiet panic=-1 net.ifnames=0 fanin.address={interface}"),
                *("-netdev", place.device if place else f"socket,id=wire,fd={its_frames.fileno()}"),
                *("-device", f"virtio-net-pci,netdev=wire,mac={mac},romfile="),
                *("-chardev", f"socket,id=agent,fd={its_channel.fileno()}"),
                *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=agent"),
                *("-device", "virtio-rng-pci"),
            ]
            self._process = subprocess.Popen(
                command,
                env=os.environ | image.environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                pass_fds=(its_frames.fileno(), its_channel.fileno()),
                preexec_fn=die_with_parent,
            )
        self.frames.setblocking(False)
        self._channel.setblocking(False)
        self._received = b""
        self.is_whole = True

    def boot(self) -> None:
        """Wait until the agent is ready. Raises GuestFailed or CallFailed."""
        self._answer("start", BOOT_SECONDS)

    def kill(self) -> None:
        """End the guest without a word."""
        self.is_whole = False
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def call(self, name: str, *, within: float = CALL_SECONDS, **arguments: Any) -> Any:
        """Call the agent; the wire goes on meanwhile. Returns the result.

        Raises CallFailed for an error of the agent, GuestFailed without an answer in so many seconds or if the guest
        has ended.
        """
        rest = json.dumps({"call": name, "arguments": arguments}).encode() + b"\n"
        end = time.monotonic() + within
        while rest:
            try:
                rest = rest[self._channel.send(rest) :]
            except BlockingIOError:
                self._check(name, end, within)
                self.serve(0.01, ())
            except OSError as error:
                raise self.failure(f"could not be told to {name}: {error}") from error
        return self._answer(name, within)

    def fill(self, region: int, offset: int, data: bytes) -> None:
        self.call("fill", region=region, offset=offset, data=base64.b64encode(data).decode())

    def bytes(self, region: int, offset: int, length: int) -> bytes:
        return base64.b64decode(self.call("bytes", region=region, offset=offset, length=length))

    def _answer(self, name: str, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while b"\n" not in self._received:
            self._check(name, end, seconds)
            self.serve(0.25, [self._channel.fileno()])
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                self._received += self._channel.recv(1 << 20)
        line, _, self._received = self._received.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise CallFailed(f"{name}: {answer['error']}")
        return answer["result"]

    def _check(self, name: str, end: float, seconds: float) -> None:
        if not self.is_running:
            raise self.failure(f"has ended with {self._process.returncode} during {name}")
        if time.monotonic() > end:
            raise self.failure(f"did not answer to {name} in {seconds:.0f} s")

    def failure(self, what: str) -> GuestFailed:
        """An error with the end of the guest's console. The guest is unusable then."""
        self.is_whole = False
        lines = self.console.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return GuestFailed("\n".join([f"the guest {what}; the end of its console:", *lines]))

    def stop(self) -> None:
        self.kill()
        self.frames.close()
        self._channel.close()


def wait_only(seconds: float, descriptors: Sequence[int]) -> None:
    """The wait of a guest without a network."""
    select.select(descriptors, [], [], seconds)


def die_with_parent() -> None:
    """In the child: the kernel ends it with the process of the test, however that ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def running(image: Image, place: Place | None = None, *, peer: Guest | None = None, with_files: bool = False):
    """A guest, stopped afterwards. place, peer, with_files: see `Guest`."""
    with tempfile.TemporaryDirectory(prefix="fanin-rdma-") as folder:
        guest = Guest(image, Path(folder), place, peer=peer, with_files=with_files)
        try:
            guest.boot()
            yield guest
        finally:
            guest.stop()
