"""The control server's interface to the transport of ordinary traffic, implemented by the daemon."""

from typing import NamedTuple, Protocol

from fanin_wire.abi import Service


class OrdinaryRegion(NamedTuple):
    """Memory of a client for ordinary traffic. mapped: its address here; None: reached through the process."""

    start: int
    length: int
    access: int  # enum fanin_access, or-ed
    domain: int
    mapped: int | None


class OrdinaryQueuePair(NamedTuple):
    """A requested queue pair: its protection domain, completion rings by index, and rings by address."""

    service: Service
    domain: int
    send_cq: int
    receive_cq: int
    all_signaled: bool
    send_ring: int
    receive_ring: int
    shared_queue: int | None = None  # row of its shared receive queue; None: its own ring


class TransportPort(Protocol):
    """Control calls to the transport, all from the thread that calls ControlServer.service().

    Each client has its own numbers of protection domains and completion rings. register, modify and all that creates
    may raise Refused.
    """

    path_mtu: int

    def register(self, client: int, region: OrdinaryRegion) -> int:
        """Returns the key, which is not 0."""

    def deregister(self, key: int) -> None:
        """Forget a region, which the device does not use after the return."""

    def open_completions(self, client: int, cq: int, ring: int) -> None:
        """Store completions for a client's completion queue in the ring at an address; 0: no more."""

    def create(self, client: int, wanted: OrdinaryQueuePair) -> tuple[int, int]:
        """Make a queue pair in state RESET; returns its row, and its number on the wire."""

    def create_shared(self, client: int, domain: int, ring: int) -> int:
        """Make a shared receive queue with the ring at an address; returns its row."""

    def destroy_shared(self, row: int) -> None:
        """End a shared receive queue without queue pairs. Its requests have no completions."""

    def destroy(self, row: int) -> None:
        """Its requests have no completions."""

    def modify(self, row: int, state: int, values: dict[int, int]) -> None:
        """Change the state of a queue pair, and attributes by their bits (enum ibv_qp_attr_mask)."""

    def query(self, row: int) -> tuple[int, dict[int, int]]:
        """State and attributes."""
