"""The attacker: it knows all about the queue pairs that it attacks, and may send from the address of their peers.

Most packets are the next expected ones with one error, so that they pass the first checks.
"""

from random import Random

from fanin_nic.transport.records.tables import Receiving
from fanin_sim.hostile.device import Device, Sent
from fanin_sim.hostile.packets import make
from fanin_sim.hostile.queues import Queue, distance
from fanin_wire.fields import BTH
from fanin_wire.rocev2 import CODES, OPCODES, Opcode, Part
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import QueuePairState as State

STRANGER = 0x0A000009
ANSWERED, OPEN = (State.RTS, State.SQD), (State.RTR, State.RTS, State.SQD, State.SQE)
RECORDED = 64  # packets that can be sent once more
REMOTE_QPN = slice(5, 8)  # of a packet: the number of its queue pair
KINDS = {  # the errors of packets, and how often
    "nothing": 30,
    "PSN": 6,
    "key": 4,
    "address": 4,
    "rights": 4,
    "length": 4,
    "message length": 4,
    "oversize read": 2,
    "misaligned atomic": 2,
    "opcode": 8,
    "unknown opcode": 1,
    "padding": 1,
    "partition": 1,
    "version": 1,
    "truncated": 2,
    "Q_Key": 2,
    "sender": 2,
    "queue pair": 1,
    "answer": 24,
    "late answer": 4,
    "repetition": 6,
    "random bytes": 2,
}
SYNDROMES = (0x1F, 0x1F, 0x1F, 0x60, 0x61, 0x62, 0x63, 0x64, 0x7F, 0x20, 0x2C, 0x40, 0x5F, 0x80)
AIMS = ("writable", "readable", "atomic", "open", "open", "revocable")
OUTSIDE = (-1, -8, -64, 1, 8, 1 << 20, 1 << 40)


class Attacker:
    """Makes hostile packets for some queue pairs of a device. other_side: the address of their peers."""

    def __init__(self, random: Random, victim: Device, targets: list[Queue], other_side: int) -> None:
        self._random, self._victim, self._targets, self._other_side = random, victim, targets, other_side
        self._recorded: list[bytes] = []

    def see(self, packet: Sent) -> None:
        """An attacked queue pair has sent a packet to the attacker."""
        self._record(packet.data)

    def packet(self) -> tuple[str, bytes, int]:
        """The next packet: its error, the packet, and its sender."""
        random = self._random
        kind = random.choices(list(KINDS), list(KINDS.values()))[0]
        queue = self._target(kind)
        source = self._other_side
        if kind == "random bytes":
            data = random.randbytes(4 * random.randrange(90))
        elif kind == "repetition" and self._recorded:
            data = random.choice(self._recorded)
        elif kind in ("answer", "late answer"):
            data = self._answer(queue, kind)
        else:
            data = self._request(queue, kind)
        if kind == "sender":
            source = STRANGER
        elif kind == "truncated":
            data = data[: random.randrange(len(data))]
        elif kind == "random bytes" and len(data) >= BTH.size and random.random() < 0.9:
            data = make(random.choice(list(OPCODES)), b"", {"dqpn": queue.qpn})[: BTH.size] + data[BTH.size :]
        self._record(data)
        return kind, self._spare_others(data, queue), source

    def _target(self, kind: str) -> Queue:
        """A queue pair to attack: mostly one that takes packets of this kind."""
        states = ANSWERED if "answer" in kind else OPEN
        fitting = [queue for queue in self._targets if self._victim.state(queue) in states]
        if "answer" in kind:
            fitting = [queue for queue in fitting if queue.kind == Service.RC]
        return self._random.choice(fitting if fitting and self._random.random() < 0.9 else self._targets)

    def _record(self, data: bytes) -> None:
        if len(self._recorded) == RECORDED:
            self._recorded.pop(self._random.randrange(RECORDED))
        self._recorded.append(data)

    def _spare_others(self, data: bytes, queue: Queue) -> bytes:
        """Spare the queue pairs whose numbers the attacker does not know."""
        others = {other.qpn for other in self._victim.queues.values() if not other.is_attacked}
        if len(data) >= BTH.size and int.from_bytes(data[REMOTE_QPN]) in others:
            return data[: REMOTE_QPN.start] + queue.qpn.to_bytes(3) + data[REMOTE_QPN.stop :]
        return data

    # Requests

    def _request(self, queue: Queue, kind: str) -> bytes:
        """The next request that a queue pair expects, with one error."""
        random, row = self._random, self._victim.row(queue)
        opcode = self._fitting(queue) if kind != "opcode" else random.choice(list(OPCODES.values()))
        if kind == "misaligned atomic" and queue.kind == Service.RC:
            opcode = OPCODES[CODES[random.choice(("RC_FETCH_ADD", "RC_COMPARE_SWAP"))]]
        if kind == "oversize read" and queue.kind == Service.RC:
            opcode = OPCODES[CODES["RC_RDMA_READ_REQUEST"]]
        values = {"dqpn": queue.qpn, "psn": int(row["expected"]), "ackreq": random.randrange(2)}
        length = self._length(opcode, row) if kind != "length" else random.choice((0, 1, 255, 256, 257, 512, 600))
        values |= self._extended(opcode, length, row)
        self._corrupt(queue, kind, values)
        data = make(opcode.code, random.randbytes(length), values)
        if kind == "unknown opcode":
            data = random.choice([code for code in range(256) if code not in OPCODES]).to_bytes() + data[1:]
        if kind == "padding":
            data = data[: random.choice((-1, -2, -3))] if random.randrange(2) else data
        return data

    def _fitting(self, queue: Queue) -> Opcode:
        row, random = self._victim.row(queue), self._random
        names = [name for name in CODES if name.startswith(queue.kind.name)]
        if queue.kind != Service.UD and row["receiving"] == Receiving.SEND:
            names = [name for name in names if "SEND_MIDDLE" in name or "SEND_LAST" in name]
        elif queue.kind != Service.UD and row["receiving"] == Receiving.WRITE:
            part = "WRITE_MIDDLE" if row["write_left"] > row["mtu"] else "WRITE_LAST"
            names = [name for name in names if part in name]
        else:
            names = [n for n in names if not any(w in n for w in ("MIDDLE", "LAST", "RESPONSE", "ACKNOWLEDGE"))]
        return OPCODES[CODES[random.choice(names)]]

    def _length(self, opcode: Opcode, row) -> int:
        mtu = int(row["mtu"])
        if "READ" in opcode.name or "ATOMIC" in opcode.name or "ADD" in opcode.name or "SWAP" in opcode.name:
            return 0
        if opcode.part in (Part.FIRST, Part.MIDDLE):
            return mtu
        if "WRITE_LAST" in opcode.name:
            return min(int(row["write_left"]), mtu)
        return self._random.randrange(1, min(mtu, 256) + 1)

    def _extended(self, opcode: Opcode, length: int, row) -> dict[str, int]:
        """Fields of the extended headers: memory of the other side, mostly with the rights for it."""
        random = self._random
        aim = random.choice(AIMS)
        if random.random() < 0.7:
            aim = (
                "readable"
                if "READ" in opcode.name
                else "atomic"
                if opcode.part == Part.ONLY and not length
                else "writable"
            )
        region = self._victim.memory.regions[aim]
        message = length
        if opcode.part == Part.FIRST:
            message = random.randrange(length + 1, 3 * length + 2)
        elif "READ" in opcode.name:
            message = random.choice((0, 1, 8, 256, 257, 700))
        offset = 8 * random.randrange(1 + max(0, region.length - max(message, 8)) // 8)
        return {
            "va": region.address + offset, "rkey": region.key, "dlen": message, "qkey": int(row["qkey"]),
            "swap": random.getrandbits(64), "compare": random.getrandbits(64), "immdt": random.getrandbits(32),
            "invalidated_rkey": self._victim.memory.regions[random.choice(("revocable", "open"))].key,
        }  # fmt: skip

    def _corrupt(self, queue: Queue, kind: str, values: dict[str, int]) -> None:
        """Make one error."""
        random, memory = self._random, self._victim.memory
        if kind == "PSN":
            values["psn"] = (values["psn"] + random.choice((-20, -2, -1, 1, 2, 20, 1 << 22, 1 << 23, -(1 << 23)))) % (
                1 << 24
            )
        elif kind == "key":
            values["rkey"] ^= 1 << random.randrange(32)
            values["invalidated_rkey"] = values["rkey"]
        elif kind == "address":
            end = random.choice((0, values["dlen"], 1024))
            values["va"] = (values["va"] + end + random.choice(OUTSIDE)) % (1 << 64)
        elif kind == "rights":
            region = random.choice(list(memory.regions.values()))
            values |= {"rkey": region.key, "va": region.address, "invalidated_rkey": region.key}
        elif kind in ("message length", "oversize read"):
            values["dlen"] = random.choice(
                (0, values["dlen"] + 1, 1025, 1 << 20, 1 << 31, (1 << 31) + 1, (1 << 32) - 1)
            )
        elif kind == "misaligned atomic":
            values["va"] += random.randrange(1, 8)
        elif kind == "padding":
            values["padcount"] = random.randrange(4)
        elif kind == "partition":
            values["pkey"] = random.getrandbits(16)
        elif kind == "version":
            values["version"] = random.randrange(1, 16)
        elif kind == "Q_Key":
            values["qkey"] ^= 1 << random.randrange(32)
        elif kind == "queue pair":
            values["dqpn"] = random.getrandbits(24)

    # Answers

    def _answer(self, queue: Queue, kind: str) -> bytes:
        """An acknowledgement or response: of a packet under way, or (late) of another."""
        random, row = self._random, self._victim.row(queue)
        oldest, end = int(row["unacknowledged"]), int(row["end_psn"])
        under_way = distance(end, oldest)
        psn = oldest + random.randrange(under_way) if under_way else end
        if kind == "late answer":
            psn = random.choice((oldest - 1, end, end + 1, oldest - 100, end + 100, oldest + (1 << 23)))
        name = random.choice(("ACKNOWLEDGE", "ACKNOWLEDGE", "READ_RESPONSE", "ATOMIC_ACKNOWLEDGE"))
        values = {
            "dqpn": queue.qpn,
            "psn": psn % (1 << 24),
            "syndrome": random.choice(SYNDROMES),
            "original": random.getrandbits(64),
        }
        if name != "READ_RESPONSE":
            return make(CODES[f"RC_{name}"], b"", values)
        opcode, length = self._response(queue, values)
        return make(CODES[f"RC_RDMA_READ_RESPONSE_{opcode}"], random.randbytes(length), values)

    def _response(self, queue: Queue, values: dict[str, int]) -> tuple[str, int]:
        """Part and length of a response to a read: mostly those of the next one that is expected."""
        random, mtu = self._random, int(self._victim.row(queue)["mtu"])
        reads = [request for request in queue.sends if request.kind == "read"]
        if not reads or random.random() < 0.3:
            return random.choice(("FIRST", "MIDDLE", "LAST", "ONLY")), random.choice((0, 1, 88, 255, 256, 257))
        read = reads[0]
        if random.random() < 0.7:
            oldest = int(self._victim.row(queue)["unacknowledged"])
            values["psn"] = oldest if distance(oldest, read.first) < read.packets else read.first
        number = min(distance(values["psn"], read.first), read.packets - 1)
        length = min(mtu, sum(piece.length for piece in read.pieces) - number * mtu)
        if number == read.packets - 1:
            return ("LAST" if number else "ONLY"), length
        return ("MIDDLE" if number else "FIRST"), length
