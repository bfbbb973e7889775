"""The switch in Verilog and the one in plain Python are given the same packets, and must send and count the same."""

from __future__ import annotations

import pytest

from fanin_conform import datagram
from fanin_reference.switch import Switch
from fpga_cosim.tb import frames, traffic
from fpga_cosim.tb.target import ADDRESS, RtlTarget
from fpga_cosim.tb.traffic import Traffic
from fpga_cosim.tb.verilated import Module

STEP_US, TICK_US, TOGETHER = 300, 50_000, 8  # no time of the protocol is a multiple of the step


def compare(module: Module, seed: int, count: int) -> dict[str, int]:
    """So many packets in groups of up to 8 without a gap. Returns the packets that were dropped, by demand."""
    source = Traffic(seed, ADDRESS)
    rtl, reference = RtlTarget(4, module), Switch(ADDRESS)
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


def test_same_packets(module: Module, request: pytest.FixtureRequest) -> None:
    """Every reason to drop a packet comes up, but the one for frames of others."""
    count, seed = request.config.getoption("--packets"), request.config.getoption("--seed")
    drops = compare(module, seed, count)
    print(drops)
    assert frames.BEAT == 64
