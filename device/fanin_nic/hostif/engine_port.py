"""The control server's interface to the engine: the compiled one in the daemon, a model in tests."""

from typing import Protocol

import numpy as np

from fanin_wire.abi import Status


class Refused(Exception):
    """The engine refuses a request; `status` (enum fanin_status) goes to the client."""

    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(reason or Status(status).name)
        self.status = int(status)


class NoResources(Refused):
    """A table of the engine is full."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(Status["NO_RESOURCES"], reason)


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
        """Serve the send ring at `sq_address`, with completions to the ring at `cq_address`, and early data to the
        arrival ring at `aq_address` (0: none); returns the index of the queue."""

    def destroy_queue(self, queue: int, flush: bool = False) -> None:
        """Forget a queue, also while it joins, leaves or works, with no further effect after the return. flush:
        complete its unfinished requests as FLUSHED; not if the client has gone, or is about to be told so."""

    def join(self, queue: int, request: np.void) -> None:
        """Begin to join (a checked record of abi.JOIN). The answer is ControlServer.notice(client, join_reply(...))."""

    def leave(self, queue: int, tag: int) -> None:
        """Begin to leave. Unfinished requests complete as FLUSHED. The answer is notice(client, leave_reply(...))."""
