"""A slot takes its next position only when no waiting packet reads its data; and a queue full of packets."""

import numpy as np

from fpga_cosim.tb.one_job import PAYLOAD, SLOTS, contribution, joined, streamed
from fpga_cosim.tb.target import taken_apart
from fpga_cosim.tb.verilated import Module

SIZE, STANDSTILL, CLOCKS = 1024, 600, 2000
CHILDREN = 4  # with 8 slots they get 32 results, and the queue has room for 16


def data(number: int) -> np.ndarray:
    return np.full(SIZE // 4, number, "<i4")


def test_a_result_that_is_still_sent(module: Module) -> None:
    """The sink takes no results at first. The child that may go on contributes to the next position of the slot."""
    target, job, addresses = joined(module, 2)
    sent = [contribution(job, address, bit, 0, data(10 + bit)) for bit, address in enumerate(addresses)]
    sent.append(contribution(job, addresses[0], 0, SLOTS, data(1000)))
    sent.append(contribution(job, addresses[1], 1, SLOTS, data(2000)))
    take = np.arange(CLOCKS) >= STANDSTILL
    came, _ = streamed(target, sent, take.astype(np.uint8))
    seen = [frame[PAYLOAD : PAYLOAD + SIZE] for frame in came]
    assert seen == [data(21).tobytes()] * 2 + [data(3000).tobytes()] * 2


def test_more_results_than_the_queue_holds(module: Module) -> None:
    """The sink takes no results of any slot at first. Then each child gets its own."""
    target, job, addresses = joined(module, CHILDREN)
    sent = [
        contribution(job, address, bit, position, data(10 * position + bit))
        for position in range(SLOTS)
        for bit, address in enumerate(addresses)
    ]
    take = np.arange(4 * CLOCKS) >= 2 * STANDSTILL
    came, _ = streamed(target, sent, take.astype(np.uint8))
    totals = [sum(10 * position + bit for bit in range(CHILDREN)) for position in range(SLOTS)]
    expected = [(address, data(total).tobytes()) for total in totals for address in addresses]
    assert [(taken_apart(frame).destination, frame[PAYLOAD : PAYLOAD + SIZE]) for frame in came] == expected
