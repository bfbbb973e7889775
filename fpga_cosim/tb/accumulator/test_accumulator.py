"""Commands one behind the other on few slots: each sees what those before it have written, and gives its beats back."""

from __future__ import annotations

import numpy as np

from fanin_wire import arithmetic
from fanin_wire.abi import DType, Op
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.floats import BYTES, halves, joined_halves
from fpga_cosim.tb.verilated import Module

RING, CHUNK = 7, 4
F16, F32, SUM = datatype_by_name("f16"), datatype_by_name("f32"), operation_by_name("SUM")
TYPES = {0: DType["I32"], 1: DType["F16"], 2: DType["I32"]}  # of the slots


class Slots:
    """The memories of the slots: what is computed, its upper half for f16, and what is sent."""

    def __init__(self) -> None:
        self.low, self.high, self.sent = (np.zeros((len(TYPES) << CHUNK, BYTES), np.uint8) for _ in range(3))

    def take(self, slot: int, data: np.ndarray, is_first: bool) -> None:
        """Data are copied or summed into a slot."""
        at = slice(slot << CHUNK, (slot << CHUNK) + len(data))
        if TYPES[slot] == DType["F16"]:
            value = arithmetic.widen(data.reshape(-1).view("<f2"), F16)
            with np.errstate(all="ignore"):
                total = value if is_first else SUM.partial(np.stack([self.halves(at), value]), F32)
                rounded = arithmetic.narrow(total, F16).view(np.uint8).reshape(data.shape)
            self.sent[at] = data if is_first else rounded
            self.low[at], self.high[at] = halves(total, len(data))
        else:
            total = data.view("<u4") + (0 if is_first else self.low[at].view("<u4"))
            self.low[at] = self.sent[at] = total.view(np.uint8)

    def halves(self, at: slice) -> np.ndarray:
        """The f32 numbers of some beats."""
        return joined_halves(self.low[at], self.high[at])


def test_commands(generator: np.random.Generator) -> None:
    """Memory and ring answer one clock after the address. Sums of i32 and f16, copies, and payloads given back."""
    module = Module("accumulator")
    ring = generator.integers(0, 256, (1 << RING, BYTES), np.uint8)
    memory, model, expected_head = Slots(), Slots(), 0
    commands: list[tuple[str, int, int, int]] = []
    for _ in range(600):
        kind, slot = str(generator.choice(["sum", "sum", "copy", "none"])), int(generator.choice(list(TYPES)))
        beats = int(generator.choice([1, 1, 2, 5, 16]))
        commands.append((kind, slot, beats, beats + int(generator.integers(0, 2))))
    inputs, place, released, read = np.zeros(1, module.inputs), 0, 0, ring[0]
    asked = asked_high = np.zeros(BYTES, np.uint8)
    clocks = 0
    while True:
        clocks += 1
        inputs["ring_data"], inputs["read_data"], inputs["read_data_high"] = read, asked, asked_high
        offered = place < len(commands) and generator.random() < 0.9
        inputs["command_valid"] = offered
        if offered:
            kind, slot, beats, kept = commands[place]
            inputs["computes"], inputs["slot_beat"] = kind != "none", slot << CHUNK
            inputs["op"], inputs["dtype"] = int(Op["SUM"]) if kind == "sum" else 0, int(TYPES[slot])
            inputs["slot_beats"], inputs["ring_beats"] = beats, kept
        output = module.run(inputs)[0]
        read = ring[output["ring_address"]]
        asked, asked_high = (half[output["read_address"] % len(half)].copy() for half in (memory.low, memory.high))
        released += int(output["release_beats"])
        if output["write_enable"]:
            memory.low[output["write_address"]] = output["write_data"]
            memory.high[output["write_address"]] = output["write_data_high"]
        if output["send_enable"]:
            memory.sent[output["send_address"]] = output["send_data"]
        if offered and output["command_ready"]:
            if kind != "none":
                data = np.take(ring, range(expected_head, expected_head + beats), 0, mode="wrap")
                model.take(slot, data, is_first=kind == "copy")
            expected_head += kept
            place += 1
        elif place == len(commands) and output["is_idle"]:
            break
    assert (memory.low == model.low).all()
    assert (memory.high[1 << CHUNK : 2 << CHUNK] == model.high[1 << CHUNK : 2 << CHUNK]).all()
    assert (memory.sent == model.sent).all()
    assert released == expected_head
    assert output["ring_head"] == expected_head % (1 << RING)
    work = sum(beats if kind != "none" else 1 for kind, _, beats, _ in commands)
    assert clocks < 1.7 * work, f"{clocks} clocks for {work} beats"
