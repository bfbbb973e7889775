"""Lanes without threads: the test runs each step."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.host import LanesHost
from fanin_nic.daemon.lanes.ordinary_host import OrdinaryHost
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.loop.lane import Reason
from fanin_nic.daemon.splitter.splitter import Splitter
from fanin_nic.daemon.splitter.tables import LANE_DOORBELL, submit, take
from fanin_nic.engine.engine import Engine, Limits
from fanin_nic.hostif.mapping import CQ_BYTES, SQ_BYTES
from fanin_nic.port.sockets import UdpPort
from fanin_wire import abi
from fanin_wire.abi import ContributorClass, DType, MessageType, Op, Route, Status, WqeFlag, WqeOpcode
from tests.lanes.rig import CHUNK, aligned

LIMITS = Limits(jobs=4, slots=256, queues=4, requests=abi.SQ_DEPTH, regions=8, actions=1024, max_chunk=CHUNK)
LANES = 2
JID, KEY, SLOTS, LKEY = 5, 77, 16, 9
JOIN = int(MessageType.JOIN)


class SteppedLanes:
    """A splitter and its lanes on `ports`, with one client of one queue pair. ordinary: the traffic of lane 0."""

    def __init__(self, ports: Sequence[UdpPort], ordinary: OrdinaryHost | None = None) -> None:
        lanes = len(ports)
        engines = [Engine(port.address, lanes=lanes, limits=LIMITS) for port in ports]
        self.cores = [
            LaneCore(number, *parts, None if number else ordinary)
            for number, parts in enumerate(zip(engines, ports, strict=True))
        ]
        doorbells = np.array([core.make_doorbell() for core in self.cores], LANE_DOORBELL)
        self.splitter = Splitter(lanes, LIMITS.queues, doorbells)
        for core in self.cores:
            core.connect(doorbells, self.splitter.state if core.number == 0 else 0)
            core.refresh([])
        self.host = LanesHost(self.cores, self.splitter, LaneThreads(self.cores, lambda *_: None))
        self._send, self._completion = aligned(SQ_BYTES), aligned(CQ_BYTES)
        self.host.attach(0, -1)
        self.queue = self.host.create_queue(0, 0, 0, self._send.ctypes.data, self._completion.ctypes.data)
        self.cores[0].refresh([])

    def join(self, tag: int, *, key: int = KEY, ranks: int = 1) -> None:
        """The queue pair joins a job of `ranks` ranks of this node, as the first of them."""
        request = np.zeros(1, abi.JOIN)
        request["head"]["tag"], request["jid"], request["key"], request["route"] = tag, JID, key, Route.LOCAL
        request["rank_bitmap"], request["rank_mask"], request["node_count"] = 1, (1 << ranks) - 1, 1
        request["slots"], request["chunk"] = SLOTS, CHUNK
        self.host.join(self.queue, request[0])

    def turn(self, lane: int) -> Reason:
        """Let a lane run until it is idle. Returns why it came back."""
        core = self.cores[lane]
        core.interrupt()
        reason = core.run()
        core.resume()
        return reason

    def answers(self) -> Iterator[tuple[int, Status]]:
        """Let all lanes run. Yields the answers to the client, as tag and status."""
        for core in self.cores:
            self.turn(core.number)
            for notice in core.take_notices():
                answer = self.host.answer(core.number, notice)
                if answer is not None:
                    yield int(answer["wr_id"]), Status(int(answer["status"]))

    def joined(self) -> None:
        self.join(tag=1)
        assert list(self.answers()) == [(1, Status.SUCCESS)]

    def left(self) -> None:
        """No job remains, whatever happened to it."""
        self.host.leave(self.queue, 2)
        assert list(self.answers()) == [(2, Status.SUCCESS)]

    def post(self, **members: Any) -> None:
        """A request of the rank: zero bytes, which complete at once, unless `members` of the WQE differ."""
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["op"], wqe["dtype"] = WqeOpcode.COLLECTIVE, Op.SUM, DType.F32
        wqe["contributors"], wqe["flags"], wqe["route"] = ContributorClass.ALL, WqeFlag.SIGNALED, Route.LOCAL
        wqe["address_count"], wqe["jid"], wqe["chunk"] = 1, JID, CHUNK
        wqe["node_bitmap"] = wqe["rank_bitmap"] = 1
        for name, value in members.items():
            wqe[name] = value
        self.post_record(wqe)

    def post_record(self, wqe: np.ndarray) -> None:
        submit(np.uint64(self._send.ctypes.data), np.uint64(wqe.ctypes.data))

    @property
    def ring(self) -> np.ndarray:
        """Head of the client's send ring, which the client may overwrite."""
        return self._send[: abi.RING.itemsize].view(abi.RING)

    def register(self, memory: np.ndarray) -> None:
        """Register memory of the client, under the key LKEY, to read and to write."""
        address = memory.ctypes.data
        self.host.register(0, LKEY, address, memory.nbytes, int(abi.Access.READ | abi.Access.WRITE), address)

    def completions(self) -> list[np.void]:
        """The client's completions since the last call."""
        cqe, found = np.zeros(1, abi.CQE), []
        while take(np.uint64(self._completion.ctypes.data), np.uint64(cqe.ctypes.data)):
            found.append(cqe[0].copy())
        return found

    def ends(self) -> list[Status | None]:
        """Why the job has ended, by lane; None if it has not."""
        ends = (core.host.end_of_job(self.queue) for core in self.cores)
        return [end and Status(end.status) for end in ends]

    def close(self) -> None:
        for core in self.cores:
            core.close()
