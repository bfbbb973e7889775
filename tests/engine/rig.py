"""One engine under test. The test plays its neighbours: it sends packets, and reads packets, completions, notices."""

import ipaddress
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Limits, Timing
from fanin_sim.fabric.device import Device, Packet
from fanin_wire import abi, fields
from fanin_wire.datatypes import datatype_of
from fanin_wire.fields import BTH, CETH, CONFIG_ACK_BODY, CONFIG_BODY, HOP_BODY, Flag, Opcode

JID, KEY, CHUNK, SLOTS = 7, 0x5EED0001, 64, 8
DIGEST = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
MILLISECOND, SECOND = 10**6, 10**9
READ_WRITE = abi.Access.READ | abi.Access.WRITE
LIMITS = Limits(
    jobs=3, slots=32, queues=8, requests=8, regions=16, actions=512, max_chunk=256, min_lease=4, max_lease=16
)


def ip(text: str) -> int:
    return int(ipaddress.IPv4Address(text))


DEVICE, PARENT, STRANGER = ip("10.0.0.1"), ip("10.0.0.99"), ip("10.9.9.9")
NEXT, PREVIOUS = ip("10.0.2.1"), ip("10.0.2.2")


def child_address(bit: int) -> int:
    return ip("10.0.1.1") + bit


def pack(header: fields.Header, **values: int) -> bytes:
    unknown = values.keys() - {field.name for field in header.fields}
    assert not unknown, unknown
    number = 0
    for field in header.fields:
        number = (number << field.bits) | (int(values.get(field.name, 0)) & ((1 << field.bits) - 1))
    return number.to_bytes(header.size, "big")


def unpack(header: fields.Header, data: bytes) -> dict[str, int]:
    number, size = int.from_bytes(data[: header.size], "big"), header.size * 8
    return {f.name: (number >> (size - f.offset - f.bits)) & ((1 << f.bits) - 1) for f in header.fields}


class Sent(NamedTuple):
    """A packet of the device: its opcode, destination, the fields of its CETH, and its payload."""

    opcode: Opcode
    destination: int
    ceth: dict[str, int]
    payload: bytes


class Rig:
    """A device and the time. `last` holds the packets of the last event."""

    def __init__(self, *, is_switch: bool, limits: Limits = LIMITS, timing: Timing | None = None) -> None:
        self.device = Device("10.0.0.1", is_switch=is_switch, limits=limits, timing=timing or Timing())
        self.engine = self.device.engine
        self.now = SECOND
        self.last: list[Sent] = []

    # Events

    def receive(self, opcode: int, source: int, payload: bytes = b"", /, **ceth: int) -> list[Sent]:
        """A packet arrives; fields of the CETH by name. Returns the device's packets."""
        values = {"version": fields.WIRE_VERSION, "jid": JID, "key": KEY, "length": len(payload)}
        if opcode == Opcode.CONFIG_ACK:
            values["token"] = int(self.engine.header["boot_id"]) & 0xFFFFFFFF
        values |= ceth
        padding = -len(payload) % 4
        bth = pack(BTH, opcode=opcode, padcount=padding, pkey=fields.DEFAULT_PKEY, dqpn=fields.COLLECTIVE_QPN)
        return self.receive_bytes(bth + pack(CETH, **values) + payload + bytes(padding), source)

    def receive_bytes(self, data: bytes, source: int) -> list[Sent]:
        """A packet from the BTH to before the ICRC arrives, as its own batch."""
        packets = self.device.receive(Packet(source, DEVICE, Opcode.ACK, 0, data), self.now)
        self.engine.batch_end(self.now)
        return self._settle(packets)

    def tick(self, elapsed: int, late: int = 0) -> list[Sent]:
        """`elapsed` ns pass; the timers run `late` ns after their time."""
        self.now += elapsed
        self.engine.header["next_deadline"] = self.now - late
        self.engine.tick(self.now)
        return self._settle([])

    def settle(self) -> list[Sent]:
        return self._settle([])

    def _settle(self, packets: list[Packet]) -> list[Sent]:
        packets = [*packets, *self.device.perform()]
        while self.engine.serve(self.now):
            packets += self.device.perform()
        packets += self.device.perform()
        self.last = [_sent(packet) for packet in packets]
        return self.last

    # Observations

    def count(self, name: str) -> int:
        return self.engine.counters()[name]

    @property
    def job(self) -> np.void:
        return self.engine.tables["jobs"][0]

    def slot(self, position: int) -> np.void:
        """The slot that serves a position of the first job."""
        return self.engine.tables["slots"][self.job["slot_base"] + position % int(self.job["slots"])]


def _sent(packet: Packet) -> Sent:
    ceth = unpack(CETH, packet.data[BTH.size :])
    payload = packet.data[fields.TRANSPORT_SIZE : fields.TRANSPORT_SIZE + ceth["length"]]
    return Sent(packet.opcode, packet.destination, ceth, payload)


def config(bit: int, children: int, *, device: int = DEVICE, above: tuple = (), **changes: int) -> bytes:
    """Body of a CONFIG. `above`: (address, bit, mask) of the devices above; `changes` replace fields."""
    way = [(device, bit, (1 << children) - 1), *above]
    values = {
        "boot_id": 100 + bit,
        "digest_high": DIGEST[0],
        "digest_low": DIGEST[1],
        "slots": SLOTS,
        "window": SLOTS // 2,
    }
    values |= {"chunk": CHUNK, "route": abi.Route.TREE, "hops": len(way)} | changes
    entries = [pack(HOP_BODY, address=(0xFFFF << 32) | address, bit=b, mask=mask) for address, b, mask in way]
    return pack(CONFIG_BODY, **values) + b"".join(entries)


class SwitchRig(Rig):
    """A switch with a job of `children` joined children; with `above`, also devices above."""

    def __init__(self, children: int = 2, *, above: tuple = (), first: int = 0, join: bool = True, **changes) -> None:
        super().__init__(is_switch=True, **changes)
        self.engine.header["first_position"] = first
        self.children = children
        for bit in range(children if join else 0):
            self.join(bit, above=above)
        if join and above:
            self.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))

    def join(self, bit: int, *, source: int | None = None, above: tuple = (), ceth: dict | None = None, **changes):
        body = config(bit, self.children, above=above, **changes)
        source = child_address(bit) if source is None else source
        return self.receive(Opcode.CONFIG, source, body, source=bit, **(ceth or {}))

    def contribute(self, bit: int, position: int, data: np.ndarray | None = None, **changes) -> list[Sent]:
        """CONTRIBUTION of a child; SUM of class ALL unless `changes` say otherwise."""
        values = place(position) | {
            "source": bit,
            "op": abi.Op.SUM,
            "contributions": 1,
            "flags": ALL | Flag.WANTS_RESULT,
        }
        values |= {"node_bitmap": 1 << bit}
        if data is not None:
            values |= {"dtype": datatype_of(data.dtype).code, "flags": values["flags"] | Flag.HAS_DATA}
        payload = b"" if data is None else data.tobytes()
        return self.receive(Opcode.CONTRIBUTION, child_address(bit), payload, **(values | changes))

    def probe(self, bit: int, position: int, **changes) -> list[Sent]:
        values = place(position) | {"source": bit, "token": 77}
        return self.receive(Opcode.PROBE, child_address(bit), **(values | changes))


ALL = abi.ContributorClass.ALL << fields.CLASS_SHIFT
ONE = abi.ContributorClass.ONE << fields.CLASS_SHIFT


def place(position: int, slots: int = SLOTS) -> dict[str, int]:
    """The fields of a packet about a position of a message with one segment per position."""
    return {"position": position, "seg": position % slots, "mid": 3, "sid": position % 2**16}


def f32(*values: float) -> np.ndarray:
    return np.array(values, "<f4")


class NicRig(Rig):
    """A NIC whose ranks have joined a job; the test is the device above, or both neighbours of the ring."""

    def __init__(
        self, route: abi.Route = abi.Route.TREE, ranks: int = 1, *, first: int = 0, join: bool = True, **changes
    ):
        super().__init__(is_switch=False, **changes)
        self.engine.header["first_position"] = first
        self.route, self.ranks, self._lkey = route, ranks, 0
        for rank in range(ranks):
            self.device.open_queue(rank, client=rank)
            if join:
                self.join(rank)
        if join and route == abi.Route.TREE:
            self.receive(Opcode.CONFIG_ACK, PARENT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))
        elif join and route == abi.Route.RING:
            self.receive(Opcode.CONFIG_ACK, NEXT, pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2))

    def ring_config(self, node: int) -> bytes:
        """CONFIG of a node of a ring of three to the next."""
        body = config(node, 3, route=abi.Route.RING)
        hop = pack(HOP_BODY, address=(0xFFFF << 32) | DEVICE, bit=node, mask=1 << node)
        return body[: CONFIG_BODY.size] + hop

    def join(self, rank: int, **changes) -> None:
        """JOIN of a rank: bit 0 of 2 at the switch above, or node 0 of a ring of 3."""
        request = np.zeros(1, abi.JOIN)[0]
        request["head"]["tag"] = 40 + rank
        request["jid"], request["key"], request["route"] = JID, KEY, self.route
        request["rank_bitmap"], request["rank_mask"] = 1 << rank, (1 << self.ranks) - 1
        request["digest"] = DIGEST
        request["slots"], request["chunk"] = SLOTS, CHUNK
        request["node_count"] = {abi.Route.LOCAL: 1, abi.Route.TREE: 2, abi.Route.RING: 3}[self.route]
        request["next_address"], request["previous_address"] = NEXT, PREVIOUS
        request["hop_count"] = self.route == abi.Route.TREE
        request["hop"][0] = (PARENT, 0, 0b11)
        for name, value in changes.items():
            request[name] = value
        self.engine.join(rank, request, self.now)
        self.settle()

    def request(self, source: np.ndarray, result: np.ndarray, rank: int = 0, **changes) -> np.ndarray:
        """The WQE of an allreduce of registered arrays; `changes` replace fields."""
        wqe = np.zeros(1, abi.WQE)
        wqe["opcode"], wqe["flags"], wqe["address_count"] = abi.WqeOpcode.COLLECTIVE, abi.WqeFlag.SIGNALED, 1
        wqe["op"], wqe["dtype"], wqe["contributors"] = (
            abi.Op.SUM,
            datatype_of(source.dtype).code,
            abi.ContributorClass.ALL,
        )
        wqe["route"], wqe["jid"], wqe["mid"], wqe["chunk"] = self.route, JID, 3, CHUNK
        wqe["wr_id"], wqe["length"], wqe["block"] = 50 + rank, source.nbytes, source.nbytes
        wqe["segments"] = min(2**32 - 1, -(-int(changes.get("length", source.nbytes)) // CHUNK))
        wqe["node_bitmap"] = (1 << {abi.Route.LOCAL: 1, abi.Route.TREE: 2, abi.Route.RING: 3}[self.route]) - 1
        wqe["rank_bitmap"] = 1 << rank
        wqe["seg"] = self.engine.tables["queues"][rank]["position"] % SLOTS
        wqe["source_lkey"], wqe["destination_lkey"] = self.register(rank, source), self.register(rank, result)
        wqe["address"][0] = (result.ctypes.data, 0, source.nbytes > 0, 0, source.nbytes > 0, source.ctypes.data)
        wqe["block"] = changes.get("length", source.nbytes)
        for name, value in changes.items():
            (wqe["address"] if name in abi.ADDRESS.names else wqe)[name] = value
        return wqe

    def register(self, rank: int, memory: np.ndarray, access: int = READ_WRITE) -> int:
        """Register an array; returns its lkey."""
        self._lkey += 1
        self.device.register(rank, memory, self._lkey, access)
        return self._lkey

    def post(self, source: np.ndarray, result: np.ndarray | None = None, rank: int = 0, **changes) -> list[Sent]:
        """Post an allreduce. Returns the device's packets."""
        result = np.zeros_like(source) if result is None else result
        self.engine.post(rank, self.request(source, result, rank, **changes), self.now)
        return self.settle()

    def statuses(self) -> list[abi.Status]:
        return [abi.Status(int(completion["status"])) for completion in self.device.completions]

    def answer(self, number: int = -1) -> tuple[abi.Status, np.void]:
        """A notice to a rank: its status, and the record of actions.ACTION."""
        notice = self.device.notices[number]
        return abi.Status(int(notice["status"])), notice

    def from_parent(self, opcode: Opcode, position: int, payload: bytes = b"", **changes) -> list[Sent]:
        values = place(position) | {"op": abi.Op.SUM, "flags": ALL | (Flag.HAS_DATA if payload else 0)}
        values |= {"node_bitmap": 1} if opcode == Opcode.RESULT else {}
        return self.receive(opcode, PARENT, payload, **(values | changes))
