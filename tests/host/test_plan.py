"""From the table to messages: what every rank brings and wants, cut alike on all of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin.collectives import COLLECTIVES, NONE, ONE, collective
from fanin.plan import NOTHING, Part, Piece, plan
from fanin.verbs.segments import position_count, segment_length
from fanin_wire.abi import ContributorClass, DType, JobFlag, Op

ALL = int(ContributorClass["ALL"])


def test_the_rows_for_one_block_or_one_for_each_rank():
    """The table of the contract between host and device, for rank 1 of 3 with root 2, blocks of 8 bytes."""
    whole, thirds, own = Piece(0, 1, 0, 8), Piece(0, 3, 0, 24), Piece(1, 1, 0, 8)
    expected = {
        "allreduce": Part(8, 8, whole, whole),
        "reduce": Part(8, 8, whole, NOTHING),
        "reduce_scatter": Part(24, 8, thirds, own),
        "broadcast": Part(8, 8, NOTHING, whole),
        "allgather": Part(24, 8, own, thirds),
        "gather": Part(24, 8, own, NOTHING),
        "scatter": Part(24, 8, NOTHING, own),
        "barrier": Part(0, 0, NOTHING, NOTHING),
    }
    for row in COLLECTIVES:
        assert plan(row, 1, 2, (8, 8, 8) if row.divided else (8,)) == (expected[row.name],)


def test_the_rows_for_the_root():
    whole, thirds, own = Piece(0, 1, 0, 8), Piece(0, 3, 0, 24), Piece(2, 1, 0, 8)
    assert plan(collective("reduce"), 2, 2, (8,)) == (Part(8, 8, whole, whole),)
    assert plan(collective("broadcast"), 2, 2, (8,)) == (Part(8, 8, whole, NOTHING),)
    assert plan(collective("gather"), 2, 2, (8, 8, 8)) == (Part(24, 8, own, thirds),)
    assert plan(collective("scatter"), 2, 2, (8, 8, 8)) == (Part(24, 8, thirds, own),)


@pytest.mark.parametrize(
    ("sizes", "messages"),
    [
        ((0, 0), []),
        ((4, 4, 4), [(12, 4)]),
        ((4, 4, 3), [(11, 4)]),
        ((4, 3, 3), [(7, 4), (3, 3)]),
        ((1, 2, 3), [(1, 1), (2, 2), (3, 3)]),
        ((3, 2, 1), [(5, 3), (1, 1)]),
        ((0, 4, 0, 0, 4, 1, 0), [(9, 4)]),
    ],
    ids=str,
)
def test_runs(sizes, messages):
    assert [(part.length, part.block) for part in plan(collective("allgather"), 0, 0, sizes)] == messages


def pieces(part: Part, piece: Piece, before: int) -> dict[int, int]:
    """Byte of the whole message to byte of the buffer, for what a rank has of a part that begins at `before`."""
    start = piece.first * part.block
    end = min((piece.first + piece.blocks) * part.block, part.length)
    assert piece.nbytes == max(0, end - start)
    return {before + byte: piece.offset + byte - start for byte in range(start, end)}


@given(
    row=st.sampled_from([row for row in COLLECTIVES if row.contributors != NONE]),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=7),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_messages_carry_every_byte_to_its_place(row, sizes, data):
    """All ranks cut alike; together they bring each byte as the class says, and get what the row says."""
    size, root = len(sizes), data.draw(st.integers(0, len(sizes) - 1))
    blocks = tuple(sizes) if row.divided else (sizes[0],)
    plans = [plan(row, rank, root, blocks) for rank in range(size)]
    assert len({tuple((part.length, part.block) for part in parts) for parts in plans}) == 1
    starts = [sum(blocks[:rank]) for rank in range(size)]
    brought = [0] * sum(blocks)
    for rank, parts in enumerate(plans):
        own = range(starts[rank], starts[rank] + blocks[rank]) if row.divided else range(0)
        before, wanted = 0, {}
        for part in parts:
            for byte, place in pieces(part, part.source, before).items():
                brought[byte] += 1
                assert place == byte - (own.start if row.brings.own else 0)
            wanted |= pieces(part, part.destination, before)
            before += part.length
        assert before == sum(blocks)
        expected = own if row.wants.own else range(sum(blocks))
        if not row.wants.who.includes(rank, root):
            expected = range(0)
        assert wanted == {byte: byte - expected.start for byte in expected}
    assert set(brought) <= {1 if row.contributors == ONE else size}


@given(length=st.integers(0, 300), block=st.integers(1, 300), segment=st.integers(1, 64))
def test_positions_counted_one_by_one(length, block, segment):
    ends = [min(start + block, length) for start in range(0, length, block)]
    counted = sum(len(range(start, end, segment)) for start, end in zip(range(0, length, block), ends, strict=True))
    assert position_count(length, block, segment, ALL) == counted


def test_positions_of_a_barrier():
    assert position_count(0, 0, 4096, NONE) == 1


@pytest.mark.parametrize(
    ("flag", "op", "dtype", "contributors", "length"),
    [
        ("WIDE", "SUM", "F16", ALL, 512),
        ("WIDE", "MEAN", "BF16", ALL, 512),
        ("REPRODUCIBLE_SHAPE", "PROD", "BF16", ALL, 512),
        ("WIDE", "MAX", "BF16", ALL, 1024),
        ("WIDE", "SUM", "F32", ALL, 1024),
        ("WIDE", "NONE", "U8", ONE, 1024),
        ("REPRODUCIBLE_RUN", "SUM", "F16", ALL, 1024),
    ],
)
def test_wide_partials_halve_the_segment(flag, op, dtype, contributors, length):
    assert segment_length(1024, int(JobFlag[flag]), contributors, int(Op[op]), int(DType[dtype])) == length
