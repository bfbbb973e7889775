"""How many clocks a contribution takes in steady state, and how many pass from the last one to the result."""

from __future__ import annotations

import numpy as np
import pytest

from fanin_reference import packets, spec
from fpga_cosim.tb import frames, traffic
from fpga_cosim.tb.target import ADDRESS, RtlTarget
from fpga_cosim.tb.verilated import Module

SLOTS, POSITIONS, DATA_AND_WANTS = 8, 24, 0x43
# The least share of one beat a clock, by bytes of payload and children. docs/fpga.md has what was measured.
LEAST = {(256, 2): 0.6, (256, 4): 0.65, (256, 8): 0.68, (1024, 2): 0.95, (1024, 4): 0.95, (1024, 8): 0.95}
LONGEST = 20  # clocks from the last beat of the last contribution to the first of the first result, of 1 KiB


def joined(module: Module, children: int) -> tuple[RtlTarget, dict[str, int], list[str]]:
    """A switch with a job of so many children, the fields that name it, and the addresses of the children."""
    target = RtlTarget(children, module)
    job = {"jid": 5, "key": 6, "lane": 0}
    for bit, address in enumerate(target.addresses):
        body = {"boot_id": 1, "slots": SLOTS, "window": SLOTS // 2, "chunk": 1024, "route": 1, "hops": 1}
        mapped = 0xFFFF << 32 | int.from_bytes(bytes(map(int, ADDRESS.split("."))))
        hop = {"address": mapped, "mask": (1 << children) - 1, "bit": bit}
        data = packets.build("CONFIG", address, ADDRESS, spec.CONFIG.pack(body) + spec.HOP.pack(hop), **job, source=bit)
        answers = target.exchange_at(1_000_000 + bit, [(address, data)], traffic.PORT)
    assert len(answers) == children
    return target, job, target.addresses


def contributions(job: dict[str, int], addresses: list[str], positions: int, size: int) -> list[bytes]:
    """Frames of all children to so many positions, one position after the other: SUM of i32."""
    sent = []
    for position in range(positions):
        place = {"position": position, "seg": position % SLOTS, "op": 1, "dtype": 3, "flags": DATA_AND_WANTS}
        for bit, address in enumerate(addresses):
            payload = np.full(size // 4, 100 * bit + position, "<i4").tobytes()
            data = packets.build("CONTRIBUTION", address, ADDRESS, payload, **job, **place, source=bit)
            sent.append(frames.frame(address, ADDRESS, traffic.PORT, data))
    return sent


def streamed(target: RtlTarget, sent: list[bytes], clocks: int) -> tuple[list[bytes], np.ndarray]:
    """Frames without a gap into the switch: what comes, and the clock of each of its beats."""
    beats = target.beats_of(sent)
    always = np.ones(clocks, np.uint8)
    out, when = target.module.stream(beats, always, always, room=4 * len(beats) + 64)
    return list(frames.from_beats(out)), when


@pytest.mark.parametrize("size", [256, 1024])
@pytest.mark.parametrize("children", [2, 4, 8])
def test_clocks_a_packet(module: Module, children: int, size: int) -> None:
    target, job, addresses = joined(module, children)
    sent = contributions(job, addresses, POSITIONS, size)
    bus = -(-len(sent[0]) // frames.BEAT)
    came, when = streamed(target, sent, 8 * bus * len(sent) + 400)
    assert len(came) == len(sent), "a result for each contribution"
    for number, frame in enumerate(came):
        position, at = number // children, frames.HEADERS + packets.HEADERS
        total = 100 * sum(range(children)) + children * position
        assert frame[at : at + size] == np.full(size // 4, total, "<i4").tobytes()
    per_position = (int(when[-1]) - int(when[0])) / (POSITIONS - 1 + 1 / 2) / children
    share = bus / per_position
    print(f"{children} children, {size} B: {per_position:.1f} clocks a packet, bus {bus}: {100 * share:.0f} %")
    assert share > LEAST[size, children]


def test_latency(module: Module) -> None:
    target, job, addresses = joined(module, 2)
    first, last = contributions(job, addresses, 1, 1024)
    streamed(target, [first], 200)
    came, when = streamed(target, [last], 300)
    beats = -(-len(last) // frames.BEAT)
    print(f"latency: {int(when[0]) - (beats - 1)} clocks")
    assert int(when[0]) - (beats - 1) < LONGEST
    assert len(came) == 2
