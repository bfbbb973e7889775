"""The network of a fabric: loopback addresses, or a namespace for each host and a veth pair for each cable.

A command reserves a block of loopback addresses: until its devices have bound their own, it binds UDP port 4791 at the
block's first address, which no device uses. The kernel gives a port to one process only, across all users, and frees it
if the process crashes.

A switch's bridge has the switch's address and forwards all other packets; a plain switch's has none. So every host
reaches every other over the cables of the tree. On direct links a device's address is on `lo`, and a host route over
each cable leads to the neighbour; other hosts are unreachable.
"""

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fanin_tools.errors import ToolError
from fanin_tools.fabric import state
from fanin_tools.fabric.description import Device, Fabric, Link
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.processes import ProcessIdentity, terminate
from fanin_tools.progress import ProgressCallback, activity
from fanin_wire.fields import UDP_PORT

FIRST_BLOCK = 77
PREFIX_LENGTH = 16
NAMESPACES = Path("/run/netns")  # where `ip netns` keeps them
CLONE_NEWNET = 0x40000000  # include/uapi/linux/sched.h
BRIDGE = "br0"
TERMINATE_SECONDS = 5.0
# A smaller bucket would not reach 1 Gbit/s. 50 ms of queue are 6 MB at that rate, more than a window.
SHAPING = ("burst", "256kb", "latency", "50ms")


# Free loopback addresses, different for commands that choose at the same time


@contextlib.contextmanager
def reserved_addresses(plan: Plan) -> Iterator[Fabric]:
    """`plan` with the first free addresses of 127.77.0.0/16, reserved for the time of the block. Raises ToolError
    NO_RESOURCES if none are free."""
    for third in range(256):
        fabric = plan.at(f"127.{FIRST_BLOCK}.{third}")
        with contextlib.ExitStack() as held:
            if _reserve(fabric, held):
                yield fabric
                return
    raise ToolError(
        "NO_RESOURCES",
        f"UDP port {UDP_PORT} is taken on all of 127.{FIRST_BLOCK}.0.0/16",
        "take other fabrics down (fanin fabric status) or give addresses in a description file",
    )


def _reserve(fabric: Fabric, held: contextlib.ExitStack) -> bool:
    """Until `held` is closed. False if a block or an address is in use."""
    addresses = [device.address for device in fabric.daemons]
    blocks = dict.fromkeys(address.rpartition(".")[0] for address in addresses)
    if not all(bind(f"{block}.0", held) for block in blocks):
        return False
    with contextlib.ExitStack() as tried:
        return all(bind(address, tried) for address in addresses)


def bind(address: str, stack: contextlib.ExitStack) -> bool:
    """Bind the RoCEv2 port of an address until `stack` is closed. False if it is in use."""
    port = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    try:
        port.bind((address, UDP_PORT))
    except OSError:
        return False
    return True


# Namespaces


def namespace(fabric: Fabric, host: str) -> str:
    """A host's namespace. The name has a tag of the state folder: the machine has one list of namespaces, and several
    state folders may have fabrics of one name."""
    return "-".join(["fanin", fabric.name, host, *state.tag()])


def prefix_command(fabric: Fabric, host: str) -> list[str]:
    """The words that run a command on `host`; none on loopback."""
    return ["ip", "netns", "exec", namespace(fabric, host)] if fabric.netns else []


def enter(name: str) -> None:
    """Move the calling thread and its future children to a network namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(NAMESPACES / name) as handle:
        if libc.setns(handle.fileno(), CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)


def are_allowed() -> bool:
    """Whether this user may create namespaces."""
    try:
        require()
    except ToolError:
        return False
    return True


def require() -> None:
    """Raise ToolError unless this user may create namespaces; root in a container often may not, so one is created."""
    if os.geteuid() != 0:
        raise ToolError("PERMISSION_DENIED", "namespaces need root", "run as root, or leave out --netns")
    if shutil.which("ip") is None or shutil.which("tc") is None:
        cause = "namespaces need the commands ip and tc"
        raise ToolError("NOT_SUPPORTED", cause, "install iproute2, or leave out --netns")
    name = f"fanin-{os.getpid()}"  # unlike a fabric's, which has a host after a second hyphen
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)  # a part of it may exist
        cause = f"this machine does not allow namespaces: {tried.stderr.strip()}"
        raise ToolError("PERMISSION_DENIED", cause, "allow CAP_SYS_ADMIN here, or leave out --netns")
    _run(["ip", "netns", "delete", name])


def require_absent(fabric: Fabric) -> None:
    """Raise ToolError FABRIC_DIFFERS if a namespace of the fabric exists: another program may use it."""
    names = {namespace(fabric, device.host) for device in fabric.devices}
    if present := sorted(names & existing()):
        cause = f"network {fabric.name} exists already: {', '.join(present)}"
        remedy = f"choose another --name, or remove it: fanin fabric down --name {fabric.name}, else ip netns delete"
        raise ToolError("FABRIC_DIFFERS", cause, remedy)


def build(fabric: Fabric, progress: ProgressCallback) -> None:
    """Create namespaces, links, addresses and routes, after `require` and `require_absent`."""
    steps = list(commands(fabric))
    with activity("building the network", progress, total=len(steps)) as building:
        for done, command in enumerate(steps, start=1):
            _run(command)
            building.update(done)


def remove(fabric: Fabric) -> None:
    """End the processes in the fabric's namespaces, and delete these."""
    present = existing()
    for device in fabric.devices:
        name = namespace(fabric, device.host)
        if name in present:
            terminate(_processes_in(name), TERMINATE_SECONDS)
            _run(["ip", "netns", "delete", name])


def _processes_in(name: str) -> list[ProcessIdentity]:
    """Devices that a crash left without a record, and ranks."""
    found = []
    for word in _run(["ip", "netns", "pids", name]).split():
        with contextlib.suppress(ProcessLookupError):
            found.append(ProcessIdentity.of(int(word)))
    return found


def existing() -> set[str]:
    if shutil.which("ip") is None:
        return set()
    return {line.split()[0] for line in _run(["ip", "netns", "list"]).splitlines() if line}


# Links


def commands(fabric: Fabric) -> Iterator[list[str]]:
    """The commands that build the network of `fabric`, in order."""
    for device in fabric.devices:
        yield ["ip", "netns", "add", namespace(fabric, device.host)]
        yield _ip(fabric, device, "link", "set", "lo", "up")
    for switch in fabric.switches:
        yield from _bridge(fabric, switch)
    for index, link in enumerate(fabric.links):
        yield from _cable(fabric, index, link)
    if not fabric.switches:
        yield from _direct_routes(fabric)


def _bridge(fabric: Fabric, switch: Device) -> Iterator[list[str]]:
    yield _ip(fabric, switch, "link", "add", BRIDGE, "type", "bridge")
    yield _ip(fabric, switch, "link", "set", BRIDGE, "mtu", str(fabric.mtu), "up")
    if switch.address:
        yield _ip(fabric, switch, "address", "add", f"{switch.address}/{PREFIX_LENGTH}", "dev", BRIDGE)


def _cable(fabric: Fabric, index: int, link: Link) -> Iterator[list[str]]:
    """Commands for a veth pair. Each end is created in its namespace, so no name appears on the machine's network."""
    ends = [fabric.device(name) for name in link.ends]
    names = [interface(fabric, index, end) for end in ends]
    peer = ["peer", "name", names[1], "netns", namespace(fabric, ends[1].host)]
    yield _ip(fabric, ends[0], "link", "add", names[0], "type", "veth", *peer)
    for end, name in zip(ends, names, strict=True):
        yield _ip(fabric, end, "link", "set", name, "mtu", str(fabric.mtu), "up")
        if end.kind == "switch":
            yield _ip(fabric, end, "link", "set", name, "master", BRIDGE)
        elif fabric.switches:
            yield _ip(fabric, end, "address", "add", f"{end.address}/{PREFIX_LENGTH}", "dev", name)
        if link.rate:
            shaper = ["dev", name, "root", "tbf", "rate", link.rate, *SHAPING]
            yield ["tc", "-n", namespace(fabric, end.host), "qdisc", "add", *shaper]


def interface(fabric: Fabric, index: int, end: Device) -> str:
    """Name of one end of link `index`: eth0 on a host below a switch, else named after the link."""
    return "eth0" if end.kind == "nic" and fabric.switches else f"link{index}"


def _direct_routes(fabric: Fabric) -> Iterator[list[str]]:
    for nic in fabric.nics:
        yield _ip(fabric, nic, "address", "add", f"{nic.address}/32", "dev", "lo")
    for index, link in enumerate(fabric.links):
        first, second = (fabric.device(name) for name in link.ends)
        for here, there in ((first, second), (second, first)):
            via = ["dev", interface(fabric, index, here), "src", here.address]
            yield _ip(fabric, here, "route", "add", f"{there.address}/32", *via)


def _ip(fabric: Fabric, device: Device, *words: str) -> list[str]:
    return ["ip", "-n", namespace(fabric, device.host), *words]


def _run(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        cause = f"`{' '.join(command)}` failed: {result.stderr.strip()}"
        raise ToolError("PERMISSION_DENIED", cause, "check that this machine allows namespaces (fanin doctor)")
    return result.stdout
