"""Beats of all operations and types, mixed and with pauses, equal the oracle bit for bit."""

from typing import NamedTuple

import numpy as np

from fanin_conform.profile import read
from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family, datatype_by_name
from fanin_wire.operations import OPERATIONS, Operation
from fpga_cosim.tb.floats import BYTES, halves, operands
from fpga_cosim.tb.tools import ROOT
from fpga_cosim.tb.verilated import Module

PROFILE = read((ROOT / "fpga_cosim/profile.toml").read_text())
F32 = datatype_by_name("f32")
LATENCY, ROUNDED, STOPPED = 8, 10, 0.25
WIDTHS = {"f32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}  # of exponent and fraction


class Expected(NamedTuple):
    """Expected output of beats, as bytes: the kept value (with an upper half for f16 and bf16), and the sent one.

    None: any value.
    """

    result: np.ndarray
    result_high: np.ndarray | None
    rounded: np.ndarray | None


def floats(generator: np.random.Generator, count: int, name: str) -> np.ndarray:
    """Two rows of numbers of a type: special and random ones, mixed."""
    a, b = operands(generator, count, *WIDTHS[name])
    pick = generator.permutation(len(a))[:count]
    return np.stack([a[pick], b[pick]])


def rows(generator: np.random.Generator, beats: int, datatype: DataType) -> np.ndarray:
    if datatype.family == Family.FLOAT:
        return floats(generator, beats * BYTES // 4, "f32").view(np.uint8)
    raw = generator.integers(0, 256, (2, beats * BYTES), np.uint8)
    edges = generator.choice(np.array([0, 0, 0x7F, 0x80, 0xFF], np.uint8), raw.shape)
    return np.where(generator.integers(0, 2, raw.shape), raw, edges)


def same_type(
    module: Module, generator: np.random.Generator, beats: int, operation: Operation, datatype: DataType
) -> tuple[np.ndarray, Expected]:
    """Beats of a type that is computed as it is."""
    pair = rows(generator, beats, datatype)
    with np.errstate(all="ignore"):
        total = operation.partial(pair.view(datatype.numpy), datatype).view(np.uint8).reshape(beats, BYTES)
    inputs = np.zeros(beats, module.inputs)
    inputs["a"], inputs["b"] = pair.reshape(2, beats, BYTES)
    return inputs, Expected(total, None, total)


def small_float(
    module: Module, generator: np.random.Generator, beats: int, operation: Operation, datatype: DataType
) -> tuple[np.ndarray, Expected]:
    """Beats of f16 or bf16, with a value in f32."""
    count = beats * BYTES // 2
    value = floats(generator, count, "f32")[0].view(np.float32)
    data = floats(generator, count, datatype.name)[0].view(datatype.numpy)
    with np.errstate(all="ignore"):
        total = operation.partial(np.stack([value, arithmetic.widen(data, datatype)]), F32)
        rounded = arithmetic.narrow(total, datatype).view(np.uint8).reshape(beats, BYTES)
    inputs = np.zeros(beats, module.inputs)
    inputs["a"], inputs["a_high"] = halves(value, beats)
    inputs["b"] = data.view(np.uint8).reshape(beats, BYTES)
    return inputs, Expected(*halves(total, beats), rounded)


def copied(inputs: np.ndarray, datatype: DataType) -> tuple[np.ndarray, Expected]:
    """The same beats as the first data of a slot."""
    inputs = inputs.copy()
    inputs["op"] = 0
    if datatype.family != Family.SMALL_FLOAT:
        return inputs, Expected(inputs["b"], None, inputs["b"])
    wide = arithmetic.widen(inputs["b"].reshape(-1).view(datatype.numpy), datatype)
    return inputs, Expected(*halves(wide, len(inputs)), inputs["b"])


def kept(inputs: np.ndarray, right: Expected) -> tuple[np.ndarray, Expected]:
    """The same beats without data: the value is kept, and not sent."""
    inputs = inputs.copy()
    inputs["keeps"] = 1
    high = None if right.result_high is None else inputs["a_high"]
    return inputs, Expected(inputs["a"], high, None)


def test_beats(vectors: int, generator: np.random.Generator) -> None:
    module = Module("vector_unit")
    beats = max(20, vectors // 8000)
    given: list[np.ndarray] = []
    expected: list[Expected] = []
    for datatype in DATATYPES:
        make = small_float if datatype.family == Family.SMALL_FLOAT else same_type
        for operation in OPERATIONS:
            if not (operation.takes(datatype) and PROFILE.has(operation, datatype)):
                continue
            inputs, right = make(module, generator, beats, operation, datatype)
            inputs["op"], inputs["dtype"] = operation.code, datatype.code
            for beat, all_of_it in ((inputs, right), copied(inputs[:2], datatype), kept(inputs[:2], right)):
                given.append(beat)
                expected.append(all_of_it)
    every = np.concatenate(given)
    has_high = np.concatenate([np.full(len(each.result), each.result_high is not None) for each in expected])
    high = np.concatenate([each.result if each.result_high is None else each.result_high for each in expected])
    is_sent = np.concatenate([np.full(len(each.result), each.rounded is not None) for each in expected])
    sent = np.concatenate([each.result if each.rounded is None else each.rounded for each in expected])
    right_of = {"result": np.concatenate([each.result for each in expected]), "result_high": high, "rounded": sent}
    some = {"result_high": has_high, "rounded": is_sent}

    order = generator.permutation(len(every))
    steps = generator.random(2 * len(every)) >= STOPPED
    place = np.minimum(np.cumsum(steps) - steps, len(every) - 1)
    inputs = every[order][place]
    inputs["advance"] = steps
    for port in ("a", "a_high"):
        inputs[port] = every[port][order][np.maximum(place - 1, 0)]
    results = module.run(inputs)
    for port, latency in (("result", LATENCY), ("result_high", LATENCY), ("rounded", ROUNDED)):
        ready = np.flatnonzero((place >= latency) & (place < len(every) - 1))
        beat = order[place[ready] - latency]
        counts = some[port][beat] if port in some else np.ones(len(beat), bool)
        wrong = beat[counts & (results[port][ready] != right_of[port][beat]).any(1)]
        names = [(int(every["op"][i]), int(every["dtype"][i])) for i in wrong[:10]]
        assert not len(wrong), f"{port}: op and dtype of wrong beats: {names}"
        assert set(place[ready] - latency) >= set(range(len(every) - latency - 1))
