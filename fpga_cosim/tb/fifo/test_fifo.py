"""Entries come out in order; a push into a full queue is lost."""

from collections import deque

import numpy as np

from fpga_cosim.tb.verilated import Module

ROOM = 4


def test_order_and_limits(generator: np.random.Generator) -> None:
    module = Module("fifo", {"WIDTH": 32, "ADDRESS": 2})
    inputs = np.zeros(4000, module.inputs)
    phase = np.arange(len(inputs)) // 100 % 3  # it fills, empties, and stays in between
    inputs["push"] = generator.random(len(inputs)) < np.array([0.9, 0.2, 0.5])[phase]
    inputs["pop"] = generator.random(len(inputs)) < np.array([0.2, 0.9, 0.5])[phase]
    inputs["data"] = generator.integers(0, 1 << 32, len(inputs))
    queue: deque[int] = deque()
    seen = set()
    for given, came in zip(inputs, module.run(inputs), strict=True):
        assert (came["is_empty"], came["is_full"]) == (not queue, len(queue) == ROOM)
        assert not queue or came["first"] == queue[0]
        seen.add(len(queue))
        is_full = len(queue) == ROOM
        if given["pop"] and queue:
            queue.popleft()
        if given["push"] and not is_full:
            queue.append(given["data"])
    assert seen == set(range(ROOM + 1))
