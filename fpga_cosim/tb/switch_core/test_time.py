"""Time: in a flood of frames, between two KEEPALIVEs, and where its counter wraps."""

import numpy as np

from fanin_reference import packets, spec
from fpga_cosim.tb import frames, traffic
from fpga_cosim.tb.one_job import contributions, joined
from fpga_cosim.tb.target import ADDRESS, taken_apart
from fpga_cosim.tb.verilated import Module

WRAP, INTERVAL_US, STEP_US = 1 << 40, 500_000, 10_000  # of now_us; of KEEPALIVE at most
LATER_US = 600_000  # more than a keep-alive interval
FRAMES, BEFORE, SOON = 2000, 100, 20  # questions without a gap, of 2 beats; those before the time goes on; answers


def test_children_are_told_in_a_flood(module: Module) -> None:
    """A child's questions keep the queue of headers full. KEEPALIVEs still come, among the answers."""
    target, job, addresses = joined(module, 2)
    query = packets.build("QUERY", addresses[0], ADDRESS, **job, source=0)
    flood = target.beats_of([frames.frame(addresses[0], ADDRESS, traffic.PORT, query)] * FRAMES)
    flood["now_us"][2 * BEFORE :] += LATER_US
    clocks = 8 * FRAMES
    out, _ = module.stream(flood, np.ones(clocks, np.uint8), np.ones(clocks, np.uint8))
    came = [taken_apart(frame) for frame in frames.from_beats(out)]
    told = [number for number, each in enumerate(came) if each.data[0] == spec.OPCODES["KEEPALIVE"]]
    assert [came[number].destination for number in told] == addresses
    assert len(came) == FRAMES + 2
    assert max(told) < BEFORE + SOON


def test_time_goes_on_where_its_counter_begins_again(module: Module) -> None:
    """For twice the detection time around the wrap: KEEPALIVEs come in time, no child is lost, and sums go on."""
    target, job, addresses = joined(module, 2)
    begin = WRAP - 5_000_000
    target.exchange_frames(begin, [])
    sent = dict.fromkeys(addresses, begin)
    for now in range(begin + STEP_US, begin + 10_000_000, STEP_US):
        alive = [
            (address, packets.build("KEEPALIVE", address, ADDRESS, **job, source=bit))
            for bit, address in enumerate(addresses)
        ]
        for each in target.exchange_at(now % WRAP, alive, traffic.PORT):
            assert each.data[0] == spec.OPCODES["KEEPALIVE"]
            if begin < sent[each.destination]:
                assert now - sent[each.destination] <= INTERVAL_US
            sent[each.destination] = now
    assert all(now - last <= INTERVAL_US for last in sent.values())
    came = target.exchange_frames(now % WRAP, contributions(job, addresses, 1, 256))
    assert [each.data[0] for each in came] == 2 * [spec.OPCODES["RESULT"]]
