"""Reciprocals equal those of whole numbers in Python, and are kept."""

import numpy as np

from fpga_cosim.tb.divisors import as_f32, divisors, reciprocal_of
from fpga_cosim.tb.verilated import Module

KEPT, NEW, ENTRIES = 3, 37, 6  # clocks until a divisor is ready


def asked(module: Module, divisor: int, is_float: bool) -> tuple[int, int, int]:
    """The reciprocal and the shift of a divisor, and the clocks until they were ready."""
    inputs = np.zeros(NEW + 3, module.inputs)
    inputs["valid"], inputs["divisor"], inputs["is_float"] = 1, divisor, is_float
    ready = module.run(inputs)
    module.run(np.zeros(1, module.inputs))
    clocks = int(np.argmax(ready["ready"]))
    assert ready["ready"][clocks:].all()
    assert len(set(ready["reciprocal"][clocks:])) == len(set(ready["shift"][clocks:])) == 1
    return int(ready["reciprocal"][clocks]), int(ready["shift"][clocks]), clocks


def test_reciprocals(vectors: int, generator: np.random.Generator) -> None:
    module = Module("reciprocal_table")
    for divisor in divisors(generator, vectors // 100):
        for is_float in (False, True):
            *found, _ = asked(module, divisor, is_float)
            assert tuple(found) == reciprocal_of(as_f32(divisor) if is_float else divisor), (divisor, is_float)


def test_divisors_of_before_are_kept() -> None:
    """Each in its place; another one with the same low bits takes it; none after a reset."""
    module = Module("reciprocal_table")
    places = range(2, 2 + (1 << ENTRIES))
    assert [asked(module, each, False)[2] for each in places] == len(places) * [NEW]
    assert [asked(module, each, True)[2] for each in places] == len(places) * [KEPT]
    other = 5 + (1 << ENTRIES)
    assert [asked(module, each, False)[2] for each in (other, other, 5, 6)] == [NEW, KEPT, NEW, KEPT]
    assert asked(module, 5, False)[:2] == reciprocal_of(5)
    module.reset()
    assert asked(module, 6, False)[2] == NEW
