"""What every target offers: datagrams from addresses of the tester to the device, and back."""

from typing import NamedTuple, Protocol

from fanin_conform.agents.agent import Agent


class Frame(NamedTuple):
    """A datagram from the device: `data` has the BTH to the ICRC."""

    destination: str
    source: str
    source_port: int
    data: bytes


class Uncontrolled:
    """A device to which the suite can do nothing but send packets."""

    controls: frozenset[str] = frozenset()

    def drain(self) -> None:
        """No script asks for it."""

    def stand_still(self, seconds: float) -> None:
        """No script asks for it."""

    def script_ends(self) -> None:
        """There is nothing to undo."""


class Target(Protocol):
    """A device under test.

    name: as on the command line.
    address: IPv4 address of the device.
    addresses: those of the tester. Each plays one child of the device.
    has_port: whether the ICRC and UDP belong to the device. Else the target computes and checks them itself, and
        scripts about them are not run.
    is_virtual: whether time passes only in `receive`.
    group: the multicast address at which the device sends results to all its children; "" if it has none.
    controls: what the suite can do to the device beside packets: "drain", "pause".
    agent: of a NIC, what works it as its host does; a switch has none.
    """

    name: str
    address: str
    addresses: list[str]
    has_port: bool
    is_virtual: bool
    group: str
    controls: frozenset[str]

    @property
    def agent(self) -> Agent | None:
        """See above."""

    def send(self, source: str, data: bytes) -> None:
        """Send a datagram to the device: BTH to ICRC."""

    def receive(self, seconds: float) -> Frame | None:
        """The next datagram from the device; None if none comes for so long."""

    def drain(self) -> None:
        """The device takes no new job, until the script ends."""

    def stand_still(self, seconds: float) -> None:
        """The device does nothing for so long."""

    def script_ends(self) -> None:
        """What a script has done to the device is undone."""

    def now(self) -> float:
        """Seconds, from any beginning."""

    def close(self) -> None:
        """Give everything back."""
