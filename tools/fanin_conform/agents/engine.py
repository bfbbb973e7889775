"""The agent of an engine in this process: ranks that post as programs on hosts do, in virtual time."""

import functools
import ipaddress
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin_nic.engine.records.tables import JobState
from fanin_sim.fabric.device import Device
from fanin_wire import abi
from fanin_wire.abi import MessageType, Status, WqeFlag, WqeOpcode
from fanin_wire.agent import (
    VERSION,
    AgentError,
    Answer,
    Close,
    Counters,
    Hello,
    Join,
    Joined,
    Kill,
    Leave,
    Look,
    Post,
    Request,
    Wait,
    address_of,
    bytes_of,
    code_of,
    data_of,
)
from fanin_wire.geometry import position_count, segment_length

MEMORY_BYTES = 1 << 20  # of a rank
LKEY, ALIGNMENT = 1, 64


class Rank:
    def __init__(self) -> None:
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        self.begin(Join(queue=0, jid=0, key=0, route="LOCAL"))

    def begin(self, join: Join) -> None:
        """A new job."""
        self.join, self.mid, self.used = join, 0, 0
        self.results: dict[tuple[int, int], np.ndarray] = {}
        self.completions_seen = self.notices_seen = 0

    def place(self, size: int) -> np.ndarray:
        """Room for `size` bytes."""
        if self.used + size > MEMORY_BYTES:
            self.used = 0
        part = self.memory[self.used : self.used + size]
        self.used += -(-size // ALIGNMENT) * ALIGNMENT
        return part


class EngineAgent:
    """See `agent.Agent`. pump: makes the device work. now: nanoseconds."""

    def __init__(self, device: Device, queues: int, pump: Callable[[], None], now: Callable[[], int]) -> None:
        self._device, self._pump, self._now = device, pump, now
        self._unreadable = np.zeros(MEMORY_BYTES, np.uint8)  # not registered with the device
        self._ranks: dict[int, Rank] = {}
        self._queues = queues

    def ask(self, request: Request) -> Answer:
        """Answer at once: time does not pass."""
        answer: Answer = self._do(request)
        self._pump()
        return answer

    def close(self) -> None:
        """Nothing is open."""

    @functools.singledispatchmethod
    def _do(self, request: Request) -> Any:
        raise AgentError("WRONG_REQUEST", f"{request} is unknown here")

    @_do.register
    def _(self, request: Hello) -> Answer:
        return {"version": VERSION, "address": str(ipaddress.IPv4Address(self._device.address))}

    @_do.register
    def _(self, request: Join) -> Answer:
        if request.queue >= self._queues:
            raise AgentError("NO_RESOURCES", f"the device has {self._queues} queues")
        rank = self._ranks.get(request.queue)
        if rank is None:
            rank = self._ranks[request.queue] = Rank()
            self._device.register(request.queue, rank.memory, LKEY)
        self._device.open_queue(request.queue, client=request.queue)
        rank.begin(request)
        self._drop_reports(request.queue)
        record = np.zeros(1, abi.JOIN)[0]
        record["route"] = code_of("route", request.route)
        for name in ("jid", "key", "rank_mask", "slots", "chunk", "node_index", "node_count", "flags", "digest"):
            record[name] = getattr(request, name)
        record["rank_bitmap"] = 1 << request.rank
        record["next_address"], record["previous_address"] = address_of(request.next), address_of(request.previous)
        record["hop_count"] = len(request.hops)
        for level, hop in enumerate(request.hops):
            record["hop"][level] = (address_of(hop.address), hop.bit, hop.mask)
        self._device.engine.join(request.queue, record, self._now())
        return {}

    def _drop_reports(self, queue: int) -> None:
        """Drop those of an earlier job."""
        self._device.notices[:] = [each for each in self._device.notices if each["queue"] != queue]
        self._device.completions[:] = [each for each in self._device.completions if each["queue"] != queue]

    def _rank(self, queue: int) -> Rank:
        try:
            return self._ranks[queue]
        except KeyError:
            raise AgentError("UNKNOWN_QUEUE", f"queue {queue} has not joined") from None

    @_do.register
    def _(self, request: Joined) -> Answer:
        self._rank(request.queue)
        self._pump()
        for each in self._device.notices:
            if each["queue"] == request.queue and each["opcode"] == MessageType.JOIN:
                answer = {"status": Status(each["status"]).name, "slots": int(each["byte_length"])}
                answer |= {"window": int(each["window"]), "chunk": int(each["length"])}
                return answer | {"missing": int(each["missing"]), "missing_kind": int(each["missing_kind"])}
        return {"status": "PENDING"}

    @_do.register
    def _(self, request: Post) -> Answer:
        rank, engine = self._rank(request.queue), self._device.engine
        join, data = rank.join, data_of(request)
        contributors, op, dtype = (code_of(name, getattr(request, name)) for name in ("contributors", "op", "dtype"))
        block = request.length if request.block is None else request.block
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["flags"], wqe["address_count"] = WqeOpcode.COLLECTIVE, WqeFlag.SIGNALED, 1
        wqe["op"], wqe["dtype"], wqe["contributors"] = op, dtype, contributors
        wqe["route"], wqe["jid"], wqe["chunk"] = code_of("route", join.route), join.jid, join.chunk
        wqe["wr_id"], wqe["mid"] = request.wr, rank.mid | request.agreement << abi.MID_BITS
        wqe["node_bitmap"], wqe["rank_bitmap"] = (1 << min(join.node_count, 64)) - 1, 1 << join.rank
        wqe["length"], wqe["block"], wqe["deadline_ms"] = request.length, block, request.deadline_ms
        segment = segment_length(join.chunk, join.flags, contributors, op, dtype)
        wqe["segments"] = position_count(request.length, block, segment, contributors)
        source, result = rank.place(len(data)), rank.place(bytes_of(request, request.wants))
        source[:], result[:] = np.frombuffer(data, np.uint8), 0
        memory = source if request.readable else self._unreadable
        wqe["source_lkey"] = LKEY if request.readable else abi.LKEY_PROCESS
        wqe["destination_lkey"] = LKEY
        address = wqe["address"]
        address["source"], address["destination"] = memory.ctypes.data, result.ctypes.data
        address["source_first"], address["source_blocks"] = request.brings
        address["destination_first"], address["destination_blocks"] = request.wants
        queue = engine.tables["queues"][request.queue]
        if queue["job"]:
            slots = int(engine.tables["jobs"][queue["job"] - 1]["slots"])
            wqe["seg"] = int(queue["position"]) & (slots - 1)
        mid = int(wqe["mid"][0])
        rank.mid = (rank.mid + 1) & ((1 << abi.MID_BITS) - 1)
        rank.results[request.wr, mid] = result
        engine.post(request.queue, wqe, self._now())
        return {"mid": mid}

    @_do.register
    def _(self, request: Wait) -> Answer:
        rank = self._rank(request.queue)
        self._pump()
        own = [each for each in self._device.completions if each["queue"] == request.queue]
        if rank.completions_seen >= len(own):
            return {"status": ""}
        each = own[rank.completions_seen]
        rank.completions_seen += 1
        lost = int(each["lost_device"])
        answer = {"status": Status(each["status"]).name, "wr": int(each["wr_id"])}
        answer |= {"byte_length": int(each["byte_length"]), "missing": int(each["missing"])}
        answer |= {"missing_kind": int(each["missing_kind"])}
        answer |= {"lost_device": str(ipaddress.IPv4Address(lost)) if lost else ""}
        result = rank.results[int(each["wr_id"]), int(each["mid"])]
        return answer | {"data": result.tobytes().hex()}

    @_do.register
    def _(self, request: Look) -> Answer:
        self._rank(request.queue)
        return {}

    @_do.register
    def _(self, request: Leave) -> Answer:
        self._rank(request.queue)
        self._device.engine.leave(request.queue, 0, self._now())
        self._pump()
        return {"status": "SUCCESS"}

    @_do.register
    def _(self, request: Kill) -> Answer:
        self._rank(request.queue)
        self._device.engine.lose(request.queue, self._now())
        return {}

    @_do.register
    def _(self, request: Close) -> Answer:
        if request.queue in self._ranks and self._in_a_job(request.queue):
            self._device.engine.leave(request.queue, 0, self._now())
        return {}

    def _in_a_job(self, queue: int) -> bool:
        number = int(self._device.engine.tables["queues"][queue]["job"])
        return number > 0 and self._device.engine.tables["jobs"][number - 1]["state"] != JobState.FREE

    @_do.register
    def _(self, request: Counters) -> Answer:
        return {"counters": self._device.engine.counters()}
