"""A client that posts garbage ends its own job only. Its later valid requests are served."""

import numpy as np
import pytest

from fanin_wire import abi
from fanin_wire.abi import Status, WqeOpcode
from tests.lanes.stepped_lanes import JID, SteppedLanes

REQUESTS = 200
TURNS = 3 * REQUESTS  # queries come back one after the other


def garbage(random: np.random.Generator) -> np.ndarray:
    """A WQE of random bytes; half of them have a real opcode, and the client's own job."""
    wqe = np.frombuffer(random.bytes(abi.WQE.itemsize), abi.WQE).copy()
    if random.random() < 0.5:
        wqe["jid"] = JID
        wqe["opcode"] = random.choice([WqeOpcode.COLLECTIVE, WqeOpcode.QUERY])
        wqe["segments"] = random.integers(0, 100)
    return wqe


def run(lanes: SteppedLanes) -> list[np.void]:
    """Let the lanes run, and end jobs in all. Returns the client's completions."""
    found = []
    for _ in range(TURNS):
        for core in lanes.cores:
            lanes.turn(core.number)
        lanes.host.spread_ends()
        found += lanes.completions()
    return found


def is_served(lanes: SteppedLanes) -> bool:
    lanes.joined()
    lanes.post(wr_id=7)
    (cqe,) = run(lanes)
    return bool((cqe["wr_id"], cqe["status"]) == (7, Status.SUCCESS))


@pytest.mark.parametrize("seed", range(5))
def test_garbage_is_answered_one_for_one(lanes, seed):
    random = np.random.default_rng(seed)
    lanes.joined()
    wqes = [garbage(random) for _ in range(REQUESTS)]
    for wqe in wqes:
        lanes.post_record(wqe)
    found = run(lanes)
    assert sorted(int(cqe["wr_id"]) for cqe in found) == sorted(int(wqe["wr_id"][0]) for wqe in wqes)
    assert not any(cqe["status"] == Status.SUCCESS for cqe in found if cqe["opcode"] != WqeOpcode.QUERY)
    lanes.left()
    assert is_served(lanes)


@pytest.mark.parametrize("counters", [(1 << 31, 0), (0, 1), (257, 0), (5, 0xFFFFFFFF)])
def test_scribbled_counters_do_no_harm(lanes, counters):
    lanes.joined()
    lanes.ring["producer"], lanes.ring["consumer"] = counters
    run(lanes)
    lanes.left()
    lanes.ring["producer"] = lanes.ring["consumer"] = 0
    assert is_served(lanes)
