"""Commands without gaps on few slots: each sees the results of earlier ones, and gives its beats back.

Some divide: then the mean is sent. Some payloads go into a buffer, and are computed when recalled.
"""

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
TYPES = {0: DType.I32, 1: DType.F16, 2: DType.I32}  # of the slots


class Command(NamedTuple):
    """kind: sum, copy, keep (the slot's value), store (into a buffer), or none (give back the payload). ranks: the
    divisor; 1: none. buffer: stored, or recalled; None: the data are the payload."""

    kind: str
    slot: int
    beats: int
    ring_beats: int
    ranks: int
    buffer: int | None


class Slots:
    """The memories of the slots: the values, their upper halves for f16, the values to send, and the buffers."""

    def __init__(self) -> None:
        self.low, self.high, self.sent, self.pending = (
            np.zeros((len(TYPES) << CHUNK, BYTES), np.uint8) for _ in range(4)
        )

    def take(self, command: Command, data: np.ndarray) -> None:
        """Copy, sum or keep data in a slot, then divide if there is a divisor; or store them."""
        if command.buffer is not None:
            buffer = self.pending[command.buffer << CHUNK :][: command.beats]
            if command.kind == "store":
                buffer[:] = data
                return
            data = buffer
        at = slice(command.slot << CHUNK, (command.slot << CHUNK) + len(data))
        if TYPES[command.slot] == DType.F16:
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
        return joined_halves(self.low[at], self.high[at])


def test_commands(generator: np.random.Generator) -> None:
    """Memory and ring answer one clock after the address. Sums, copies, means of i32 and f16, payloads given back, and
    buffers that an earlier command than the last one has stored."""
    module = Module("accumulator")
    ring = generator.integers(0, 256, (1 << RING, BYTES), np.uint8)
    memory, model, expected_head = Slots(), Slots(), 0
    commands: list[Command] = []
    last_stored: int | None = None
    for _ in range(600):
        kind, slot = str(generator.choice(["sum", "sum", "copy", "none"])), int(generator.choice(list(TYPES)))
        beats = int(generator.choice([1, 1, 2, 5, 16]))
        ranks = int(generator.choice([1, 1, 2, 3, 100]))
        if ranks > 1 and generator.random() < 0.2:
            kind = "keep"
        buffer, draw, others = None, generator.random(), [each for each in TYPES if each != last_stored]
        last_stored = None
        if draw < 0.2:
            kind, ranks, buffer = "store", 1, int(generator.choice(list(TYPES)))
            last_stored = buffer
        elif draw < 0.4 and kind in ("sum", "copy"):
            buffer = int(generator.choice(others))
        of_ring = 0 if kind == "keep" or (buffer is not None and kind != "store") else beats
        commands.append(Command(kind, slot, beats, of_ring + int(generator.integers(0, 2)), ranks, buffer))
    inputs, place, released, read = np.zeros(1, module.inputs), 0, 0, ring[0]
    asked = asked_high = asked_pending = np.zeros(BYTES, np.uint8)
    clocks = sent = 0
    while True:
        clocks += 1
        inputs["ring_data"], inputs["read_data"], inputs["read_data_high"] = read, asked, asked_high
        inputs["pending_data"] = asked_pending
        offered = place < len(commands) and generator.random() < 0.9
        inputs["command_valid"] = offered
        if offered:
            command = commands[place]
            inputs["computes"], inputs["slot"] = command.kind != "none", command.slot
            inputs["op"], inputs["dtype"] = int(Op.SUM) if command.kind == "sum" else 0, int(TYPES[command.slot])
            inputs["adds"], inputs["divides"] = command.kind != "keep", command.ranks > 1
            inputs["stores"] = command.kind == "store"
            inputs["recalls"] = command.buffer is not None and command.kind != "store"
            inputs["buffer"] = command.buffer or 0
            inputs["reciprocal"], inputs["shift"] = reciprocal_of(max(2, command.ranks))
            inputs["slot_beats"], inputs["ring_beats"] = command.beats, command.ring_beats
        output = module.run(inputs)[0]
        read = ring[output["ring_address"]]
        asked, asked_high = (half[output["read_address"] % len(half)].copy() for half in (memory.low, memory.high))
        asked_pending = memory.pending[output["pending_read_address"] % len(memory.pending)].copy()
        released += int(output["release_beats"])
        if output["pending_write_enable"]:
            memory.pending[output["pending_write_address"]] = output["pending_write_data"]
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
    assert (memory.pending == model.pending).all()
    assert sent == sum(each.beats for each in commands if each.kind not in ("none", "store"))
    assert released == expected_head
    assert output["ring_head"] == expected_head % (1 << RING)
    work = sum(each.beats if each.kind != "none" else 1 for each in commands)
    assert clocks < 1.55 * work, f"{clocks} clocks for {work} beats"
