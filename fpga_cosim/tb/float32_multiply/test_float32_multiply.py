"""The f32 multiplier equals the oracle of PROD, bit for bit."""

import numpy as np

from fanin_wire.operations import operation_by_name
from fpga_cosim.tb.float_units import MULTIPLY, products
from fpga_cosim.tb.floats import operands
from fpga_cosim.tb.verilated import Module

SIGN_AND_FRACTION = np.uint32(0x807FFFFF)


def check(a: np.ndarray, b: np.ndarray) -> None:
    seen = products(a, b)
    with np.errstate(all="ignore"):
        expected = operation_by_name("PROD").oracle(np.stack([a, b]).view(np.float32)).view(np.uint32)
    wrong = np.flatnonzero(seen != expected)
    assert not len(wrong), [f"{a[i]:08x} * {b[i]:08x}: {seen[i]:08x}, not {expected[i]:08x}" for i in wrong[:10]]


def test_products(vectors: int, generator: np.random.Generator) -> None:
    check(*operands(generator, vectors))


def test_products_at_the_edge_of_subnormals_and_of_infinity(vectors: int, generator: np.random.Generator) -> None:
    """Exponents whose sum is near the least or the greatest of a number."""
    a, b = operands(generator, vectors)
    low = generator.random(len(a)) < 0.5
    exponent = np.where(low, generator.integers(40, 90, len(a)), generator.integers(170, 210, len(a)))
    other = np.where(low, 127 - exponent, 381 - exponent) + generator.integers(-30, 4, len(a))
    for bits, field in ((a, exponent), (b, np.clip(other, 0, 254))):
        bits &= SIGN_AND_FRACTION
        bits |= field.astype(np.uint32) << np.uint32(23)
    check(a, b)


def test_stands_still_without_advance(generator: np.random.Generator) -> None:
    module = Module("float32_multiply")
    a, b = operands(generator, 400)
    steps = generator.integers(0, 2, 4 * len(a))
    inputs = np.zeros(len(steps), module.inputs)
    place = np.minimum(np.cumsum(steps) - steps, len(a) - 1)
    inputs["advance"], inputs["a"], inputs["b"] = steps, a[place], b[place]
    seen = module.run(inputs)["product"]
    with np.errstate(all="ignore"):
        expected = operation_by_name("PROD").oracle(np.stack([a, b]).view(np.float32)).view(np.uint32)
    ready = np.flatnonzero((place >= MULTIPLY) & (place < len(a) - 1))
    assert len(ready) > len(a)
    assert (seen[ready] == expected[place[ready] - MULTIPLY]).all()
