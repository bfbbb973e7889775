"""A splitter between a client and lanes. The test plays both, with rings in its own memory."""

import os
from typing import Any

import numpy as np

from fanin_nic.daemon.splitter.merge import merge
from fanin_nic.daemon.splitter.split import requests_wait, split
from fanin_nic.daemon.splitter.splitter import LaneRings, Splitter
from fanin_nic.daemon.splitter.tables import LANE_DOORBELL, submit, take
from fanin_nic.hostif.mapping import CQ_BYTES, SQ_BYTES
from fanin_nic.hostif.rings import complete, fetch
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, WqeFlag, WqeOpcode

QUEUES = 4
QUEUE, QP = 2, 7
CHUNK = 1024


def segments_of(length: int) -> int:
    return -(-length // CHUNK)


def bytes_of(part: np.void) -> int:
    first, end = int(part["sid"]), int(part["sid"]) + int(part["segments"])
    return min(int(part["length"]), end * CHUNK) - min(int(part["length"]), first * CHUNK)


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes at the start of a cache line."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


class Rig:
    """A queue pair at a splitter for `lanes` lanes; joined to a job unless `slots` is empty."""

    def __init__(self, lanes: int, slots: list[int] | None = None) -> None:
        self.doorbells = np.zeros(lanes, abi.DOORBELL)
        self.eventfds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(lanes)]
        addresses = [self.doorbells.ctypes.data + lane * abi.DOORBELL.itemsize for lane in range(lanes)]
        self.lane_doorbells = np.array(list(zip(addresses, self.eventfds, strict=True)), LANE_DOORBELL)
        self.splitter = Splitter(lanes, QUEUES, self.lane_doorbells)
        self._send, self._completion = aligned(SQ_BYTES), aligned(CQ_BYTES)
        self.rings: list[LaneRings] = self.splitter.open(
            QUEUE, QP, self._send.ctypes.data, self._completion.ctypes.data
        )
        slots = [64] * lanes if slots is None else slots
        self.slots = self.splitter.join(QUEUE, slots) if slots else 0
        self.position = 0

    def close(self) -> None:
        for descriptor in self.eventfds:
            os.close(descriptor)

    def post(self, length: int, **members: Any) -> int:
        """Post a request as the client, and cut it. Returns the number of cut requests."""
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["contributors"] = WqeOpcode.COLLECTIVE, ContributorClass.ALL
        wqe["length"], wqe["block"], wqe["chunk"], wqe["flags"] = length, length, CHUNK, WqeFlag.SIGNALED
        wqe["segments"] = segments_of(length)
        wqe["seg"] = self.position % self.slots if self.slots else 0
        for name, value in members.items():
            wqe[name] = value
        self.position += int(wqe["segments"][0])
        return self._submit(wqe)

    def query(self, mid: int, **members: Any) -> int:
        """Post a query. Returns the number of cut requests."""
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["mid"] = WqeOpcode.QUERY, mid
        for name, value in members.items():
            wqe[name] = value
        return self._submit(wqe)

    def _submit(self, wqe: np.ndarray) -> int:
        submit(np.uint64(self._send.ctypes.data), np.uint64(wqe.ctypes.data))
        return self.split()

    def split(self) -> int:
        """Cut the client's posts. Returns the number of requests."""
        return int(split(np.uint64(self.splitter.state)))

    def is_waiting(self) -> bool:
        """Whether lane 0 would stay awake for the client's posts."""
        return bool(requests_wait(np.uint64(self.splitter.state)))

    def parts(self, lane: int) -> np.ndarray:
        """A lane's input since the last call, records of WQE."""
        found = np.zeros(abi.SQ_DEPTH, abi.WQE)
        count = 0
        while fetch(np.uint64(self.rings[lane].send), np.uint64(found[count:].ctypes.data)):
            count += 1
        return found[:count]

    def done(self, lane: int, part: np.void, **members: Any) -> None:
        """A lane has completed a part of a message of one block, or answered a query."""
        cqe = np.zeros(1, abi.CQE)
        for name in ("wr_id", "opcode", "jid", "mid"):
            cqe[name] = part[name]
        cqe["byte_length"], cqe["positions"] = bytes_of(part), part["segments"]
        for name, value in members.items():
            cqe[name] = value
        assert complete(np.uint64(self.rings[lane].completion), np.uint64(cqe.ctypes.data))
        merge(np.uint64(self.splitter.state))

    def completions(self) -> np.ndarray:
        """The client's completions since the last call, records of CQE."""
        found = np.zeros(abi.CQ_DEPTH, abi.CQE)
        count = 0
        while take(np.uint64(self._completion.ctypes.data), np.uint64(found[count:].ctypes.data)):
            count += 1
        return found[:count]
