"""Duplicates, positions, stored results, and the window."""

from fanin_conform.job import ALL, DATA, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import Tester


@script("7.1-2", "7.1-5")
def duplicate_while_others_are_missing(tester: Tester) -> None:
    """A repeated contribution counts once."""
    job = Job(tester)
    for _ in range(3):
        job.contribute(0, 0, f32(1))
    tester.nothing("7.1-5")
    job.contribute(1, 0, f32(2))
    tester.expect(*(job.result(bit, 0, f32(3)) for bit in range(2)))


@script("7.1-3", "6-30", "12-35")
def duplicate_after_the_result(tester: Tester) -> None:
    """The child that sends again gets the result again, with the same bits; others get nothing."""
    job = Job(tester)
    job.complete(0)
    job.complete(1)
    for bit in (1, 0):
        job.contribute(bit, 0, f32(8, 8))
        tester.expect(job.result(bit, 0, f32(2, 4)))


@script("6-33", "6-32")
def stale_positions(tester: Tester) -> None:
    """A position whose slot serves a later one is stale: dropped."""
    job = Job(tester)
    for position in range(job.slots + 1):
        job.complete(position)
    job.contribute(0, 0, f32(1, 2))
    job.probe(0, 0)
    tester.nothing("6-33")
    job.complete(job.slots + 1)


@script("6-36", "6-37", "5-22")
def violations_of_the_window(tester: Tester) -> None:
    """The successor of an open slot, and positions beyond the next lease, are dropped."""
    job = Job(tester)
    job.contribute(0, 0, f32(1))
    job.contribute(0, job.slots, f32(1))
    tester.nothing("6-36")
    job.contribute(0, 2 * job.slots, f32(1))
    job.contribute(0, 2**31, f32(1))
    tester.nothing("6-37")
    job.contribute(1, 0, f32(2))
    tester.expect(*(job.result(bit, 0, f32(3)) for bit in range(2)))
    for bit in range(2):
        job.contribute(bit, 2 * job.slots, f32(1))
    tester.nothing("6-37")
    for bit in range(2):
        job.contribute(bit, job.slots, f32(1))
    tester.expect(*(job.result(bit, job.slots, f32(2)) for bit in range(2)), clause="6-37")


@script("7.1-1", "6-35")
def nothing_is_left_of_the_position_before(tester: Tester) -> None:
    """Data, wants, status and ranks of a slot's earlier position are forgotten."""
    job = Job(tester)
    for bit in range(2):
        job.contribute(bit, 0, f32(5), contributions=9)
    tester.expect(*(job.result(bit, 0, f32(10), contributions=18) for bit in range(2)))
    for bit in range(2):
        job.contribute(bit, 1, None, status=3, dtype=1)
    tester.expect(*(job.result(bit, 1, None, status=3, dtype=1, contributions=0) for bit in range(2)))
    for position in range(2, job.slots):
        job.complete(position)
    for place in (job.slots, job.slots + 1):
        job.contribute(0, place, f32(1), flags=ALL | DATA)
        job.contribute(1, place, f32(2), mid=3)
        tester.expect(job.result(0, place, None, dtype=1), job.result(1, place, f32(3)), clause="7.1-1")


@script("6-35", "6-21", "6-7")
def positions_in_any_order_within_the_window(tester: Tester) -> None:
    """The positions of a window complete in any order, and each slot serves the next lease."""
    job = Job(tester)
    window = range(job.slots // 2)
    for position in window:
        job.contribute(0, position, f32(position))
    tester.nothing()
    for position in reversed(window):
        job.contribute(1, position, f32(1))
        tester.expect(*(job.result(bit, position, f32(position + 1)) for bit in range(2)))
    for position in range(job.slots // 2, 4 * job.slots):
        job.complete(position)
