"""What the control server asks of the engine: the daemon gives it the compiled engine, tests a model of one."""

from __future__ import annotations

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
    """Control calls of the host interface to the engine, all from the thread that calls ControlServer.service().

    Clients are small integers, used again after detach. Addresses of rings and memory are of this process. All but
    detach, deregister and destroy_queue may raise Refused.
    """

    def attach(self, client: int, memory_fd: int) -> None:
        """A client has come. `memory_fd`: its process memory, by virtual address; -1: none. Valid until detach."""

    def detach(self, client: int) -> None:
        """A client has gone; its queues and regions were destroyed before. Forget it."""

    def register(self, client: int, lkey: int, start: int, length: int, access: int, device_address: int) -> None:
        """The client's `length` bytes from `start` are mapped here at `device_address`."""

    def deregister(self, client: int, lkey: int) -> None:
        """Forget a region; when this returns the engine touches it no more."""

    def create_queue(self, client: int, qp: int, cq: int, sq_address: int, cq_address: int) -> int:
        """Serve the send ring at `sq_address`, with completions to the ring at `cq_address`; the queue's index."""

    def destroy_queue(self, queue: int, flush: bool = False) -> None:
        """Forget a queue, also while it joins, leaves or works; when this returns nothing is done for it any more.
        flush: what it has under way completes as FLUSHED; not where the client has gone, or is about to be told so."""

    def join(self, queue: int, request: np.void) -> None:
        """Start to join (a record of abi.JOIN, checked). Answered by ControlServer.notice(client, join_reply(...))."""

    def leave(self, queue: int, tag: int) -> None:
        """Start to leave; what is under way completes: FLUSHED. Answered by notice(client, leave_reply(...))."""
