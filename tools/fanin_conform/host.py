"""The host of a NIC, played through the agent: ranks that join a job, post, wait and leave."""

import contextlib
import math
from typing import Any, NamedTuple

import numpy as np
from scapy.packet import Packet, Raw

from fanin_conform.datagram import Dissected
from fanin_conform.job import ALL, DATA, NONE, ONE, WANTS, f32, payload_of
from fanin_conform.listener import RECEIVE_TIMEOUT_S, Mismatch
from fanin_conform.profile import LeftOut
from fanin_conform.tester import ANY, Expected, Tester
from fanin_conform.values import difference, elements_text
from fanin_wire.abi import ContributorClass, DType, JobFlag, Op, Route, Status
from fanin_wire.agent import (
    AgentError,
    Answer,
    Blocks,
    Close,
    Hop,
    Join,
    Joined,
    Kill,
    Leave,
    Look,
    Post,
    Request,
    Wait,
)
from fanin_wire.datatypes import datatype_by_name, datatype_of
from fanin_wire.fields import Flag, Opcode
from fanin_wire.geometry import segment_length
from fanin_wire.layers import CONFIG, CONFIG_ACK, HOP, offload
from fanin_wire.operations import operation_by_name

CLASSES = {"ALL": ALL, "ONE": ONE, "NONE": NONE}
AHEAD = int(Flag.AHEAD)
DIGEST = (1, 2)
CONFIG_FLAGS = JobFlag.WIDE | JobFlag.REPRODUCIBLE_RUN | JobFlag.REPRODUCIBLE_SHAPE
NOBODY: Blocks = (0, 0)
MID_BITS = 16


class Place(NamedTuple):
    mid: int
    sid: int


class NicJob:
    """A job of `ranks` ranks at the NIC; the tester plays the network, and by the agent the host.

    slots, chunk, flags: as offered. places: of each posted position.
    """

    route, has_lanes = "LOCAL", False

    def __init__(
        self, tester: Tester, ranks: int = 1, *, slots: int = 8, chunk: int = 256, flags: int = 0, join: bool = True
    ) -> None:
        assert tester.target.agent is not None
        if tester.profile.lanes > 1 and not self.has_lanes:
            raise LeftOut("place in a job of one lane")
        tester.profile.require_flags(flags & CONFIG_FLAGS)
        self.tester, self.ranks, self.slots, self.chunk, self.flags = tester, ranks, slots, chunk, flags
        self._agent = tester.target.agent
        self.jid, self.key = tester.number(32), tester.number(32)
        self.lane = 0
        self.first_queue = sum(job.ranks for job in tester.jobs)
        self.places: dict[int, Place] = {}
        self._cursor = [0] * ranks
        self._posted = [0] * ranks
        tester.jobs.append(self)
        if join:
            self.form()

    # The host

    def ask(self, request: Request) -> Answer:
        """A request of the agent. Raises Mismatch if it fails."""
        try:
            return self._agent.ask(request)
        except AgentError as error:
            raise Mismatch(f"the agent: {error}") from None

    def note(self, text: str) -> None:
        """A line of the log."""
        self.tester.log.append(f"host: {text}")

    def membership(self) -> dict[str, Any]:
        """A rank's description of the job, without its own place."""
        return {}

    def join_rank(self, rank: int, **changes: Any) -> None:
        """A rank begins to join."""
        values: dict[str, Any] = {"jid": self.jid, "key": self.key, "route": self.route, "rank": rank}
        values |= {"rank_mask": (1 << self.ranks) - 1, "slots": self.slots, "chunk": self.chunk, "digest": DIGEST}
        values |= {"flags": self.flags} | self.membership()
        self.note(f"rank {rank} joins")
        self.ask(Join(queue=self.first_queue + rank, **(values | changes)))

    def form(self) -> None:
        """All ranks join, and the job becomes active."""
        for rank in range(self.ranks):
            self.join_rank(rank)
        self.all_joined()

    def all_joined(self, status: str = "SUCCESS", clause: str = "") -> list[Answer]:
        """Every rank gets this answer to its join."""
        return [self.joined(rank, status, clause) for rank in range(self.ranks)]

    def joined(self, rank: int, status: str = "SUCCESS", clause: str = "") -> Answer:
        """A rank gets this answer to its join."""
        seconds = 0.0 if status == "PENDING" else RECEIVE_TIMEOUT_S
        answer = self.ask(Joined(queue=self.first_queue + rank, seconds=seconds))
        self.note(f"rank {rank}: the join is {_words(answer)}")
        if answer["status"] != status:
            raise Mismatch(f"the join of rank {rank} is {_words(answer)}, not {status}", _clauses(clause))
        return answer

    def post(self, rank: int = 0, data: np.ndarray | bytes | None = None, **given: Any) -> list[int]:
        """A rank posts a request: by default an allreduce (SUM) of its data. Returns the positions of the message."""
        payload = payload_of(data)
        values: dict[str, Any] = {"data": payload.hex(), "length": len(payload), "wr": self._posted[rank]}
        if isinstance(data, np.ndarray):
            values |= {"op": "SUM", "dtype": DType(datatype_of(data.dtype).code).name}
        if given.get("contributors") == "ONE":
            values["dtype"] = "U8"
        values |= given
        if values.get("contributors", "ALL") == "ALL" and "op" in values:
            self._require(values["op"], values["dtype"])
        request = Post(queue=self.first_queue + rank, **values)
        shown = elements_text(payload, request.dtype.lower())
        self.note(f"rank {rank} posts {request.contributors} {request.op} {shown}")
        mid = self.ask(request)["mid"]
        self._posted[rank] += 1
        return self._placed(rank, request, mid)

    def is_refused(self, data: np.ndarray, op: str, dtype: str) -> bool:
        """Post a request of rank 0. Returns whether it is refused with NOT_SUPPORTED."""
        payload = payload_of(data)
        request = Post(queue=self.first_queue, op=op, dtype=dtype, length=len(payload), data=payload.hex())
        self.note(f"rank 0 posts {op} of {dtype}")
        try:
            self._placed(0, request, self._agent.ask(request)["mid"])
        except AgentError as error:
            if error.name != "NOT_SUPPORTED":
                raise Mismatch(f"the agent: {error}") from None
            return True
        return False

    def _require(self, op: str, dtype: str) -> None:
        self.tester.profile.require(operation_by_name(op), datatype_by_name(dtype.lower()))

    def _placed(self, rank: int, request: Post, mid: int) -> list[int]:
        op, dtype = int(Op[request.op]), int(DType[request.dtype])
        contributors = int(ContributorClass[request.contributors])
        segment = segment_length(self.chunk, self.flags, contributors, op, dtype)
        block = request.length if request.block is None else request.block
        whole, rest = divmod(request.length, block) if block else (0, 0)
        number = whole * math.ceil(block / segment) + math.ceil(rest / segment) if contributors else 1
        first = self._cursor[rank]
        self._cursor[rank] += number
        for sid in range(number):
            self.places[first + sid] = Place(mid, sid)
        return list(range(first, first + number))

    def look(self) -> None:
        """Wait until the device has seen all posts."""
        for rank in range(self.ranks):
            self.ask(Look(queue=self.first_queue + rank))

    def done(
        self,
        rank: int = 0,
        data: np.ndarray | bytes | None = None,
        *,
        status: str = "SUCCESS",
        clause: str = "",
        **about: Any,
    ) -> Answer:
        """The next completion of a rank has this status, and this result if given."""
        answer = self.ask(Wait(queue=self.first_queue + rank, seconds=RECEIVE_TIMEOUT_S))
        self.note(f"rank {rank} has {_words(answer) or 'no completion'}")
        if answer["status"] != status:
            said = answer["status"] or "not there"
            raise Mismatch(f"the completion of rank {rank} is {said}, not {status}", _clauses(clause))
        if data is not None and (came := bytes.fromhex(answer["data"])) != (expected := payload_of(data)):
            dtype = datatype_of(data.dtype).name if isinstance(data, np.ndarray) else ""
            wrong = difference(came, expected, dtype)
            shown = f"expected {elements_text(expected, dtype)}\nseen     {elements_text(came, dtype)}"
            raise Mismatch(f"the result of rank {rank}: {wrong}\n{shown}", _clauses(clause))
        for name, value in about.items():
            if answer[name] != value:
                raise Mismatch(f"{name} at rank {rank} is {answer[name]!r}, not {value!r}", _clauses(clause))
        return answer

    def not_done(self, rank: int = 0, clause: str = "") -> None:
        """A rank has no completion. Call Tester.nothing first: the network must be silent."""
        answer = self.ask(Wait(queue=self.first_queue + rank))
        if answer["status"]:
            raise Mismatch(f"rank {rank} has a completion: {_words(answer)}", _clauses(clause))

    def leave(self, rank: int = 0) -> None:
        self.note(f"rank {rank} leaves")
        self.ask(Leave(queue=self.first_queue + rank))

    def kill(self, rank: int = 0) -> None:
        self.note(f"the process of rank {rank} ends")
        self.ask(Kill(queue=self.first_queue + rank))

    def close_host(self) -> None:
        for rank in range(self.ranks):
            with contextlib.suppress(AgentError):  # the verdict is known
                self._agent.ask(Close(queue=self.first_queue + rank))

    def drain(self) -> None:
        """Ignore further packets: the verdict is known."""
        with contextlib.suppress(Mismatch):
            self.tester.everything()

    def leave_quietly(self) -> None:
        """End the script, in any state of the job."""
        self.close_host()

    # The network

    def packet(self, code: Opcode, body: Packet | bytes = b"", **ceth: Any) -> Packet:
        packet = offload(code, **({"jid": self.jid, "key": self.key, "lane": self.lane} | ceth))
        return packet / (Raw(body) if isinstance(body, bytes) else body) if body else packet

    def place(self, position: int) -> dict[str, Any]:
        """The fields of a packet about a posted position."""
        posted = self.places[position]
        return {"position": position, "seg": position % self.slots, "mid": posted.mid, "sid": posted.sid}

    def expected(self, to: str, code: Opcode, payload: Any = b"", **ceth: Any) -> Expected:
        return Expected(to, code, {"jid": self.jid, "key": self.key, "lane": self.lane} | ceth, payload)

    def described(self, data: np.ndarray | bytes | None, ranks: int) -> dict[str, Any]:
        """Operation, type, flags and contributions of a segment: SUM of class ALL."""
        values: dict[str, Any] = {"op": int(Op.SUM), "flags": ALL}
        if data is not None:
            values |= {"flags": ALL | DATA, "contributions": ranks}
        if isinstance(data, np.ndarray):
            values |= {"dtype": int(datatype_of(data.dtype).code)}
        return values

    def question(self, clause: str = "", **about: Any) -> Dissected:
        """The next PROBE that the tester has not seen; time passes until it comes."""
        for _ in range(80):
            for number, (_, packet) in enumerate(self.tester.questions):
                if packet.ceth["jid"] == self.jid and all(packet.ceth[name] == about[name] for name in about):
                    del self.tester.questions[number]
                    return packet
            came = self.tester.spend(0.05, step=0.025)
            if came:
                raise Mismatch(f"expected a PROBE\nseen     to {came[0][0]}: {came[0][1]}", _clauses(clause))
        raise Mismatch("no PROBE has come", _clauses(clause))


class NicTree(NicJob):
    """A job of a tree: the tester plays the switch above the NIC. bit: of the NIC there; above: levels further up."""

    route = "TREE"

    def __init__(self, tester: Tester, ranks: int = 1, *, bit: int = 2, nodes: int = 3, above: int = 0, **given: Any):
        self.parent, self.bit, self.nodes = tester.addresses[0], bit, nodes
        self.hops = [Hop(self.parent, bit, (1 << nodes) - 1)]
        self.hops += [Hop(f"192.0.2.{1 + level}", level, 0xFF) for level in range(above)]
        self.config: Dissected | None = None
        super().__init__(tester, ranks, **given)

    def membership(self) -> dict[str, Any]:
        """The devices above."""
        return {"hops": tuple(self.hops), "node_index": self.bit, "node_count": self.nodes}

    def form(self) -> None:
        """All ranks join, and the parent's CONFIG_ACK makes the job active."""
        for rank in range(self.ranks):
            self.join_rank(rank)
        self.expect_config()
        self.grant()
        self.all_joined()

    def expect_config(self, clause: str = "") -> Dissected:
        """The NIC's CONFIG comes."""
        (self.config,) = self.tester.expect(self.up(Opcode.CONFIG, ANY, token=ANY), clause=clause)
        return self.config

    def grant(self, slots: int | None = None, window: int | None = None, *, full: bool = True) -> None:
        """CONFIG_ACK: active with N and W. full: as long as the longest packet."""
        self.slots = slots or self.slots
        self.window = window or self.slots // 2
        self.answer(slots=self.slots, window=self.window, length=self.chunk if full else 0)

    def answer(self, slots: int = 0, window: int = 0, *, length: int = 0, source: str = "", **ceth: Any) -> None:
        """CONFIG_ACK of the parent. length: of its body, with zeros."""
        assert self.config is not None
        token = {"token": self.config.ceth["token"]}
        body = bytes(CONFIG_ACK(slots=slots, window=window)).ljust(length, b"\0")
        self.down(Opcode.CONFIG_ACK, body, sender=source, **(token | ceth))

    def down(self, code: Opcode, body: Packet | bytes = b"", *, sender: str = "", **ceth: Any) -> None:
        """A packet of the parent."""
        self.tester.send(sender or self.parent, self.packet(code, body, **({"source": self.bit} | ceth)))

    def up(self, code: Opcode, payload: Any = b"", **ceth: Any) -> Expected:
        """A packet to the parent."""
        return self.expected(self.parent, code, payload, **({"source": self.bit} | ceth))

    def contribution(self, position: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> Expected:
        """CONTRIBUTION of the NIC; by default all its ranks have data and want the result."""
        values = self.place(position) | self.described(data, self.ranks)
        values |= {"node_bitmap": 1 << self.bit, "rank_bitmap": (1 << self.ranks) - 1}
        values["flags"] |= WANTS
        return self.up(Opcode.CONTRIBUTION, payload_of(data), **(values | ceth))

    def result(self, position: int, data: np.ndarray | bytes | None = None, *, sender: str = "", **ceth: Any) -> None:
        """RESULT of the parent, to which every node contributes equally many ranks."""
        values = self.place(position) | self.described(data, self.ranks * self.nodes)
        values |= {"node_bitmap": 1 << self.bit}
        self.down(Opcode.RESULT, payload_of(data), sender=sender, **(values | ceth))

    def complete(self, data: np.ndarray | None = None, total: np.ndarray | None = None) -> int:
        """Every rank posts the same message of one segment, and gets the result. Returns its position."""
        data = f32(1, 2) if data is None else data
        for rank in range(self.ranks):
            (position,) = self.post(rank, data)
        own = (data * self.ranks).astype(data.dtype)
        total = (own * self.nodes).astype(data.dtype) if total is None else total
        self.tester.expect(self.contribution(position, own))
        self.result(position, total)
        for rank in range(self.ranks):
            self.done(rank, total)
        return position

    def leave_quietly(self) -> None:
        """The parent ends the job, and answers the NIC's LEAVE."""
        self.close_host()
        self.down(Opcode.LEAVE_ACK)
        self.down(Opcode.ABORT, status=int(Status.ABORTED))
        self.drain()
        self.down(Opcode.LEAVE_ACK)


class NicRing(NicJob):
    """A job of a ring: the tester plays the previous and the next node. index: of the NIC among the `nodes`.

    below: the ring's last node has a switch above it, which the tester plays as well.
    """

    route = "RING"

    def __init__(
        self,
        tester: Tester,
        ranks: int = 1,
        *,
        index: int = 1,
        nodes: int = 3,
        below: bool = False,
        flags: int = 0,
        **given: Any,
    ) -> None:
        self.index, self.nodes, self.below = index, nodes, below
        self.previous, self.next, self.parent = tester.addresses[:3]
        self.before, self.after = (index - 1) % nodes, (index + 1) % nodes
        self.up_bit = 3
        self.config: Dissected | None = None
        flags |= int(JobFlag.FIXED_START) if below else 0
        super().__init__(tester, ranks, flags=flags, **given)

    @property
    def is_fixed(self) -> bool:
        """Whether every position starts at node 0."""
        return bool(self.flags & int(JobFlag.FIXED_START | JobFlag.REPRODUCIBLE_SHAPE))

    @property
    def is_last(self) -> bool:
        """Whether the NIC ends the chain of CONFIGs."""
        return self.index == self.nodes - 1

    def membership(self) -> dict[str, Any]:
        """The neighbours, and the switch above."""
        hops = (Hop(self.parent, self.up_bit, 0xF),) if self.below else ()
        values = {"node_index": self.index, "node_count": self.nodes, "hops": hops}
        return values | {"next": self.next, "previous": self.previous}

    def form(self) -> None:
        """All ranks join, the chain of CONFIGs runs, and the job becomes active."""
        for rank in range(self.ranks):
            self.join_rank(rank)
        if self.index:
            self.config_of_previous()
        if not self.is_last:
            waits = [self.config_ack("PENDING", ANY, seg=ANY, node_bitmap=ANY, rank_bitmap=ANY)] if self.index else []
            (self.config, *_) = self.tester.expect(self.forth(Opcode.CONFIG, ANY, token=ANY), *waits)
            self.grant()
        if self.index:
            self.tester.expect(self.config_ack("SUCCESS", ANY))
        self.all_joined()

    def config_of_previous(self, **changes: Any) -> None:
        """CONFIG of the previous node."""
        hop = [HOP(address=f"::ffff:{self.tester.target.address}", bit=self.before, mask=1 << self.before)]
        values: dict[str, Any] = {"boot_id": 55, "digest_high": DIGEST[0], "digest_low": DIGEST[1]}
        values |= {"slots": self.slots, "window": self.slots // 2, "chunk": self.chunk, "route": int(Route.RING)}
        values |= {"flags": self.flags & CONFIG_FLAGS, "hop": hop} | changes
        ceth = values.pop("ceth", {})
        sender = values.pop("sender", self.previous)
        given = {"source": self.before, "token": 55} | ceth
        self.tester.send(sender, self.packet(Opcode.CONFIG, CONFIG(**values), **given))

    def config_ack(self, status: str, payload: Any = b"", **ceth: Any) -> Expected:
        """The NIC's answer to the previous node."""
        values = {"status": int(Status[status]), "token": 55, "source": self.before}
        return self.expected(self.previous, Opcode.CONFIG_ACK, payload, **(values | ceth))

    def grant(self, slots: int | None = None, window: int | None = None, **ceth: Any) -> None:
        """CONFIG_ACK of the next node, as long as the longest packet."""
        assert self.config is not None
        self.slots = slots or self.slots
        body = bytes(CONFIG_ACK(slots=self.slots, window=window or self.slots // 2)).ljust(self.chunk, b"\0")
        given = {"token": self.config.ceth["token"], "source": self.index}
        self.from_next(Opcode.CONFIG_ACK, body, **(given | ceth))

    def from_previous(self, code: Opcode, body: Packet | bytes = b"", *, sender: str = "", **ceth: Any) -> None:
        """A packet of the previous node."""
        self.tester.send(sender or self.previous, self.packet(code, body, **({"source": self.before} | ceth)))

    def from_next(self, code: Opcode, body: Packet | bytes = b"", *, sender: str = "", **ceth: Any) -> None:
        """A packet of the next node."""
        self.tester.send(sender or self.next, self.packet(code, body, **({"source": self.after} | ceth)))

    def forth(self, code: Opcode, payload: Any = b"", **ceth: Any) -> Expected:
        """A packet to the next node."""
        return self.expected(self.next, code, payload, **({"source": self.index} | ceth))

    def back(self, code: Opcode, payload: Any = b"", **ceth: Any) -> Expected:
        """A packet to the previous node."""
        return self.expected(self.previous, code, payload, **({"source": self.index} | ceth))

    def starts(self, position: int) -> bool:
        """Whether the NIC starts a position."""
        return self.index == (0 if self.is_fixed else (self.places[position].sid + 1) % self.nodes)

    def share(self, position: int, left: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> dict[str, Any]:
        """The fields of a CONTRIBUTION that `left` nodes have still to add to."""
        values = self.place(position) | self.described(data, (self.nodes - left.bit_count()) * self.ranks)
        return values | {"node_bitmap": left, "rank_bitmap": ANY} | ceth

    def contributed(self, position: int, left: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> Expected:
        """CONTRIBUTION to the next node."""
        values = self.share(position, left, data)
        values["flags"] |= WANTS
        return self.forth(Opcode.CONTRIBUTION, payload_of(data), **(values | ceth))

    def contribute(
        self, position: int, left: int, data: np.ndarray | bytes | None = None, *, sender: str = "", **ceth: Any
    ) -> None:
        """CONTRIBUTION of the previous node; all nodes before want the result."""
        before = (1 << self.nodes) - 1 & ~left
        values = self.share(position, left, data, **({"rank_bitmap": before} | ceth))
        self.from_previous(Opcode.CONTRIBUTION, payload_of(data), sender=sender, **values)

    def result_fields(
        self, position: int, left: int, data: np.ndarray | bytes | None = None, **ceth: Any
    ) -> dict[str, Any]:
        """The fields of a RESULT that `left` nodes have still to take."""
        values = self.place(position) | self.described(data, self.nodes * self.ranks)
        return values | {"node_bitmap": left, "rank_bitmap": left} | ceth

    def result(
        self, position: int, left: int, data: np.ndarray | bytes | None = None, *, sender: str = "", **ceth: Any
    ) -> None:
        """RESULT of the previous node."""
        values = self.result_fields(position, left, data, **ceth)
        self.from_previous(Opcode.RESULT, payload_of(data), sender=sender, **values)

    def resulted(self, position: int, left: int, data: np.ndarray | bytes | None = None, **ceth: Any) -> Expected:
        """RESULT to the next node."""
        values = self.result_fields(position, left, data, **ceth)
        return self.forth(Opcode.RESULT, payload_of(data), **values)

    def ack(self, position: int, contributions: Any = ANY, results: Any = ANY, **ceth: Any) -> Expected:
        """ACK to the previous node."""
        values = {"position": position, "seg": position % self.slots}
        values |= {"node_bitmap": contributions, "rank_bitmap": results} | ceth
        return self.back(Opcode.ACK, **values)

    def acknowledge(self, position: int, contributions: int, results: int, **ceth: Any) -> None:
        """ACK of the next node."""
        values = {"position": position, "seg": position % self.slots}
        self.from_next(Opcode.ACK, **(values | {"node_bitmap": contributions, "rank_bitmap": results} | ceth))

    def leave_quietly(self) -> None:
        """The neighbours end the job, and answer the NIC's LEAVE."""
        self.close_host()
        self.from_previous(Opcode.LEAVE)
        self.from_next(Opcode.LEAVE_ACK, source=self.index)
        self.from_next(Opcode.ABORT, status=int(Status.ABORTED))
        self.drain()
        self.from_previous(Opcode.LEAVE)
        self.from_next(Opcode.LEAVE_ACK, source=self.index)
        if self.below:
            self.tester.send(self.parent, self.packet(Opcode.LEAVE_ACK, source=self.up_bit))


def _words(answer: Answer) -> str:
    """An answer in words."""
    shown = {name: value for name, value in answer.items() if value and name not in ("status", "wr", "data")}
    return " ".join([str(answer["status"]), *(f"{name}={value}" for name, value in shown.items())])


def _clauses(clause: str) -> tuple[str, ...]:
    return tuple(clause.split())
