"""One job in the switch, and frames of its children without gaps."""

import numpy as np

from fanin_reference import packets, spec
from fpga_cosim.tb import frames, traffic
from fpga_cosim.tb.target import ADDRESS, RtlTarget
from fpga_cosim.tb.verilated import Module

SLOTS, DATA_AND_WANTS = 8, 0x43
JOB = {"jid": 5, "key": 6, "lane": 0}
PAYLOAD = frames.HEADERS + packets.HEADERS  # its place in a frame


def joined(
    module: Module, children: int, chunk: int = 1024, group: str = "", group_size: int = 0, flags: int = 0
) -> tuple[RtlTarget, dict[str, int], list[str]]:
    """A switch with a job of so many children, the fields that name it, and the addresses of the children.

    group, group_size: see RtlTarget. flags: of CONFIG; a reproducible job of more than 5 children has fewer slots than
        these.
    """
    target = RtlTarget(children, module, group=group, group_size=group_size)
    for bit, address in enumerate(target.addresses):
        answers = target.exchange_frames(1_000_000 + bit, [config(address, bit, (1 << children) - 1, chunk, flags)])
    assert sum(each.destination in target.addresses for each in answers) == children
    return target, JOB, target.addresses


def config(address: str, bit: int, mask: int, chunk: int = 1024, flags: int = 0, slots: int = SLOTS) -> bytes:
    """The CONFIG frame of a child. mask: the bits of all children."""
    body = {"boot_id": 1, "slots": slots, "window": slots // 2, "chunk": chunk, "route": 1, "hops": 1, "flags": flags}
    mapped = 0xFFFF << 32 | int.from_bytes(bytes(map(int, ADDRESS.split("."))))
    hop = {"address": mapped, "mask": mask, "bit": bit}
    packet = packets.build("CONFIG", address, ADDRESS, spec.CONFIG.pack(body) + spec.HOP.pack(hop), **JOB, source=bit)
    return frames.frame(address, ADDRESS, traffic.PORT, packet)


def contribution(job: dict[str, int], address: str, bit: int, position: int, data: np.ndarray, **other: int) -> bytes:
    """The frame of a child with its data for a position: SUM of i32, unless `other` fields say otherwise."""
    place = {"position": position, "seg": position % SLOTS, "op": 1, "dtype": 3, "flags": DATA_AND_WANTS}
    packet = packets.build("CONTRIBUTION", address, ADDRESS, data.tobytes(), **job, **(place | other), source=bit)
    return frames.frame(address, ADDRESS, traffic.PORT, packet)


def contributions(job: dict[str, int], addresses: list[str], positions: int, size: int, **other: int) -> list[bytes]:
    """Frames of all children to so many positions, in their order, with `size` bytes of data each."""
    return [
        contribution(job, address, bit, position, np.full(size // 4, 100 * bit + position, "<i4"), **other)
        for position in range(positions)
        for bit, address in enumerate(addresses)
    ]


def streamed(target: RtlTarget, sent: list[bytes], take: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    """Frames without a gap into the switch, which may send in the clocks of `take`.

    Returns the output, and the clock of each of its beats.
    """
    beats = target.beats_of(sent)
    out, when = target.module.stream(beats, np.ones(len(take), np.uint8), take, room=4 * len(beats) + 64)
    return list(frames.from_beats(out)), when
