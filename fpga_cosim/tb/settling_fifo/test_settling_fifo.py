"""Entries come out in order, none before it has settled; a push into a full queue is lost."""

from collections import deque

import numpy as np

from fpga_cosim.tb.verilated import Module

ROOM, SETTLE = 4, 6


def test_order_age_and_limits(generator: np.random.Generator) -> None:
    module = Module("settling_fifo", {"WIDTH": 32, "ADDRESS": 2, "SETTLE": SETTLE})
    inputs = np.zeros(4000, module.inputs)
    phase = np.arange(len(inputs)) // 100 % 3  # it fills, empties, and stays in between
    inputs["push"] = generator.random(len(inputs)) < np.array([0.9, 0.2, 0.5])[phase]
    inputs["pop"] = generator.random(len(inputs)) < np.array([0.2, 0.9, 0.5])[phase]
    inputs["data"] = generator.integers(0, 1 << 32, len(inputs))
    queue: deque[tuple[int, int]] = deque()  # the clock in which an entry can be seen first, and the entry
    seen = set()
    for clock, (given, came) in enumerate(zip(inputs, module.run(inputs), strict=True)):
        is_settled, is_full = bool(queue) and queue[0][0] <= clock, len(queue) == ROOM
        assert (came["is_settled"], came["is_empty"], came["is_full"]) == (is_settled, not queue, is_full)
        assert not is_settled or came["first"] == queue[0][1]
        seen.add((len(queue), is_settled))
        if given["pop"] and is_settled:
            queue.popleft()
        if given["push"] and not is_full:
            queue.append((clock + SETTLE + 1, given["data"]))
    assert seen == {(0, False), *((count, settled) for count in range(1, ROOM + 1) for settled in (False, True))}
