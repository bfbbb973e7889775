"""What the control server needs of the engine, of the transport of ordinary traffic, and of a tap: those of the daemon,
or models in tests."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from fanin_wire.abi import Service, Status

# Refusals


class Refused(Exception):
    """The engine refuses a request; `status` (enum fanin_status) goes to the client."""

    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(reason or Status(status).name)
        self.status = int(status)


class NoResources(Refused):
    """A table of the engine is full."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(Status.NO_RESOURCES, reason)


# The engine


class EnginePort(Protocol):
    """Control calls to the engine, all from the thread that calls ControlServer.service().

    Clients are small integers, reused after detach. Addresses of rings and memory are of this process. All calls but
    detach, deregister and destroy_queue may raise Refused.
    """

    def attach(self, client: int, memory_fd: int, remote: int = 0) -> None:
        """Attach a client. memory_fd: its process memory, by virtual address; -1: none. remote: address of the REMOTE
        record of a client over RDMA; 0: it is local. Both are valid until detach."""

    def detach(self, client: int) -> None:
        """Detach a client, after its queues and regions were destroyed."""

    def register(self, client: int, lkey: int, start: int, length: int, access: int, device_address: int) -> None:
        """Register `length` bytes of a client from `start` on, mapped here at `device_address`; 0: reached by RDMA."""

    def deregister(self, client: int, lkey: int) -> None:
        """Forget a region, which the engine does not use after the return."""

    def create_queue(self, client: int, qp: int, cq: int, sq_address: int, cq_address: int, aq_address: int = 0) -> int:
        """Serve the send ring at `sq_address`, with completions to the ring at `cq_address`, and data ahead to the
        arrival ring at `aq_address` (0: none); returns the index of the queue."""

    def destroy_queue(self, queue: int, flush: bool = False) -> None:
        """Forget a queue, also while it joins, leaves or works, with no further effect after the return. flush:
        complete its unfinished requests as FLUSHED; not if the client has gone, or is about to be told so."""

    def join(self, queue: int, request: np.void) -> None:
        """Begin to join (a checked record of abi.JOIN). The answer is ControlServer.notice(client, join_reply(...))."""

    def leave(self, queue: int, tag: int) -> None:
        """Begin to leave. Unfinished requests complete as FLUSHED. The answer is notice(client, leave_reply(...))."""


# The transport of ordinary traffic


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


# A tap


class TapPort(Protocol):
    """A tap of the device (fanin_wire/tap.py); one at a time is open."""

    def begin(self, request: np.void) -> int:
        """Open it for a checked request (abi.TAP); returns its rings' descriptor, which it keeps. OSError: no
        memory."""

    def description(self) -> dict[str, Any]:
        """What a reader must know of the device, for JSON."""

    def end(self) -> None:
        """Close it."""
