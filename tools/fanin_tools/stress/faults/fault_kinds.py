"""The kinds of faults of processes and links for rounds of real faults."""

import contextlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity, send_signal, wait_until_gone
from fanin_wire.fields import UDP_PORT

NODES = 3
DETECTION_SECONDS = 1.0
BRIEF_SECONDS = DETECTION_SECONDS / 5
LOSSES = (10, 50, 200)  # per mille
END_SECONDS = 10.0
POLL_SECONDS = 0.01
COMMAND_SECONDS = 20.0
HOOKS = {"arriving": "input", "leaving": "output"}  # hooks of nftables
TABLE = "fanin_loss"
Inject = Callable[[Running, Random], contextlib.AbstractContextManager[str | None]]


# Processes: devices of a fabric or ranks, killed or stopped for a time


def process_of(running: Running, device: str) -> ProcessIdentity:
    """Raises UsageError NO_DEVICE if none is recorded."""
    processes = running.state.processes()
    if device not in processes:
        names = ", ".join(processes)
        raise UsageError(f"fabric {running.fabric.name} has no daemon {device!r}", f"name one of {names}", "NO_DEVICE")
    return processes[device]


def kill(process: ProcessIdentity) -> None:
    """SIGKILL; waits until it is gone."""
    send_signal(process, signal.SIGKILL)
    _require_gone(process)


def kill_device(running: Running, device: str) -> None:
    kill(process_of(running, device))


def _require_gone(process: ProcessIdentity) -> None:
    if wait_until_gone([process], END_SECONDS):
        raise ToolError("TIMEOUT", f"process {process.pid} does not end", "see ps and the kernel's log")


@contextlib.contextmanager
def frozen(process: ProcessIdentity) -> Iterator[None]:
    """SIGSTOP for the time of the block."""
    send_signal(process, signal.SIGSTOP)
    try:
        _wait_until_stopped(process)
        yield
    finally:
        send_signal(process, signal.SIGCONT)


@contextlib.contextmanager
def frozen_device(running: Running, device: str) -> Iterator[None]:
    """SIGSTOP for the time of the block."""
    with frozen(process_of(running, device)):
        yield


def _wait_until_stopped(process: ProcessIdentity) -> None:
    """When the kernel shows the process as stopped, all its threads have the signal."""
    end = time.monotonic() + END_SECONDS
    while process.alive and _state(process) != "T":
        if time.monotonic() > end:
            raise ToolError("TIMEOUT", f"process {process.pid} can not be stopped", "see ps")
        time.sleep(POLL_SECONDS)


def _state(process: ProcessIdentity) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def open_descriptors(process: ProcessIdentity) -> int:
    return len(list(Path(f"/proc/{process.pid}/fd").iterdir()))


# Links of a fabric in namespaces: random loss of single packets, and links that go down


def inside(fabric: Fabric, host: str, *command: str, text: str | None = None) -> str:
    """The output of a command on a host. text: its input. Raises ToolError COMMAND_FAILED."""
    whole = [*namespaces.prefix_command(fabric, host), *command]
    done = subprocess.run(whole, capture_output=True, text=True, input=text, timeout=COMMAND_SECONDS)
    if done.returncode:
        cause = f"`{' '.join(whole)}` on {host}: {done.stderr.strip()}"
        raise ToolError("COMMAND_FAILED", cause, "see fanin doctor for what this machine can do")
    return done.stdout


def interfaces(fabric: Fabric, device: str) -> list[str]:
    ends = [(index, link) for index, link in enumerate(fabric.links) if device in link.ends]
    return [namespaces.interface(fabric, index, fabric.device(device)) for index, _ in ends]


def cut_super_packets(fabric: Fabric) -> None:
    """Single packets instead of super-packets, so that loss and capture are of one packet."""
    for device in fabric.devices:
        for name in interfaces(fabric, device.name):
            inside(fabric, device.host, "ip", "link", "set", "dev", name, "gso_max_segs", "1")


def require_loss(fabric: Fabric) -> None:
    """Raise ToolError NOT_SUPPORTED unless this machine can lose packets of `fabric`."""
    if shutil.which("nft") is None:
        raise ToolError("NOT_SUPPORTED", "loss needs the command nft", "install nftables")
    if not fabric.netns:
        raise ToolError("NOT_SUPPORTED", f"fabric {fabric.name} has no links", "bring it up with --netns")


@contextlib.contextmanager
def loss(
    fabric: Fabric, per_mille: int, direction: str = "arriving", hosts: Sequence[str] | None = None
) -> Iterator[None]:
    """Lose RoCEv2 packets at random for the time of the block.

    fabric: in namespaces. per_mille: of packets that are lost. direction: "arriving" or "leaving", as the hosts see it.
    hosts: names; None: all.
    """
    require_loss(fabric)
    places = list(hosts) if hosts is not None else [device.host for device in fabric.daemons]
    with contextlib.ExitStack() as undo:  # undoes all changes, even if one fails
        for host in places:
            undo.callback(inside, fabric, host, "nft", "-f", "-", text=f"table ip {TABLE}\ndelete table ip {TABLE}\n")
            inside(fabric, host, "nft", "-f", "-", text=_ruleset(per_mille, HOOKS[direction]))
        yield


def _ruleset(per_mille: int, hook: str) -> str:
    rule = f"udp dport {UDP_PORT} numgen random mod 1000 < {per_mille} counter drop"
    return f"table ip {TABLE} {{\nchain losing {{\ntype filter hook {hook} priority 0;\n{rule}\n}}\n}}\n"


def lost(fabric: Fabric, hosts: Sequence[str] | None = None) -> int:
    """Packets that `loss` has dropped; called within its block."""
    places = list(hosts) if hosts is not None else [device.host for device in fabric.daemons]
    return sum(_dropped(inside(fabric, host, "nft", "--json", "list", "table", "ip", TABLE)) for host in places)


def _dropped(listing: str) -> int:
    rules = [entry["rule"]["expr"] for entry in json.loads(listing)["nftables"] if "rule" in entry]
    return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


@contextlib.contextmanager
def link_down(fabric: Fabric, device: str) -> Iterator[None]:
    """Take a device's links down for the time of the block. Direct links would lose their routes."""
    if not fabric.netns or not fabric.switches:
        cause = f"fabric {fabric.name} has no links to a switch"
        raise ToolError("NOT_SUPPORTED", cause, "bring it up with --netns, and without --direct")
    host = fabric.device(device).host
    with contextlib.ExitStack() as undo:
        for name in interfaces(fabric, device):
            undo.callback(inside, fabric, host, "ip", "link", "set", "dev", name, "up")
            inside(fabric, host, "ip", "link", "set", "dev", name, "down")
        yield


# The kinds


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    inject_on: injects it into a device or a link for the time of a block, whose value is the device that it kills, or
    None; None for faults of ranks. is_of_link: happens to a link. loses: loses packets. kills: ends a process. is_long:
    lasts longer than the detection time.
    """

    name: str
    inject_on: Inject | None = None
    is_of_link: bool = False
    loses: bool = False
    kills: bool = False
    is_long: bool = False

    @property
    def is_fatal(self) -> bool:
        """Whether members may be lost. After other faults all results must be right."""
        return self.kills or self.is_long

    def inject(self, running: Running, random: Random) -> contextlib.AbstractContextManager[str | None]:
        """Into a device or a link for the time of the block, whose value is the device that it kills."""
        assert self.inject_on is not None
        return self.inject_on(running, random)


def is_of_rank(kind: FaultKind) -> bool:
    """A rank is killed or stopped."""
    return kind.inject_on is None


@contextlib.contextmanager
def _killed(running: Running, device: str) -> Iterator[str]:
    kill_device(running, device)
    yield device


@contextlib.contextmanager
def _frozen_for_long(running: Running, device: str) -> Iterator[None]:
    with frozen_device(running, device):
        time.sleep(3 * DETECTION_SECONDS)
        yield


def _nic(random: Random) -> str:
    return f"nic{random.randrange(NODES)}"


KINDS = (
    FaultKind("NIC killed", lambda running, random: _killed(running, _nic(random)), kills=True),
    FaultKind("switch killed", lambda running, random: _killed(running, "switch"), kills=True),
    FaultKind("NIC stopped briefly", lambda running, random: frozen_device(running, _nic(random))),
    FaultKind("switch stopped briefly", lambda running, random: frozen_device(running, "switch")),
    FaultKind("NIC stopped for long", lambda running, random: _frozen_for_long(running, _nic(random)), is_long=True),
    FaultKind("rank killed", kills=True),
    FaultKind("rank stopped"),
    FaultKind(
        "packets lost", lambda running, random: loss(running.fabric, random.choice(LOSSES)), is_of_link=True, loses=True
    ),
    FaultKind("link down briefly", lambda running, random: link_down(running.fabric, _nic(random)), is_of_link=True),
)
