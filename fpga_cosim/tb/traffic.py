"""Traffic of many jobs for a switch: mostly real packets of children, with loss, duplicates, corruption and nonsense.

The children learn from the answers of one switch, so their packets depend on it. Any other switch must answer the same
packets the same way.
"""

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from fanin_reference import packets, spec
from fanin_wire.abi import JobFlag

FIRST, MAX_CHILDREN, JOBS = 1, 4, 6
CHUNK, PORT = 1024, packets.FIRST_SOURCE_PORT
HAS_DATA, WANTS, HEARS = (spec.FLAGS[name] for name in ("HAS_DATA", "WANTS_RESULT", "HEARS_GROUP"))
PAIRS = [(op, dtype) for op in range(1, 6) for dtype in (1, *range(3, 13))]  # SUM, MIN, MAX, MEAN, PROD
PAIRS += [(op, dtype) for op in (6, 7, 8) for dtype in (*range(3, 11), 13)]  # LAND, LOR, LXOR
PAIRS += [(op, dtype) for op in (9, 10, 11) for dtype in range(3, 11)]  # BAND, BOR, BXOR
PAIRS += [(op, dtype) for op in (12, 13) for dtype in (16, 18, 19)]  # MINLOC, MAXLOC
RANKS = (1, 1, 1, 2, 3, 63, 150, 2**20 + 7, 2**24 + 3, 2**32 - 2)  # whose data a child brings
ANSWERS = {code: name for name, code in spec.OPCODES.items()}
LOST, CORRUPTED, ALTERED, ENDS, OTHER_ORDER = 0.03, 0.01, 0.04, 0.003, 0.005
IN_ORDER = int(JobFlag.REPRODUCIBLE_RUN)
WITH_BUFFERS = 8  # slots that a switch gives a job with that flag and so many children


class Datagram(NamedTuple):
    """source: IPv4 address of the sender. data: BTH to ICRC."""

    source: str
    data: bytes


class Child:
    """A child of a job: next position, missing results, packets to repeat, and whether it is to leave and has left."""

    def __init__(self) -> None:
        self.next = 0
        self.lacks: set[int] = set()
        self.asked: list[int] = []
        self.joined = self.leaves = self.has_left = False


class Stream:
    """A job of some children, repeated under new keys."""

    def __init__(self, number: int, numbers: random.Random, reproducible: bool) -> None:
        self.jid, self.numbers, self.reproducible = 1000 + number, numbers, reproducible
        self.size = numbers.randint(1, MAX_CHILDREN)
        self.begin()

    def begin(self) -> None:
        self.key = self.numbers.getrandbits(32)
        self.slots = self.numbers.choice((4, 8, 8, 32))
        self.may_be_ordered = self.reproducible and self.slots <= WITH_BUFFERS
        self.flags = self.numbers.choice((0, IN_ORDER)) if self.may_be_ordered else 0
        self.children = [Child() for _ in range(self.size)]

    def config(self, bit: int, device: str) -> tuple[str, dict[str, int], bytes]:
        """CONFIG of a child."""
        body = {"boot_id": self.jid, "digest_high": self.key, "slots": self.slots, "window": self.slots // 2}
        is_other = self.may_be_ordered and self.numbers.random() < OTHER_ORDER
        body |= {"chunk": CHUNK, "route": 1, "hops": 1, "flags": self.flags ^ IN_ORDER if is_other else self.flags}
        address = 0xFFFF << 32 | int.from_bytes(bytes(map(int, device.split("."))))
        hop = {"address": address, "mask": (1 << self.size) - 1, "bit": bit}
        return "CONFIG", {"token": self.jid}, spec.CONFIG.pack(body) + spec.HOP.pack(hop)

    def place(self, position: int) -> dict[str, int]:
        names = {"position": position, "seg": position % self.slots}
        return names | {"mid": position // 3, "sid": position % 3}

    def contribution(self, bit: int, position: int, noise: bytes) -> tuple[str, dict[str, int], bytes]:
        """The CONTRIBUTION of a child to a position: the same each time."""
        own = random.Random(self.key << 32 | position)
        kind, root = own.choice((2, 2, 2, 2, 1, 0)), own.randrange(self.size)
        op, dtype = own.choice(PAIRS)
        elements = own.choice((0, 1, 7, 8, 9, 32, 33, 100, 127, 128, 512, 1024))
        length = min(elements * spec.TYPES[dtype][1], CHUNK)
        others = 0 if kind == 1 else own.choice((0, own.getrandbits(MAX_CHILDREN), *[-1] * 6))
        brings = kind > 0 and bool((others | 1 << root) >> bit & 1)
        poisoned, with_data = own.random() < 0.02 and bit == root, own.random() < 0.3
        at = own.randrange(len(noise) - CHUNK) ^ bit
        brings = brings and (with_data or not poisoned)
        payload = noise[at : at + length] if brings else b""
        flags = kind << spec.CLASS_SHIFT | (HAS_DATA if brings else 0)
        flags |= WANTS if (position + bit) % own.choice((2, 5)) else 0
        flags |= HEARS if position % 2 or (position + bit) % 5 else 0
        fields = {
            "op": op if kind == 2 else 0,
            "dtype": dtype,
            "flags": flags,
            "contributions": own.choice(RANKS) if brings else 0,
        }
        fields |= {"status": 3 if poisoned else 0, "node_bitmap": 1 << bit, "rank_bitmap": 1}
        return "CONTRIBUTION", self.place(position) | fields, payload


class Traffic:
    """Datagrams for a switch at an address, maybe with a multicast group, and its answers.

    reproducible: whether some jobs are. seed: of everything. sent: number of datagrams, with lost ones.
    """

    def __init__(self, seed: int, device: str, group: str = "", *, reproducible: bool = True) -> None:
        self.numbers, self.device, self.group, self.sent = random.Random(seed), device, group, 0
        self.noise = self.numbers.randbytes(1 << 16)
        self.streams = [Stream(number, self.numbers, reproducible) for number in range(JOBS)]
        self.addresses = [f"10.0.1.{FIRST + bit}" for bit in range(MAX_CHILDREN)]

    def _packet(self, stream: Stream, bit: int) -> tuple[str, dict[str, int], bytes]:
        """The next packet of a child."""
        child, numbers = stream.children[bit], self.numbers
        if child.leaves:
            return "LEAVE", {}, b""
        if not child.joined:
            return stream.config(bit, self.device)
        if numbers.random() < ENDS:
            status = numbers.choice((0, 5, 4, 77))
            return numbers.choice(("LEAVE", "ABORT")), {"status": status, "rank_bitmap": 0x0A000001}, b""
        if child.asked:
            return stream.contribution(bit, child.asked.pop(), self.noise)
        window = stream.slots // 2
        oldest = min(child.lacks, default=child.next)
        draw = numbers.random()
        if draw < 0.8 and child.next - oldest < window:
            position, child.next = child.next, child.next + 1
            child.lacks.add(position)
            return stream.contribution(bit, position, self.noise)
        if draw < 0.94:
            position = oldest if draw < 0.9 else max(0, child.next - numbers.randrange(2 * stream.slots))
            return "PROBE", stream.place(position) | {"token": 1 + position}, b""
        if draw < 0.97 and child.next:
            return stream.contribution(bit, max(0, child.next - 1 - numbers.randrange(stream.slots)), self.noise)
        return numbers.choice((("QUERY", {"token": 7}, b""), ("KEEPALIVE", {}, b""), stream.config(bit, self.device)))

    def _altered(self, fields: dict[str, Any], slots: int) -> dict[str, Any]:
        """Change one field."""
        numbers = self.numbers
        changes = {
            "key": numbers.getrandbits(32),
            "jid": 999,
            "seg": numbers.randrange(32),
            "source": numbers.randrange(70),
        }
        changes |= {
            "position": numbers.getrandbits(32),
            "mid": 7,
            "op": numbers.choice((0, 2, 14, 200)),
            "flags": 0x63,
            "lane": 1,
        }
        # Types of one byte: whether data are whole elements, a receiver need not check (2-15).
        changes |= {"dtype": numbers.choice((0, 5, 7, 30)), "version": 3, "status": 9, "opcode": numbers.getrandbits(8)}
        name = numbers.choice([*changes, "lease", "lease"])
        if name == "lease":  # the next position of the slot, or one it must not serve
            return fields | {"position": fields.get("position", 0) + slots * numbers.choice((1, 1, 1, 2))}
        return fields | {name: changes[name]}

    def next(self) -> Datagram | None:
        """The next datagram; None if it was lost."""
        numbers = self.numbers
        stream = numbers.choice(self.streams)
        bit = numbers.randrange(stream.size)
        name, given, payload = self._packet(stream, bit)
        fields = {"jid": stream.jid, "key": stream.key, "source": bit, "lane": 0} | given
        source = self.addresses[bit]
        self.sent += 1
        if numbers.random() < ALTERED:
            fields = self._altered(fields, stream.slots)
            if numbers.random() < 0.2:
                source = numbers.choice(self.addresses)
                name = "LEAVE" if source != self.addresses[bit] and numbers.random() < 0.3 else name
            if numbers.random() < 0.2:
                name = numbers.choice(list(spec.OPCODES))
        lane, version = fields["lane"], fields.pop("version", packets.VERSION)
        opcode = fields.pop("opcode", spec.OPCODES[name])
        data = packets.build(name, source, self.device, payload, **(fields | {"lane": 0}))
        if lane or version != packets.VERSION or opcode != data[0]:
            body = bytearray(data[: -packets.ICRC_SIZE])
            body[0], body[spec.BTH.size], body[spec.BTH.size + 31] = opcode, version, lane
            data = bytes(body) + packets.icrc(source, self.device, PORT, bytes(body))
        if numbers.random() < CORRUPTED:
            wrong = bytearray(data)
            wrong[numbers.randrange(len(wrong))] ^= 1 << numbers.randrange(8)
            data = bytes(wrong)
        return None if numbers.random() < LOST else Datagram(source, data)

    def hear(self, to: str, data: bytes) -> None:
        if self.numbers.random() < LOST:
            return
        name, ceth = ANSWERS[data[0]], spec.CETH.unpack(data[spec.BTH.size :])
        stream = next((each for each in self.streams if (each.jid, each.key) == (ceth["jid"], ceth["key"])), None)
        if stream is None or ceth["source"] >= stream.size:
            return
        if to == self.group and name == "RESULT":
            for each in stream.children:
                each.lacks.discard(ceth["position"])
        if to != self.addresses[ceth["source"]]:
            return
        child = stream.children[ceth["source"]]
        if name == "RESULT":
            child.lacks.discard(ceth["position"])
        elif name == "NEED" and ceth["position"] < child.next:
            child.asked.append(ceth["position"])
        elif name == "CONFIG_ACK" and not child.leaves:
            child.joined = ceth["status"] == spec.STATUS["SUCCESS"]
            child.leaves = ceth["status"] not in (spec.STATUS["SUCCESS"], spec.STATUS["PENDING"])
        elif name in ("ABORT", "NAK"):
            child.leaves = True
        elif name == "LEAVE_ACK":
            child.leaves = child.has_left = True
            if all(each.has_left for each in stream.children):  # else the job that ended keeps the next one out
                stream.begin()


def normal(answers: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Answers in an order that does not depend on the children's, of a WAIT without the named child."""
    wait = spec.OPCODES["WAIT"]
    oldest = packets.HEADERS + 4
    return sorted(
        (to, data[:oldest] + data[oldest + 1 : -packets.ICRC_SIZE] if data[0] == wait else data) for to, data in answers
    )
