"""The interface of targets: datagrams from addresses of the tester to the device, and back."""

from typing import NamedTuple, Protocol

from fanin_conform.agents.agent import Agent


class Frame(NamedTuple):
    """A datagram from the device: `data` from the BTH to the ICRC."""

    destination: str
    source: str
    source_port: int
    data: bytes


class Uncontrolled:
    """A device that the suite reaches by packets only."""

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
    has_port: whether the device has ICRC and UDP. Else the target computes and checks them itself, and scripts about
        them are not run.
    is_virtual: whether time passes only in `receive`.
    group: the multicast address at which the device sends results to all its children; "" if none.
    controls: beside packets: "drain", "pause".
    agent: the host of a NIC; None for a switch.
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
        """The device takes no new job until the script ends."""

    def stand_still(self, seconds: float) -> None:
        """The device does nothing for so long."""

    def script_ends(self) -> None:
        """Undo the script's effects on the device."""

    def now(self) -> float:
        """Seconds since any origin."""

    def close(self) -> None:
        """Give everything back."""
