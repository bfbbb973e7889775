"""The other clock sees values of the source, whole, in order, and the last one in time."""

import numpy as np
import pytest

from fpga_cosim.tb.clocks import HALVES, M, S, TwoClocks
from fpga_cosim.tb.verilated import Module

WIDTH, STEPS, PERIODS = 64, 4000, 4  # periods of each side for a value to cross; two may be under way


@pytest.fixture(scope="module")
def crossing() -> Module:
    return Module("clock_crossing", {"WIDTH": WIDTH})


@pytest.mark.parametrize("halves", HALVES)
def test_values_stay_whole(crossing: Module, halves: tuple[int, int], generator: np.random.Generator) -> None:
    """A new value with each clock, all bits of it random."""
    clocks = TwoClocks(crossing, halves)
    given, seen = [0], []
    for _ in range(STEPS):
        rising, falling = clocks.step()
        if M in rising:
            seen.append(int(clocks.after["m_value"]))
        if S in falling:
            given.append(int(generator.integers(1 << WIDTH, dtype=np.uint64)))
            clocks.inputs["s_value"] = given[-1]
    places = [given.index(value) for value in seen]
    assert places == sorted(places)
    assert len(set(places)) > STEPS / (4 * PERIODS * sum(halves))


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("ports", [("s_rst",), ("m_rst",), ("s_rst", "m_rst")])
def test_a_value_comes_after_a_reset(crossing: Module, halves: tuple[int, int], ports: tuple[str, ...]) -> None:
    """A reset of one side or both, at any point of the handshake."""
    for delay in range(2 * sum(halves)):
        clocks = TwoClocks(crossing, halves)
        for value in (1, 2):
            clocks.inputs["s_value"] = value
            for _ in range(4 * PERIODS * sum(halves) + delay):
                clocks.step()
            assert clocks.after["m_value"] == value
            seen = clocks.reset(*ports)
            assert {int(each["m_value"]) for each in seen} <= ({0, value} if "m_rst" in ports else {value})
            assert clocks.after["m_value"] == value
