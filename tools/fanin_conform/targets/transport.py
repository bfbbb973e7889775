"""The transport of a NIC for ordinary traffic, in this process, with memory for its actions."""

import ctypes
from collections import deque

import numpy as np

from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.transport import Limits, Transport

LIMITS = Limits(
    queue_pairs=16,
    send_depth=64,
    receive_depth=64,
    shared_queues=1,
    shared_depth=16,
    regions=64,
    actions=1024,
    window=64,
)
Sent = tuple[int, bytes]  # destination, and the packet from its BTH to before its ICRC


class TransportDevice:
    """A transport, and the driver's work for it. completions: by completion queue, as records of actions.ACTION."""

    def __init__(self, address: str, kind: type[Transport] = Transport) -> None:
        self.transport = kind(address, limits=LIMITS)
        self.completions: dict[int, deque[np.void]] = {}
        self._sent: list[Sent] = []

    @property
    def next_deadline(self) -> int:
        return self.transport.next_deadline

    def receive(self, data: bytes, source: int, now: int) -> list[Sent]:
        """A packet from its BTH to before its ICRC. Returns the device's packets."""
        buffer = np.frombuffer(data, np.uint8)
        self.transport.packet(int(buffer.ctypes.data), len(buffer), source, now)
        self._carry_out()  # the bytes of a packet are valid until then
        return self.serve(now)

    def tick(self, now: int) -> list[Sent]:
        self.transport.tick(now)
        return self.serve(now)

    def serve(self, now: int) -> list[Sent]:
        """Serve all queue pairs until they are idle."""
        while self.transport.serve(now, 1):
            self._carry_out()
        self._carry_out()
        sent, self._sent = self._sent, []
        return [(to, data + bytes(-len(data) % 4)) for to, data in sent]

    def _carry_out(self) -> None:
        """Memory first, then packets, then completions, as `actions` demands."""
        actions = self.transport.take_actions()
        for action in actions:
            change_memory(action)
        for action in actions:
            if action["kind"] == ActionKind.SEND:
                header = bytes(action["header"][: action["header_length"]])
                self._sent.append((int(action["destination"]), header))
            if action["kind"] in (ActionKind.SEND, ActionKind.PIECE) and action["length"]:
                to, packet = self._sent[-1]
                self._sent[-1] = to, packet + ctypes.string_at(int(action["payload"]), int(action["length"]))
        for action in actions:
            if action["kind"] == ActionKind.COMPLETE:
                self.completions[int(action["completion_queue"])].append(action)


def change_memory(action: np.void) -> None:
    """A write or an atomic. A response to an atomic gets the word before it."""
    remote, payload = int(action["remote"]), int(action["payload"])
    if action["kind"] == ActionKind.WRITE:
        ctypes.memmove(remote, payload, int(action["length"]))
    elif action["kind"] in (ActionKind.COMPARE_SWAP, ActionKind.FETCH_ADD):
        word = ctypes.c_uint64.from_address(remote)
        before = word.value
        ctypes.memmove(payload, before.to_bytes(8, "big"), 8)
        if action["kind"] == ActionKind.FETCH_ADD:
            word.value = (before + int(action["operand"])) % 2**64
        elif before == int(action["compare"]):
            word.value = int(action["operand"])
