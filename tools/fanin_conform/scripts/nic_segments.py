"""Segments of a NIC in a tree: what it sends for its ranks."""

from typing import Any

import numpy as np

from fanin_conform.host import AHEAD, NicTree
from fanin_conform.job import ALL, DATA, NONE, ONE, WANTS, f32, payload_of
from fanin_conform.script import tree_script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import DType, Status

U8 = int(DType.U8)
UNREADABLE = int(Status.LOCAL_PROTECTION_ERROR)


@tree_script("4-6", "4-7", "4-8", "7.1-14", "7.2-2", "7.2-6", "12-4")
def a_message_of_one_segment(tester: Tester) -> None:
    """The NIC sends its rank's data, unchanged; the RESULT comes into the rank's memory."""
    job = NicTree(tester)
    data = np.array([0x80000000, 0x7FC01234, 1], "<u4").view("<f4")
    (position,) = job.post(0, data)
    tester.expect(job.contribution(position, data), clause="4-8")
    job.not_done()
    job.result(position, f32(7, 8, 9))
    job.done(0, f32(7, 8, 9), clause="7.2-6")


@tree_script("6-2", "6-4", "6-5", "6-7", "6-10")
def segments_of_a_message(tester: Tester) -> None:
    """Full chunks and the rest, each with a position; the next message goes on, with the next number."""
    job = NicTree(tester, slots=16)
    data = np.arange(220, dtype="<i4")
    positions = job.post(0, data)
    parts = [data[first : first + 64] for first in range(0, 220, 64)]
    assert positions == [0, 1, 2, 3]
    tester.expect(*(job.contribution(p, part, dtype=3) for p, part in zip(positions, parts, strict=True)), clause="6-5")
    for position, part in zip(positions, parts, strict=True):
        job.result(position, part * 2)
    job.done(0, data * 2)
    (last,) = job.post(0, f32(1))
    assert job.places[last].mid == job.places[0].mid + 1, "the next message has not the next number"
    tester.expect(job.contribution(4, f32(1)), clause="6-10")
    job.result(4, f32(3))
    job.done(0, f32(3))


@tree_script("6-6", "4-8", "7.2-4")
def segments_of_blocks(tester: Tester) -> None:
    """A segment ends with its block; only the block that the rank wants is asked for with data."""
    job = NicTree(tester, slots=16)
    data = np.arange(225, dtype="<i4")  # three blocks of 300 bytes
    positions = job.post(0, data, block=300, brings=(0, 3), wants=(1, 1))
    parts = [data[75 * block + first : 75 * block + last] for block in range(3) for first, last in ((0, 64), (64, 75))]
    wants = [0, 0, WANTS, WANTS, 0, 0]
    expected = [
        job.contribution(p, part, dtype=3, flags=ALL | DATA | flag)
        for p, part, flag in zip(positions, parts, wants, strict=True)
    ]
    tester.expect(*expected, clause="6-6")
    for position, part, flag in zip(positions, parts, wants, strict=True):
        if flag:
            job.result(position, part * 2, dtype=3)
        else:
            job.result(position, None, dtype=3, contributions=3)
    job.done(0, data[75:150] * 2)


@tree_script("7.1-21", "7.1-22", "7.1-10", "12-3", "12-24")
def several_ranks(tester: Tester) -> None:
    """One CONTRIBUTION of the node when all its ranks have posted: their sum, also of MEAN, and their number."""
    job = NicTree(tester, 3)
    for op in ("SUM", "MEAN"):
        code: dict[str, Any] = {"op": 1 if op == "SUM" else 4}
        for rank, number in enumerate((2.0, 3.0, 5.0)):
            (position,) = job.post(rank, f32(number, -number), op=op)
            if rank < 2:
                job.look()
                tester.nothing("7.1-22")
        tester.expect(job.contribution(position, f32(10, -10), **code), clause="7.1-10")
        job.result(position, f32(4, 1), **code)
        for rank in range(3):
            job.done(rank, f32(4, 1))


@tree_script("4-8", "7.1-11", "7.2-4")
def nobody_here_wants_the_result(tester: Tester) -> None:
    """As in a reduce with its root elsewhere: no WANTS_RESULT, and a header ends the position."""
    job = NicTree(tester, 2)
    for rank in range(2):
        (position,) = job.post(rank, f32(1, 2), wants=(0, 0))
    tester.expect(job.contribution(position, f32(2, 4), flags=ALL | DATA), clause="4-8")
    job.result(position, None, dtype=1, contributions=6)
    for rank in range(2):
        job.done(rank)


@tree_script("4-8", "6-26", "7.1-11")
def one_of_two_ranks_wants_the_result(tester: Tester) -> None:
    """The NIC wants it; only this rank gets it."""
    job = NicTree(tester, 2)
    job.post(0, f32(1, 2), wants=(0, 0))
    job.post(1, f32(3, 4))
    tester.expect(job.contribution(0, f32(4, 6)), clause="7.1-11")
    job.result(0, f32(9, 9))
    job.done(0, b"")
    job.done(1, f32(9, 9))


@tree_script("6-8", "4-8", "7.1-22")
def a_barrier(tester: Tester) -> None:
    """It takes one position, of class NONE, without data."""
    job = NicTree(tester, 2)
    for rank in range(2):
        (position,) = job.post(rank, None, contributors="NONE", brings=(0, 0), wants=(0, 0))
    fields: dict[str, Any] = {"flags": NONE, "op": 0, "contributions": ANY}
    tester.expect(job.contribution(position, None, **fields), clause="6-8")
    job.not_done(1)
    job.result(position, None, flags=NONE, op=0)
    for rank in range(2):
        job.done(rank)


@tree_script("7.5-2", "7.1-15", "7.1-18", "4-8")
def the_root_of_a_broadcast(tester: Tester) -> None:
    """Data of class ONE go up at once, though another rank has not posted, and AHEAD, since they are the message."""
    job = NicTree(tester, 2)
    (position,) = job.post(0, b"abcdef", contributors="ONE", wants=(0, 0))
    ahead = AHEAD if tester.profile.ahead else 0
    own = job.contribution(position, b"abcdef", flags=ONE | DATA | ahead, op=0, dtype=U8, contributions=1)
    tester.expect(own, clause="7.1-15 7.5-2")
    job.post(1, b"", length=6, contributors="ONE", brings=(0, 0))
    job.look()
    tester.nothing("7.1-15")
    job.result(position, None, flags=ONE, op=0, dtype=U8, contributions=1)
    job.done(0)
    job.done(1, b"abcdef", clause="7.1-18")


@tree_script("7.5-1", "7.5-2", "6-5")
def a_longer_broadcast_does_not_go_ahead(tester: Tester) -> None:
    """Data that are not a whole message of one segment have no AHEAD."""
    job = NicTree(tester)
    data = bytes(range(200)) * 2
    positions = job.post(0, data, contributors="ONE", wants=(0, 0))
    fields: dict[str, Any] = {"flags": ONE | DATA, "op": 0, "dtype": U8, "contributions": 1}
    tester.expect(*(job.contribution(p, data[256 * p : 256 * p + 256], **fields) for p in positions), clause="7.5-1")
    for position in positions:
        job.result(position, None, flags=ONE, op=0, dtype=U8, contributions=1)
    job.done(0)


@tree_script("4-8", "7.2-3", "7.1-11")
def a_receiver_of_a_broadcast(tester: Tester) -> None:
    """It contributes a header that wants the data; they come with the RESULT."""
    job = NicTree(tester, 2)
    for rank in range(2):
        (position,) = job.post(rank, b"", length=6, contributors="ONE", brings=(0, 0))
    tester.expect(job.contribution(position, None, flags=ONE | WANTS, op=0, dtype=U8, contributions=ANY), clause="4-8")
    job.result(position, b"uvwxyz", flags=ONE | DATA, op=0, dtype=U8, contributions=1)
    for rank in range(2):
        job.done(rank, b"uvwxyz")


@tree_script("7.1-15", "7.1-17", "7.1-19")
def a_result_before_the_last_rank(tester: Tester) -> None:
    """The data of class ONE are up; the RESULT comes; the position ends when the other rank has posted."""
    job = NicTree(tester, 2)
    (position,) = job.post(0, b"abcd", contributors="ONE", wants=(0, 0))
    fields: dict[str, Any] = {"op": 0, "dtype": U8, "contributions": 1}
    ahead = AHEAD if tester.profile.ahead else 0
    tester.expect(job.contribution(position, b"abcd", flags=ONE | DATA | ahead, **fields))
    job.result(position, None, flags=ONE, **fields)
    tester.nothing()
    job.not_done(1)
    job.post(1, b"", length=4, contributors="ONE", brings=(0, 0))
    job.done(1, b"abcd", clause="7.1-19")
    job.done(0)


@tree_script("6-11", "6-12", "6-13", "4-7")
def the_upper_half_of_mid(tester: Tester) -> None:
    """The host's value goes out unchanged; ranks that differ in it are a mismatch."""
    job = NicTree(tester, 2)
    for rank in range(2):
        (position,) = job.post(rank, f32(1), agreement=0xBEEF)
    assert job.places[position].mid >> 16 == 0xBEEF, f"mid is {job.places[position].mid:#x}"
    tester.expect(job.contribution(position, f32(2)), clause="6-12")
    job.result(position, f32(6))
    for rank in range(2):
        job.done(rank)
    job.post(0, f32(1), agreement=1)
    job.post(1, f32(1), agreement=2)
    for rank in range(2):
        job.done(rank, status="OP_MISMATCH", clause="6-13")
    tester.everything()


@tree_script("6-23", "6-24", "6-19")
def the_window(tester: Tester) -> None:
    """The NIC sends position p only when it holds the result of p - W, with the granted W."""
    job = NicTree(tester, slots=8, join=False)
    job.join_rank(0)
    job.expect_config()
    job.grant(slots=4, window=2)
    job.all_joined()
    data = np.arange(64 * 6, dtype="<f4")
    parts = [data[first : first + 64] for first in range(0, data.size, 64)]
    positions = job.post(0, data)
    tester.expect(*(job.contribution(p, parts[p]) for p in (0, 1)), clause="6-24")
    job.result(1, parts[1])
    seen = tester.everything()
    assert all(packet.ceth["position"] == 3 for _, packet in seen), "p = 2 is sent without the result of p - W"
    job.result(0, parts[0])
    expected = [job.contribution(p, parts[p]) for p in ((2,) if seen else (2, 3))]
    tester.expect(*expected, clause="6-24")
    for position in (2, 3):
        job.result(position, parts[position])
    tester.expect(*(job.contribution(p, parts[p]) for p in (4, 5)), clause="6-24")
    for position in positions[4:]:
        job.result(position, parts[position])
    job.done(0, data)


@tree_script("11-30", "11-31", "7.2-7", "7.1-7")
def memory_that_can_not_be_read(tester: Tester) -> None:
    """A position without its data goes up with a status; the stream goes on."""
    job = NicTree(tester, 2)
    job.post(0, f32(1))
    job.post(1, f32(1), readable=False)
    poison = {"flags": ALL | WANTS, "status": UNREADABLE, "dtype": 1, "contributions": ANY}
    seen = tester.expect(job.contribution(0, None, **poison), clause="11-30")
    assert seen[0].ceth["contributions"] <= 2
    job.result(0, None, status=UNREADABLE, dtype=1, contributions=5)
    for rank in range(2):
        job.done(rank, status="LOCAL_PROTECTION_ERROR", clause="7.2-7")
    job.complete()


@tree_script("7.2-7", "11-31", "11-6")
def a_status_of_others(tester: Tester) -> None:
    """A RESULT with a status ends its position with that status; an unknown one is ABORTED."""
    job = NicTree(tester)
    for code, name in ((UNREADABLE, "LOCAL_PROTECTION_ERROR"), (250, "ABORTED")):
        (position,) = job.post(0, f32(1, 2))
        tester.expect(job.contribution(position, f32(1, 2)))
        job.result(position, None, status=code, dtype=1, contributions=2)
        job.done(0, status=name, clause="11-6" if code == 250 else "7.2-7")
    job.complete()


@tree_script("7.3-2", "7.2-2", "5-23", "5-21", "5-15", "5-22")
def results_that_are_none(tester: Tester) -> None:
    """From elsewhere, for others, with a wrong key, slot, length, class or place: nothing changes."""
    job = NicTree(tester, slots=8)
    data = f32(1, 2)
    (position,) = job.post(0, data)
    tester.expect(job.contribution(position, data))
    stranger = tester.addresses[3]
    wrong = f32(66, 66)
    job.result(position, wrong, sender=stranger)
    tester.nothing("5-23")
    job.not_done(0, "5-23")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("5-15", {"key": job.key ^ 1}),
        ("5-23", {"node_bitmap": 1 << job.bit + 1}),
        ("5-21", {"seg": 1}),
        ("5-21", {"flags": 0x60 | DATA}),
    ]
    for clause, changed in cases:
        job.result(position, wrong, **changed)
        tester.nothing(clause)
        job.not_done(0, clause)
    for length in (1, 3):
        job.result(position, f32(66, 66, 66)[:length])
        tester.nothing("5-21")
        job.not_done(0, "5-21")
    job.places[1] = job.places[7] = job.places[0]
    for other in (1, 7):
        job.result(other, wrong)
        tester.nothing("7.2-2")
        job.not_done(0, "7.2-2")
    job.result(position, f32(3, 6))
    job.done(0, f32(3, 6), clause="5-22")


@tree_script("7.3-2", "6-33", "7.1-2")
def results_that_come_again(tester: Tester) -> None:
    """The NIC drops a RESULT for a position whose result it holds, also while later ones are under way."""
    job = NicTree(tester)
    job.complete()
    (position,) = job.post(0, f32(5))
    tester.expect(job.contribution(position, f32(5)))
    job.result(0, f32(66, 66))
    tester.nothing("7.3-2")
    job.not_done(0, "7.3-2")
    job.result(position, f32(15))
    job.result(position, f32(66))
    job.done(0, f32(15), clause="7.3-2")
    job.complete()


@tree_script("6-7", "7.2-3", "7.2-6")
def results_in_any_order(tester: Tester) -> None:
    """Each goes to its place."""
    job = NicTree(tester, slots=16)
    data = np.arange(64 * 5, dtype="<f4")
    parts = [data[first : first + 64] for first in range(0, data.size, 64)]
    positions = job.post(0, data)
    tester.expect(*(job.contribution(p, parts[p]) for p in positions))
    for position in (4, 0, 3, 1, 2):
        job.not_done()
        job.result(position, parts[position] * 3)
    job.done(0, data * 3)


@tree_script("6-1", "6-21", "6-31", "4-6")
def more_positions_than_slots(tester: Tester) -> None:
    """seg is the position modulo N, again and again."""
    job = NicTree(tester, slots=4)
    for number in range(11):
        assert job.complete(f32(number, 1)) == number


@tree_script("12-11", "12-21", "12-22", "6-14")
def wide_partials(tester: Tester) -> None:
    """f16 goes up as f32, half as many elements in a segment, also the data of a single rank."""
    job = NicTree(tester, flags=1)
    data = np.arange(100, dtype="<f2") / 8
    positions = job.post(0, data)
    parts = [data[:64], data[64:]]
    wide = {"dtype": 11, "flags": ALL | DATA | WANTS | 4}
    expected = [job.contribution(p, part.astype("<f4"), **wide) for p, part in zip(positions, parts, strict=True)]
    tester.expect(*expected, clause="12-21")
    for position, part in zip(positions, parts, strict=True):
        job.result(position, payload_of(part), dtype=11, contributions=3)
    job.done(0, data)


@tree_script("6-17", "10.5-3", "11-28")
def a_rank_that_has_left_is_missed(tester: Tester) -> None:
    """A position needs it: ABORTED for those that wait, with the bit of the one that has left."""
    job = NicTree(tester, 2)
    job.complete()
    job.leave(1)
    job.post(0, f32(1))
    job.done(0, status="ABORTED", clause="11-28", missing=0b10, missing_kind=0)
    tester.everything()
