"""The network of a fabric in namespaces, with a guest on the bridge of its switch.

Between NIC and guest are only the daemon's UDP socket, the host's kernel with a veth pair and a bridge, the emulator's
tap interface, and the guest's kernel with rxe. Loss is a rule of nftables at the bridge, which counts a super-packet as
one packet.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fanin_tools.fabric import device_query, namespaces
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.fields import UDP_PORT
from tests.rdma.machine.guest import Guest, Place, running
from tests.rdma.machine.image import Image
from tests.rdma.wire import MAX_ELAPSED_NS, Faults

TUN = Path("/dev/net/tun")
TAP = "tap0"
GUEST = "10.77.200.1"  # beside the devices of the fabric
TABLE = "faults"
LOSSLESS = Faults()


class NoTap(Exception):
    """A tap interface is impossible. The message names the missing part."""


class Daemons:
    def __init__(self, fabric: Running, guest: Guest) -> None:
        self.fabric, self.guest = fabric, guest
        self._faults = LOSSLESS
        self._now, self._last = 0, time.monotonic_ns()

    @property
    def faults(self) -> Faults:
        """Of the packets of RoCEv2, in each direction, without reordering and repetition."""
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        assert faults == Faults(loss=faults.loss)
        if self._faults != LOSSLESS:
            self._nft("delete", "table", "bridge", TABLE)
            self._faults = LOSSLESS
        if faults != LOSSLESS:
            share = f"numgen random mod 1000 < {int(1000 * faults.loss)}" if faults.loss < 1 else ""
            rule = f"udp dport {UDP_PORT} {share} counter drop"
            chain = f"chain forward {{\ntype filter hook forward priority 0\n{rule}\n}}"
            self._nft(f"table bridge {TABLE} {{\n{chain}\n}}")
            self._faults = faults

    def lost(self) -> int:
        """Packets lost by the current faults."""
        return int(self._nft("list", "table", "bridge", TABLE).partition("counter packets ")[2].split()[0])

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def _nft(self, *words: str) -> str:
        command = ["ip", "netns", "exec", switch_namespace(self.fabric), "nft", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    @property
    def now(self) -> int:
        """Time in ns, without pauses of this process."""
        time_now = time.monotonic_ns()
        self._now += min(time_now - self._last, 20 * MAX_ELAPSED_NS)
        self._last = time_now
        return self._now

    @property
    def socket(self) -> str:
        return str(self.fabric.state.socket(self.nic.name))

    @property
    def nic(self):
        return self.fabric.fabric.nics[0]

    def counters(self) -> dict[str, int]:
        return device_query.query_status(self.fabric.state.socket(self.nic.name))["counters"]

    def __str__(self) -> str:
        return str({name: value for name, value in self.counters().items() if value and "ordinary" in name})


def switch_namespace(fabric: Running) -> str:
    (switch,) = fabric.fabric.switches
    return namespaces.namespace(fabric.fabric, switch.host)


@contextmanager
def guest_beside(fabric: Running, image: Image) -> Iterator[Daemons]:
    """A guest on the bridge of the fabric's switch. Raises NoTap."""
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise NoTap(f"{TUN}, for the interface of the virtual machine")
    name = switch_namespace(fabric)
    mtu = str(fabric.fabric.mtu)
    for words in (
        ("tuntap", "add", "dev", TAP, "mode", "tap"),
        ("link", "set", TAP, "mtu", mtu, "master", namespaces.BRIDGE),
        ("link", "set", TAP, "up"),
    ):
        done = subprocess.run(["ip", "-n", name, *words], capture_output=True, text=True)
        if done.returncode:
            raise NoTap(f"a tap interface for the virtual machine (ip {' '.join(words)}: {done.stderr.strip()})")
    place = Place(["ip", "netns", "exec", name], TAP, f"{GUEST}/{namespaces.PREFIX_LENGTH}")
    with running(image, place) as guest:
        yield Daemons(fabric, guest)
