"""The load of `fanin bench engine`: real packets, all of which are processed."""

import numpy as np
import pytest

from fanin_sim.scenario.switch_load import CHILDREN, ICRC_IN_AND_OUT, ICRC_IN_ONE_OUT, NO_ICRC, Load

PAYLOAD, SEGMENTS, SLOTS = 256, 12, 8  # slots are used again


@pytest.fixture(scope="module")
def load() -> Load:
    return Load(PAYLOAD, SEGMENTS, SLOTS)


@pytest.mark.parametrize("icrc", [NO_ICRC, ICRC_IN_ONE_OUT, ICRC_IN_AND_OUT])
def test_every_segment_has_a_result_for_each_child(load: Load, icrc: int) -> None:
    for _ in range(2):
        load.restore()
        before = load.engine.counters()
        assert load.run(icrc)[0] == SEGMENTS * CHILDREN
        after = load.engine.counters()
        assert {name for name in after if "drop" in name and after[name] != before[name]} == set()


def test_the_sums_are_there(load: Load) -> None:
    load.restore()
    load.run(NO_ICRC)
    stride = int(load.engine.header["stride"])
    slots = load.engine.tables["payload"].reshape(-1, stride)[:SLOTS, :PAYLOAD]
    assert np.all(slots.copy().view(np.float32) == CHILDREN)


def test_a_wrong_bit_is_found_where_the_icrc_is_checked(load: Load) -> None:
    load.restore()
    load.memory[5, 80] ^= 1
    try:
        assert load.run(ICRC_IN_ONE_OUT)[0] == -1
    finally:
        load.memory[5, 80] ^= 1
