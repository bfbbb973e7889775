"""Clocks of a contribution in steady state, and from the last one to the result."""

import numpy as np
import pytest

from fanin_wire.abi import JobFlag, Op
from fpga_cosim.tb import frames
from fpga_cosim.tb.one_job import PAYLOAD, contributions, joined, streamed
from fpga_cosim.tb.verilated import Module

POSITIONS = 24
# The least share of one beat a clock, by bytes of payload and children. docs/fpga.md has the measurements.
LEAST = {256: {2: 0.58, 4: 0.55, 8: 0.54}}
MIN_SHARE_OF_OTHERS = 0.95
# In the order of the bits, 1 KiB: where the children come in this order, and from the last to the first
MIN_SHARE_IN_ORDER = {"ascending": {2: 0.95, 4: 0.95}, "descending": {2: 0.7, 4: 0.6}}
# Clocks from the last beat of the last contribution to the first of the first result, of 1 KiB; then the same again
LONGEST = {"SUM": (45, 45), "MEAN": (85, 50)}


@pytest.mark.parametrize("op", ["SUM", "MEAN"])
@pytest.mark.parametrize("children", [2, 4, 8])
def test_clocks_a_packet(module: Module, children: int, size: int, op: str) -> None:
    target, job, addresses = joined(module, children, size)
    sent = contributions(job, addresses, POSITIONS, size, op=int(Op[op]), contributions=1)
    bus = -(-len(sent[0]) // frames.BEAT)
    came, when = streamed(target, sent, np.ones(8 * bus * len(sent) + 400, np.uint8))
    assert len(came) == len(sent), "a result for each contribution"
    for number, frame in enumerate(came):
        position = number // children
        total = 100 * sum(range(children)) + children * position
        value = total // children if op == "MEAN" else total
        assert frame[PAYLOAD : PAYLOAD + size] == np.full(size // 4, value, "<i4").tobytes()
    per_position = (int(when[-1]) - int(when[0])) / (POSITIONS - 1 + 1 / 2) / children
    share = bus / per_position
    print(f"{op}, {children} children, {size} B: {per_position:.1f} clocks a packet, bus {bus}: {100 * share:.0f} %")
    assert share > LEAST.get(size, {}).get(children, MIN_SHARE_OF_OTHERS)


@pytest.mark.parametrize("arrival", MIN_SHARE_IN_ORDER)
@pytest.mark.parametrize("children", [2, 4])
def test_clocks_a_packet_in_order(module: Module, children: int, arrival: str) -> None:
    target, job, addresses = joined(module, children, flags=int(JobFlag.REPRODUCIBLE_RUN))
    sent = contributions(job, addresses, POSITIONS, 1024)
    if arrival == "descending":
        sent = [sent[at + bit] for at in range(0, len(sent), children) for bit in reversed(range(children))]
    bus = -(-len(sent[0]) // frames.BEAT)
    came, when = streamed(target, sent, np.ones(8 * bus * len(sent) + 400, np.uint8))
    assert len(came) == len(sent)
    clocks = (int(when[-1]) - int(when[0])) / (POSITIONS - 1 + 1 / 2) / children
    print(f"{arrival}, {children} children: {clocks:.1f} clocks a packet, bus {bus}: {100 * bus / clocks:.0f} %")
    assert bus / clocks > MIN_SHARE_IN_ORDER[arrival][children]


@pytest.mark.parametrize("op", ["SUM", "MEAN"])
def test_latency(module: Module, op: str) -> None:
    target, job, addresses = joined(module, 2)
    sent = contributions(job, addresses, 2, 1024, op=int(Op[op]), contributions=1)
    for (first, last), longest in zip((sent[:2], sent[2:]), LONGEST[op], strict=True):
        streamed(target, [first], np.ones(200, np.uint8))
        came, when = streamed(target, [last], np.ones(300, np.uint8))
        clocks = int(when[0]) - (-(-len(last) // frames.BEAT) - 1)
        print(f"latency of {op}: {clocks} clocks")
        assert clocks < longest
        assert len(came) == 2
