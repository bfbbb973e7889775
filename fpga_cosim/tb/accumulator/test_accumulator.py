"""Commands one behind the other on few slots: each sees what those before it have written, and gives its beats back."""

from __future__ import annotations

import numpy as np

from fanin_wire.abi import DType, Op
from fpga_cosim.tb.verilated import Module

BEAT, RING, CHUNK, SLOTS = 64, 7, 4, 3


def test_commands(generator: np.random.Generator) -> None:
    """Memory and ring answer one clock after the address. Sums of i32; every third command is a copy or none."""
    module = Module("accumulator")
    ring = generator.integers(0, 256, (1 << RING, BEAT), np.uint8)
    memory = np.zeros((1 << 13, BEAT), np.uint8)
    model, expected_head, commands = memory.copy(), 0, []
    for _ in range(500):
        kind, slot = generator.choice(["sum", "sum", "copy", "none"]), int(generator.integers(0, SLOTS)) << CHUNK
        beats = int(generator.choice([1, 1, 2, 5, 16]))
        commands.append((kind, slot, beats, beats + int(generator.integers(0, 2))))
    inputs, place, released, asked, read = np.zeros(1, module.inputs), 0, 0, np.zeros(BEAT, np.uint8), ring[0]
    clocks = 0
    while True:
        clocks += 1
        inputs["ring_data"], inputs["read_data"] = read, asked
        offered = place < len(commands) and generator.random() < 0.9
        inputs["command_valid"] = offered
        if offered:
            kind, slot, beats, kept = commands[place]
            inputs["computes"], inputs["slot_beat"] = kind != "none", slot
            inputs["op"], inputs["dtype"] = int(Op["SUM"]) if kind == "sum" else 0, int(DType["I32"])
            inputs["slot_beats"], inputs["ring_beats"] = beats, kept
        output = module.run(inputs)[0]
        read, asked = ring[output["ring_address"]], memory[output["read_address"]].copy()
        released += int(output["release_beats"])
        if output["write_enable"]:
            memory[output["write_address"]] = output["write_data"]
        if offered and output["command_ready"]:
            data = np.take(ring, range(expected_head, expected_head + beats), 0, mode="wrap").view("<u4")
            if kind != "none":
                before = model[slot : slot + beats].view("<u4")
                model[slot : slot + beats] = (before + data if kind == "sum" else data).view(np.uint8)
            expected_head += kept
            place += 1
        elif place == len(commands) and output["is_idle"]:
            break
    assert (memory == model).all()
    assert released == expected_head
    assert output["ring_head"] == expected_head % (1 << RING)
    work = sum(beats if kind != "none" else 1 for kind, _, beats, _ in commands)
    assert clocks < 1.7 * work, f"{clocks} clocks for {work} beats"
