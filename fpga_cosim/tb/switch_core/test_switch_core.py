"""The switches in Verilog and in plain Python get the same packets, and must send and count the same."""

import numpy as np

from fanin_conform import datagram
from fanin_reference.switch import Switch
from fpga_cosim.tb import frames, traffic
from fpga_cosim.tb.target import ADDRESS, GROUP, RtlTarget, taken_apart
from fpga_cosim.tb.traffic import Traffic
from fpga_cosim.tb.verilated import Module

STEP_US, TICK_US, TOGETHER = 310, 50_000, 8  # no time of the protocol is a multiple of the step
ENOUGH, WITH_STOPS = 50_000, 1500  # packets
REASONS = {"5-2", "5-4", "5-5", "5-6", "5-7", "5-12", "5-15", "5-17", "5-21", "5-23", "6-33", "6-36", "6-37", "10.1-8"}


def compare(module: Module, seed: int, count: int, *, reproducible: bool = True) -> dict[str, int]:
    """Packets in groups of up to 8 without a gap, some of reproducible jobs. Returns the dropped packets, by demand."""
    source = Traffic(seed, ADDRESS, GROUP, reproducible=reproducible)
    rtl, reference = RtlTarget(4, module, group=GROUP), Switch(ADDRESS, group=GROUP)
    now_us = ticked_us = round(rtl.now() * 1e6)
    while source.sent < count:
        group = []
        for _ in range(source.numbers.randint(1, TOGETHER)):
            if (sent := source.next()) is not None:
                group.append(sent)
        now_us += STEP_US
        expected: list[tuple[str, bytes]] = []
        if now_us - ticked_us >= TICK_US:
            ticked_us = now_us
            expected += [(to, data) for to, _, data in reference.tick(now_us / 1e6)]
        for address, data in group:
            said = reference.receive(data, address, traffic.PORT, now_us / 1e6)
            expected += [(to, answer) for to, _, answer in said]
        seen = [(each.destination, each.data) for each in rtl.exchange_at(now_us, group, traffic.PORT)]
        log = [str(datagram.dissect(data)) for _, data in group]
        assert traffic.normal(seen) == traffic.normal(expected), (seed, source.sent, log, *_differing(seen, expected))
        for to, data in seen:
            assert datagram.icrc_is_right(ADDRESS, to, datagram.DEVICE_PORT, data)
        for to, data in expected:
            source.hear(to, data)
    assert rtl.drops == reference.drops
    return dict(rtl.drops)


def _differing(seen: list[tuple[str, bytes]], expected: list[tuple[str, bytes]]) -> list[str]:
    only_seen, only_expected = set(seen) - set(expected), set(expected) - set(seen)
    return [
        f"{who} {to}: {datagram.dissect(data)}"
        for who, each in (("rtl", only_seen), ("reference", only_expected))
        for to, data in sorted(each)
    ]


def test_same_packets(module: Module, packets: int, seed: int) -> None:
    """Nearly every reason to drop a packet occurs."""
    drops = compare(module, seed, packets)
    print(drops)
    assert packets < ENOUGH or set(drops) >= REASONS, REASONS - set(drops)


def test_stops_on_both_sides(module: Module, seed: int, generator: np.random.Generator) -> None:
    """The same with a source that pauses and a sink that is seldom ready, while the time stands still."""
    source, reference = Traffic(seed + 1, ADDRESS, GROUP), Switch(ADDRESS, group=GROUP)
    rtl, sent, expected = RtlTarget(4, module, group=GROUP), [], []
    while source.sent < WITH_STOPS:
        if (given := source.next()) is None:
            continue
        sent.append(frames.frame(given.source, ADDRESS, traffic.PORT, given.data))
        said = [(to, data) for to, _, data in reference.receive(given.data, given.source, traffic.PORT, rtl.now())]
        expected += said
        for to, data in said:
            source.hear(to, data)
    beats = rtl.beats_of(sent)
    clocks = 60 * len(beats)
    offer, take = generator.random(clocks) < 0.8, generator.random(clocks) < 0.4
    out, _ = module.stream(beats, offer, take, room=20 * len(beats))
    seen = [(each.destination, each.data) for each in map(taken_apart, frames.from_beats(out))]
    assert traffic.normal(seen) == traffic.normal(expected), _differing(seen, expected)[:4]
    assert len(expected) > WITH_STOPS // 2
