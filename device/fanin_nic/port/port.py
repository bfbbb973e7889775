"""What all ports have, as an object of Python."""

import errno
import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin_nic.port.descriptors import PEER_COUNTERS, PEER_SLOTS, SEND_DROPS, Drop
from fanin_nic.port.tables import PortTables


class PortError(Exception):
    """A port can not be opened; the message has cause and remedy."""


class Port(ABC):
    """An open port.

    `state`: address of its PORT record, for `receive` and `transmit`, which one thread at a time may call.
    `receive_buffer_bytes`: room for packets before `receive` takes them, with an overhead for each.
    """

    address: str
    mtu: int
    lane: int
    state: np.uint64
    receive_buffer_bytes: int
    _tables: PortTables

    @property
    @abstractmethod
    def receive_fd(self) -> int:
        """Descriptor to poll for packets."""

    @property
    @abstractmethod
    def group_fd(self) -> int:
        """Descriptor to poll for packets to the group; -1 without a group."""

    @property
    def received(self) -> np.ndarray:
        """The RECEIVED table; `receive` returns how many entries are valid."""
        return self._tables.received

    def set_profile(self, address: int) -> None:
        """Profile `receive` and `transmit` in the PROFILE at `address`; 0: off."""
        self._tables.port["profile"] = address

    def set_tap(self, address: int) -> None:
        """Record packets by the TAP at `address`; 0: off."""
        self._tables.port["tap"] = address

    def peers(self) -> dict[str, dict[str, int]]:
        """Counters of each other device (PEER_COUNTERS) by IPv4 address; "other": all that exceed the table."""
        peers = self._tables.peers
        rows = {str(ipaddress.IPv4Address(int(row["address"]))): row for row in peers[peers["address"] != 0]}
        if peers[PEER_SLOTS]["rx_packets"] or peers[PEER_SLOTS]["tx_packets"]:
            rows["other"] = peers[PEER_SLOTS]
        return {name: {counter: int(row[counter]) for counter in PEER_COUNTERS} for name, row in rows.items()}

    def drops(self) -> dict[str, int]:
        """Packets dropped so far: "drop_icrc" and so on for each Drop, and "drop_receive_buffer"."""
        dropped = self._tables.port["dropped"][0]
        named = {f"drop_{reason.name.lower()}": int(dropped[reason]) for reason in Drop}
        return named | {"drop_receive_buffer": self._dropped_by_kernel()}

    def failed_sends(self) -> int:
        """Packets that could not be sent so far."""
        return int(self._tables.port["dropped"][0][list(SEND_DROPS)].sum())

    def send_errors(self) -> dict[str, tuple[int, int]]:
        """Packets that could not be sent, and the errno of the last, by IPv4 address of the other device."""
        peers = self._tables.peers
        rows = peers[peers["tx_failed"] != 0]
        return {
            str(ipaddress.IPv4Address(int(row["address"]))): (int(row["tx_failed"]), int(row["send_error"]))
            for row in rows
        }

    def on_failure(self, tell: Callable[[str], None]) -> None:  # noqa: B027
        """Call `tell`, in any thread, with cause and remedy when the port can not go on. Sockets always can."""

    def verbs(self) -> dict[str, Any]:
        """The verbs device of a port, for the status; {} without one."""
        return {}

    @abstractmethod
    def _dropped_by_kernel(self) -> int:
        """Packets without a buffer."""

    def last_error(self) -> str:
        """Name of the last drop_send_error or failed receive, as "EINVAL"; "" if none."""
        return errno.errorcode.get(int(self._tables.port["last_error"][0]), "")

    @abstractmethod
    def close(self) -> None:
        """`state` must not be used any more."""
