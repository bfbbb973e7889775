"""A conversation of children with a switch, and the answers, which the switch in plain Python gives."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from fanin_reference.switch import Switch
from fpga_cosim.tb import frames, traffic
from fpga_cosim.tb.one_job import JOB, config, contribution
from fpga_cosim.tb.target import ADDRESS, taken_apart

KINDS = ((1, 3, "<i4"), (1, 1, "<f4"), (3, 1, "<f4"), (4, 1, "<f4"), (11, 10, "<u8"))  # SUM, MAX, MEAN, BXOR
CHILDREN, NOW_S = 3, 1.0
RECEIVED, TRANSMITTED = 0x08, 0x0A  # the bytes of the Ethernet addresses in frames that a NIC receives, and sends


class Conversation(NamedTuple):
    """sent: frames of the children in order. answers: what the switch must send, by destination, in any order. drops:
    packets that it must drop, by demand."""

    sent: list[bytes]
    answers: list[tuple[str, bytes]]
    drops: Counter[str]

    def is_answered_by(self, came: list[bytes]) -> bool:
        """Whether these frames of a switch are the answers."""
        seen = [(each.destination, each.data) for each in map(taken_apart, came)]
        return traffic.normal(seen) == traffic.normal(self.answers)


def conversation(generator: np.random.Generator, positions: int = 12) -> Conversation:
    """Children join and contribute to so many positions, each in any order. One contribution to each position comes
    twice, and one comes damaged first."""
    addresses = [f"10.0.1.{1 + bit}" for bit in range(CHILDREN)]
    sent = [config(address, bit, (1 << CHILDREN) - 1) for bit, address in enumerate(addresses)]
    for position in range(positions):
        op, dtype, kind = KINDS[position % len(KINDS)]
        words, bits = int(generator.integers(1, 129)), generator.permutation(CHILDREN)
        given = [
            contribution(JOB, addresses[bit], int(bit), position, _data(generator, kind, words), op=op, dtype=dtype)
            for bit in bits
        ]
        damaged = bytearray(given[1])
        damaged[-5] ^= 1  # before the ICRC
        sent += [given[0], given[0], bytes(damaged), *given[1:]]
    switch, answers = Switch(ADDRESS), []
    for frame in sent:
        source = ".".join(map(str, frame[26:30]))
        said = switch.receive(frame[frames.HEADERS :], source, traffic.PORT, NOW_S)
        answers += [(to, data) for to, _, data in said]
    return Conversation(sent, answers, switch.drops)


def others(generator: np.random.Generator, way: int, count: int) -> list[bytes]:
    """Frames of a NIC, RECEIVED or TRANSMITTED, that do not concern the switch."""
    return [bytes([way] * 12) + generator.bytes(int(size)) for size in generator.integers(48, 1500, count)]


def parted(came: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The frames that a MAC sends: of the NIC, and of the switch."""
    nic = [frame for frame in came if frame[0] == TRANSMITTED]
    return nic, [frame for frame in came if frame[0] != TRANSMITTED]


def _data(generator: np.random.Generator, kind: str, words: int) -> np.ndarray:
    data = np.frombuffer(generator.bytes(8 * words), kind)
    return generator.normal(size=len(data)).astype(kind) if kind == "<f4" else data
