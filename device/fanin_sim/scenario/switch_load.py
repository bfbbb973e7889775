"""The load that `fanin bench engine` measures: a switch with one job, and the contributions of its four children."""

import numpy as np
from numba import int64, uint32, uint64

from fanin_nic.engine import events
from fanin_nic.engine.engine import Limits
from fanin_nic.engine.records.accessors import U64, action_at, engine_at, header_at
from fanin_nic.engine.records.actions import RECEIVED, RECEIVED_SIZE, received_at
from fanin_nic.native.codec import encode_header
from fanin_nic.native.libc import monotonic_ns, stack_bytes
from fanin_nic.native.memory import address_of, load_u32
from fanin_nic.port.icrc import contiguous_icrc, packet_icrc
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.fabric.topology import Topology
from fanin_sim.jit import compiled
from fanin_sim.jobs.job import Job, members_of
from fanin_wire import abi, fields

CHILDREN = 4
PORT = 0xC000  # UDP source port of all packets
ELEMENT = 4  # bytes: f32
BATCH = 16  # packets between two checks of the actions, as in a super-packet
TRANSPORT_SIZE, ICRC_SIZE = fields.TRANSPORT_SIZE, fields.ICRC_SIZE
NO_ICRC, ICRC_IN_ONE_OUT, ICRC_IN_AND_OUT = 0, 1, 2


@compiled
def run(base, received, count, icrc):
    """Gives packets to a switch and encapsulates the packets that it sends.

    Args:
        base: address of the engine's arena.
        received: address of `count` RECEIVED records.
        icrc: NO_ICRC; ICRC_IN_ONE_OUT, which checks each packet and computes the ICRC of the first result of a segment;
            or ICRC_IN_AND_OUT, which checks and computes all.

    Returns packets sent, duration in ns, and a sum of all ICRCs. If an ICRC is wrong, the first is -1.
    """
    e = engine_at(U64(base))
    frame = stack_bytes(TRANSPORT_SIZE)
    sent, taken, now, total = 0, int64(0), U64(e.now), uint32(0)
    start = monotonic_ns()
    while taken < count:
        end = min(taken + BATCH, count)
        if icrc != NO_ICRC and not are_right(e, received, taken, end):
            return -1, 0, total
        taken = events.packets(base, received, taken, end, now)
        for index in range(e.action_count):
            total ^= encapsulate(e, U64(index), frame, sent, icrc)
            sent += 1
        e.action_count = 0
    return sent, monotonic_ns() - start, total  # the sum prevents the compiler from removing the ICRCs


@compiled
def are_right(e, received, first, end):
    """Whether the ICRCs of the packets `first` to `end` - 1 are right."""
    for number in range(first, end):
        entry = received_at(U64(received) + U64(number) * RECEIVED_SIZE)
        found = contiguous_icrc(entry.source, e.address, uint32(PORT), entry.address, U64(entry.length), uint32(0))
        if found != load_u32(entry.address + U64(entry.length)):
            return False
    return True


@compiled
def encapsulate(e, index, frame, sent, icrc):
    """Writes the headers of a packet that the switch sends, and computes its ICRC as the port does."""
    action = action_at(e, index)
    encode_header(address_of(header_at(e, index)), frame)
    if icrc == ICRC_IN_AND_OUT or (icrc == ICRC_IN_ONE_OUT and sent % CHILDREN == 0):
        return packet_icrc(
            e.address,
            action.destination,
            uint32(PORT),
            frame,
            uint64(TRANSPORT_SIZE),
            action.payload,
            action.length,
            uint32(0),
        )
    return uint32(0)


class Load:
    """`segments` positions of a job with `payload` bytes each, and a contribution of each of four children to all."""

    def __init__(self, payload: int, segments: int, slots: int) -> None:
        limits = Limits(
            jobs=1,
            slots=slots,
            queues=1,
            requests=8,
            regions=8,
            actions=1024,
            max_chunk=payload,
            max_lease=slots,
            receive_segments=CHILDREN * slots,
        )
        simulation = Simulation(Topology.one_switch(CHILDREN), 0, limits=limits)
        job = Job(simulation, abi.Route.TREE, members_of(CHILDREN, 1), slots=slots, chunk=payload)
        job.join()
        self.engine = simulation.switches[0].engine
        self._kept = [nic.engine for nic in simulation.nics]
        self._make_packets([nic.address for nic in simulation.nics], job, payload, segments)
        self._tables = int(self.engine.header["payload_offset"])
        self._state = self.engine.arena[: self._tables].copy()

    def _make_packets(self, sources: list[int], job: Job, payload: int, segments: int) -> None:
        count, size = segments * CHILDREN, TRANSPORT_SIZE + payload + ICRC_SIZE
        self.memory = np.zeros((count, size), np.uint8)
        self.packets = np.zeros(count, RECEIVED)
        data = np.ones(payload // ELEMENT, np.float32).view(np.uint8)
        header = np.zeros(1, fields.HEADER)
        for name, value in {
            "opcode": fields.Opcode.CONTRIBUTION,
            "pkey": fields.DEFAULT_PKEY,
            "dqpn": fields.COLLECTIVE_QPN,
            "ceth_version": fields.WIRE_VERSION,
            "jid": job.jid,
            "key": job.key,
            "op": abi.Op.SUM,
            "dtype": abi.DType.F32,
            "flags": abi.ContributorClass.ALL << fields.CLASS_SHIFT | fields.Flag.HAS_DATA | fields.Flag.WANTS_RESULT,
            "length": payload,
            "rank_bitmap": 1,
            "contributions": 1,
        }.items():
            header[name] = value
        lease = int(self.engine.tables["jobs"][0]["slots"])
        for number in range(count):
            position, child = divmod(number, CHILDREN)
            header["position"] = header["sid"] = position
            header["seg"], header["source"], header["node_bitmap"] = position % lease, child, 1 << child
            self._level_and_direction(number, header, data, sources[child])

    def _level_and_direction(self, number: int, header: np.ndarray, data: np.ndarray, source: int) -> None:
        packet = self.memory[number]
        address = int(packet.ctypes.data)
        encode(header.ctypes.data, address)
        packet[TRANSPORT_SIZE:-ICRC_SIZE] = data
        length = len(packet) - ICRC_SIZE
        icrc = checksum(source, int(self.engine.header["address"]), address, length)
        packet[-ICRC_SIZE:] = np.frombuffer(int(icrc).to_bytes(ICRC_SIZE, "little"), np.uint8)
        self.packets[number] = (source, length, address)

    def restore(self) -> None:
        """Restores the switch to its state before the first packet."""
        self.engine.arena[: self._tables] = self._state

    def run(self, icrc: int) -> tuple[int, float]:
        """Processes all packets once. Returns how many the switch has sent, and the time in seconds."""
        sent, elapsed, _ = run(self.engine.base, self.packets.ctypes.data, len(self.packets), icrc)
        return int(sent), elapsed * 1e-9

    @property
    def working_set(self) -> int:
        """Bytes that are read and written: packets and slots."""
        job = self.engine.tables["jobs"][0]
        return self.memory.nbytes + int(job["slots"]) * int(self.engine.header["stride"])


@compiled
def encode(header, packet):
    encode_header(U64(header), U64(packet))


@compiled
def checksum(source, destination, packet, length):
    return contiguous_icrc(uint32(source), uint32(destination), uint32(PORT), U64(packet), U64(length), uint32(0))
