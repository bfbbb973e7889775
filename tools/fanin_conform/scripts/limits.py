"""The largest of everything."""

import numpy as np

from fanin_conform.job import Job, f32
from fanin_conform.script import script
from fanin_conform.tester import Tester
from fanin_wire.fields import Opcode


@script("2-13", "2-14", "7.1-8", "12-12")
def payloads_of_every_padding(tester: Tester) -> None:
    """Lengths of each remainder by 4, up to a whole chunk."""
    job = Job(tester)
    for position, length in enumerate((1, 2, 3, 4, 5, job.chunk - 1, job.chunk)):
        job.complete(position, (np.arange(length) % 7).astype(np.int8))


@script("6-22", "6-15", "2-8")
def a_whole_chunk_of_floats(tester: Tester) -> None:
    """A full segment of random numbers."""
    job = Job(tester)
    values = np.random.default_rng(tester.number(32)).standard_normal(job.chunk // 4).astype("<f4")
    job.complete(0, values)


@script("6-10", "6-13", "2-11")
def numbers_that_wrap(tester: Tester) -> None:
    """mid and sid are compared as a whole and may have any value; PSN may begin again."""
    job = Job(tester)
    for position, number in enumerate((2**32 - 1, 0, 2**31, 2**16)):
        for bit in range(2):
            job.contribute(bit, position, f32(1), mid=number, sid=2**32 - 1 - number)
        place = {"mid": number, "sid": 2**32 - 1 - number}
        tester.expect(*(job.result(bit, position, f32(2), **place) for bit in range(2)))
    for psn in (2**24 - 1, 0):
        packet = job.packet(Opcode.QUERY, 0, token=9)
        packet["BTH"].psn = psn
        tester.send(job.addresses[0], packet)
        tester.expect(job.to(0, Opcode.STATUS, token=9))


@script("6-1", "6-3", "6-31", "6-37")
def positions_round_the_circle(tester: Tester) -> None:
    """Positions are compared modulo 2^32: just before 0 they are stale at the start, half way round violations."""
    job = Job(tester)
    for position in (2**32 - job.slots - 1, 2**31 - job.slots, 2**31, 2**32 - 2 * job.slots):
        job.probe(0, position)
        job.contribute(0, position, f32(1))
    tester.nothing("6-37")
    job.complete(0)


@script("7.1-12", "1-1")
def sixty_four_children(tester: Tester) -> None:
    """The largest tree. Several bits join from one address."""
    job = Job(tester, 64, join=False)
    job.addresses = [tester.addresses[bit % len(tester.addresses)] for bit in range(64)]
    for bit in range(63):
        job.config(bit)
        tester.expect(job.pending(bit, range(bit + 1, 64)))
    job.config(63)
    tester.expect(*(job.joined(bit) for bit in range(64)))
    for bit in range(64):
        job.contribute(bit, 0, f32(bit, 1))
    tester.expect(*(job.result(bit, 0, f32(2016, 64)) for bit in range(64)))
