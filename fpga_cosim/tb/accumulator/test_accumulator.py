"""Commands one behind the other on few slots: each sees what those before it have written, and gives its beats back.

Some divide: then the mean is what is sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fanin_wire import arithmetic
from fanin_wire.abi import DType, Op
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.divisors import reciprocal_of
from fpga_cosim.tb.floats import BYTES, halves, joined_halves
from fpga_cosim.tb.verilated import Module

RING, CHUNK = 7, 4
F16, F32, I32 = (datatype_by_name(name) for name in ("f16", "f32", "i32"))
SUM, MEAN = operation_by_name("SUM"), operation_by_name("MEAN")
TYPES = {0: DType["I32"], 1: DType["F16"], 2: DType["I32"]}  # of the slots


class Command(NamedTuple):
    """kind: sum, copy, keep (what the slot has), or none (the payload is given back). ranks: the divisor; 1: none."""

    kind: str
    slot: int
    beats: int
    ring_beats: int
    ranks: int


class Slots:
    """The memories of the slots: what is computed, its upper half for f16, and what is sent."""

    def __init__(self) -> None:
        self.low, self.high, self.sent = (np.zeros((len(TYPES) << CHUNK, BYTES), np.uint8) for _ in range(3))

    def take(self, command: Command, data: np.ndarray) -> None:
        """Data are copied or summed into a slot, or what it has is kept; then it is divided, if there is a divisor."""
        at = slice(command.slot << CHUNK, (command.slot << CHUNK) + len(data))
        if TYPES[command.slot] == DType["F16"]:
            value = arithmetic.widen(data.reshape(-1).view("<f2"), F16)
            with np.errstate(all="ignore"):
                sums = {"sum": SUM.partial(np.stack([self.halves(at), value]), F32)}
                total = (sums | {"copy": value, "keep": self.halves(at)})[command.kind]
                mean = MEAN.finish(total, command.ranks, F16).view(np.uint8).reshape(data.shape)
            self.sent[at] = data if command.kind == "copy" and command.ranks == 1 else mean
            self.low[at], self.high[at] = halves(total, len(data))
        else:
            value, old = data.view("<i4"), self.low[at].view("<i4")
            total = {"sum": value + old, "copy": value, "keep": old}[command.kind]
            self.low[at] = total.view(np.uint8)
            self.sent[at] = MEAN.finish(total, command.ranks, I32).view(np.uint8)

    def halves(self, at: slice) -> np.ndarray:
        """The f32 numbers of some beats."""
        return joined_halves(self.low[at], self.high[at])


def test_commands(generator: np.random.Generator) -> None:
    """Memory and ring answer one clock after the address. Sums, copies, means of i32 and f16, payloads given back."""
    module = Module("accumulator")
    ring = generator.integers(0, 256, (1 << RING, BYTES), np.uint8)
    memory, model, expected_head = Slots(), Slots(), 0
    commands: list[Command] = []
    for _ in range(600):
        kind, slot = str(generator.choice(["sum", "sum", "copy", "none"])), int(generator.choice(list(TYPES)))
        beats = int(generator.choice([1, 1, 2, 5, 16]))
        ranks = int(generator.choice([1, 1, 2, 3, 100]))
        if ranks > 1 and generator.random() < 0.2:
            kind = "keep"
        kept = 0 if kind == "keep" else beats
        commands.append(Command(kind, slot, beats, kept + int(generator.integers(0, 2)), ranks))
    inputs, place, released, read = np.zeros(1, module.inputs), 0, 0, ring[0]
    asked = asked_high = np.zeros(BYTES, np.uint8)
    clocks = sent = 0
    while True:
        clocks += 1
        inputs["ring_data"], inputs["read_data"], inputs["read_data_high"] = read, asked, asked_high
        offered = place < len(commands) and generator.random() < 0.9
        inputs["command_valid"] = offered
        if offered:
            command = commands[place]
            inputs["computes"], inputs["slot_beat"] = command.kind != "none", command.slot << CHUNK
            inputs["op"], inputs["dtype"] = int(Op["SUM"]) if command.kind == "sum" else 0, int(TYPES[command.slot])
            inputs["adds"], inputs["divides"] = command.kind != "keep", command.ranks > 1
            inputs["reciprocal"], inputs["shift"] = reciprocal_of(max(2, command.ranks))
            inputs["slot_beats"], inputs["ring_beats"] = command.beats, command.ring_beats
        output = module.run(inputs)[0]
        read = ring[output["ring_address"]]
        asked, asked_high = (half[output["read_address"] % len(half)].copy() for half in (memory.low, memory.high))
        released += int(output["release_beats"])
        if output["write_enable"]:
            memory.low[output["write_address"]] = output["write_data"]
            memory.high[output["write_address"]] = output["write_data_high"]
        if output["send_enable"]:
            memory.sent[output["send_address"]] = output["send_data"]
            sent += 1
        if offered and output["command_ready"]:
            if command.kind != "none":
                data = np.take(ring, range(expected_head, expected_head + command.beats), 0, mode="wrap")
                model.take(command, data)
            expected_head += command.ring_beats
            place += 1
        elif place == len(commands) and output["is_idle"]:
            break
    assert (memory.low == model.low).all()
    assert (memory.high[1 << CHUNK : 2 << CHUNK] == model.high[1 << CHUNK : 2 << CHUNK]).all()
    assert (memory.sent == model.sent).all()
    assert sent == sum(each.beats for each in commands if each.kind != "none")
    assert released == expected_head
    assert output["ring_head"] == expected_head % (1 << RING)
    work = sum(each.beats if each.kind != "none" else 1 for each in commands)
    assert clocks < 1.55 * work, f"{clocks} clocks for {work} beats"
