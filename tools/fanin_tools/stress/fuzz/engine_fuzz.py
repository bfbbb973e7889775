"""Hostile packets for real engines in this process, from a sender that knows the key of a job and one that does not."""

import time
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.records.tables import CHILD, JOB, SLOT, Counter
from fanin_sim.fabric.device import StrayWrite
from fanin_sim.fabric.invariants import BrokenInvariant
from fanin_sim.findings import Category
from fanin_tools.stress.fuzz import packet_mutation, packet_oracle
from fanin_tools.stress.fuzz.targets import FIRST_CHILD, JIDS, KEYS, NOW, PARENT, SLOTS, STRANGER, Target, make_targets
from fanin_tools.stress.tally import Tally, Work
from fanin_wire.abi import MAX_CHILDREN

SOURCES = (FIRST_CHILD, FIRST_CHILD + 1, PARENT, STRANGER)
LIFE = 48  # packets until an engine is reset to its first state
ROUND = 4000  # packets between two readings of the clock


class PacketSource(NamedTuple):
    """Addresses for compiled code, and the arrays at them."""

    templates: np.uint64
    lengths: np.uint64
    table: np.uint64  # of fields
    random: np.uint64
    place: np.uint64  # of the current packet
    amount: int  # of templates
    rows: int  # of the table
    packet: np.ndarray
    kept: tuple[np.ndarray, ...]

    def draw(self, bound: int) -> int:
        return int(packet_mutation.below(self.random, bound))

    def mutate(self) -> int:
        """Make an almost valid packet; its length."""
        return int(
            packet_mutation.mutate(
                self.place, self.templates, self.lengths, self.amount, self.table, self.rows, self.random
            )
        )


def place_of(array: np.ndarray) -> np.uint64:
    """Address, as compiled code takes it."""
    return np.uint64(array.ctypes.data)


def packet_source(seed: int) -> PacketSource:
    templates, lengths = packet_mutation.template_table()
    table = packet_mutation.field_table()
    random, packet = np.array([seed * 2 + 1], np.uint64), np.zeros(packet_mutation.ROOM, np.uint8)
    random ^= np.uint64(0x9E3779B97F4A7C15)
    kept: tuple[np.ndarray, ...] = (templates, lengths, table, random)
    places = {name: place_of(array) for name, array in zip(PacketSource._fields, [*kept, packet], strict=False)}
    return PacketSource(**places, amount=len(lengths), rows=len(table), packet=packet, kept=kept)


class EngineFuzzer:
    """One target, one sender. knows_key: the sender knows the key of the target's first job."""

    def __init__(self, target: Target, knows_key: bool, packets: PacketSource, tally: Tally) -> None:
        self._target, self._knows_key, self._packets, self._tally = target, knows_key, packets, tally
        self._engine = target.device.engine
        self._whole = self._engine.arena.copy()
        self._mirror = self._engine.arena.copy()
        self._protected = np.array(protected(target, jobs=(1,) if knows_key else (0, 1)), np.uint64)
        self._watched = target.device.watch.save()

    def run(self, count: int) -> None:
        for number in range(count):
            if number % LIFE == 0:
                self._engine.arena[:] = self._whole
                self._target.device.watch.restore(self._watched)
            self._one()

    def _one(self) -> None:
        packets, base, size = self._packets, self._engine.base, len(self._engine.arena)
        length = self._make()
        source = SOURCES[packets.draw(len(SOURCES))]
        opcode = int(packets.packet[0])
        packet_oracle.remember(base, self._mirror.ctypes.data, size)
        self._engine.packet(int(packets.place), length, source, NOW)
        verdict = packet_oracle.classify(
            base, self._mirror.ctypes.data, size, opcode, self._protected.ctypes.data, len(self._protected)
        )
        self._note(verdict, length, source)
        self._engine.batch_end(NOW)
        try:
            self._target.device.perform()
        except (StrayWrite, BrokenInvariant) as error:
            self._tally.find(Category.OTHER, f"{self._describe(length, source)}: {type(error).__name__} {error}")

    def _make(self) -> int:
        """Make the next packet; its length."""
        packets = self._packets
        length, kind = packets.mutate(), packets.draw(8)
        if self._knows_key and kind:
            packet_mutation.aim(packets.place, JIDS[0], KEYS[0], SLOTS, packets.random)
        elif kind < 6:
            packet_mutation.aim(packets.place, JIDS[kind & 1], KEYS[kind & 1] ^ (1 << kind), SLOTS, packets.random)
        packet_mutation.make_plausible(packets.place, np.uint64(length), packets.random)
        return length

    def _note(self, verdict: int, length: int, source: int) -> None:
        self._tally.work[Work.PACKETS] += 1
        if verdict > 0:
            self._tally.drops[Counter(verdict).name.lower()] += 1
        elif verdict == packet_oracle.Verdict.TAKEN:
            self._tally.work[Work.ACCEPTED] += 1
        else:
            self._tally.find(Category.OTHER, f"{self._describe(length, source)}: {packet_oracle.Verdict(verdict).name}")

    def _describe(self, length: int, source: int) -> str:
        data = self._packets.packet[:length].tobytes()
        return f"{self._target.name}, packet {data.hex()} from {source:#x}, {self._knows_key=}"


def protected(target: Target, jobs: tuple[int, ...]) -> list[tuple[int, int]]:
    """(offset, length) of memory in the arena that belongs to these jobs of a target."""
    engine = target.device.engine
    header, pieces = engine.header, []
    for index in jobs:
        job = engine.tables["jobs"][index]
        first, count = int(job["slot_base"]), int(job["slots"]) * int(job["buffers"])
        stride = int(header["stride"])
        pieces += [
            (int(header["job_offset"]) + index * JOB.itemsize, JOB.itemsize),
            (int(header["child_offset"]) + index * MAX_CHILDREN * CHILD.itemsize, MAX_CHILDREN * CHILD.itemsize),
            (int(header["slot_offset"]) + first * SLOT.itemsize, int(job["slots"]) * SLOT.itemsize),
            (int(header["payload_offset"]) + first * stride, count * stride),
        ]
    return pieces


def attack_engines(seconds: float, seed: int, tally: Tally) -> None:
    """Each kind of device from both kinds of senders in turns, for `seconds`."""
    packets = packet_source(seed)
    attacks = [
        EngineFuzzer(target, knows_key, packets, tally) for target in make_targets() for knows_key in (False, True)
    ]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for attack in attacks:
            attack.run(ROUND)
