"""Beats of all operations and types, mixed from beat to beat and with stops, equal the oracle bit for bit."""

from __future__ import annotations

import numpy as np

from fanin_conform.profile import read
from fanin_wire.datatypes import DATATYPES, Family
from fanin_wire.operations import OPERATIONS
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.tools import ROOT
from fpga_cosim.tb.verilated import Module

PROFILE = read((ROOT / "fpga_cosim/profile.toml").read_text())
BYTES, LATENCY, STOPPED = 64, 4, 0.25


def rows(generator: np.random.Generator, beats: int, family: Family) -> np.ndarray:
    """Two operands of so many beats, as bytes."""
    if family == Family.FLOAT:
        a, b = operands(generator, beats * BYTES // 4)
        pick = generator.permutation(len(a))[: beats * BYTES // 4]
        return np.stack([a[pick], b[pick]]).view(np.uint8)
    raw = generator.integers(0, 256, (2, beats * BYTES), np.uint8)
    edges = generator.choice(np.array([0, 0, 0x7F, 0x80, 0xFF], np.uint8), raw.shape)
    return np.where(generator.integers(0, 2, raw.shape), raw, edges)


def test_beats(vectors: int, generator: np.random.Generator) -> None:
    module = Module("vector_unit")
    beats = max(20, vectors // 8000)
    given, expected = [], []
    for datatype in DATATYPES:
        for operation in OPERATIONS:
            if not (operation.takes(datatype) and PROFILE.has(operation, datatype)):
                continue
            pair = rows(generator, beats, datatype.family)
            with np.errstate(all="ignore"):
                total = operation.partial(pair.view(datatype.numpy), datatype).view(np.uint8)
            inputs = np.zeros(beats, module.inputs)
            inputs["op"], inputs["dtype"] = operation.code, datatype.code
            inputs["a"], inputs["b"] = pair.reshape(2, beats, BYTES)
            given.append(inputs)
            expected.append(total.reshape(beats, BYTES))
            copied = inputs.copy()
            copied["op"] = 0
            given.append(copied[:2])
            expected.append(copied["b"][:2])
    every, right = np.concatenate(given), np.concatenate(expected)
    order = generator.permutation(len(every))
    every, right = every[order], right[order]
    steps = generator.random(2 * len(every)) >= STOPPED
    place = np.minimum(np.cumsum(steps) - steps, len(every) - 1)
    inputs = every[place]
    inputs["advance"] = steps
    results = module.run(inputs)["result"]
    ready = np.flatnonzero((place >= LATENCY) & (place < len(every) - 1))
    wrong = ready[(results[ready] != right[place[ready] - LATENCY]).any(1)]
    names = [(int(every["op"][place[i] - LATENCY]), int(every["dtype"][place[i] - LATENCY])) for i in wrong[:10]]
    assert not len(wrong), f"op and dtype of wrong beats: {names}"
    assert set(place[ready] - LATENCY) >= set(range(len(every) - LATENCY - 1))
