"""Data ahead of the result at a NIC of a tree (section 7.5)."""

from typing import Any

from fanin_conform.host import AHEAD, NicTree
from fanin_conform.job import DATA, ONE, WANTS, f32
from fanin_conform.script import tree_script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import DType

U8 = int(DType.U8)
OF_ONE: dict[str, Any] = {"op": 0, "dtype": U8}


def asks(tester: Tester, job: NicTree, rank: int = 0, length: int = 4) -> int:
    """A rank posts a broadcast without data, and its header goes up. Returns the position."""
    (position,) = job.post(rank, b"", length=length, contributors="ONE", brings=(0, 0))
    tester.expect(job.contribution(position, None, flags=ONE | WANTS, contributions=ANY, **OF_ONE))
    return position


def ahead(job: NicTree, position: int, data: bytes, **ceth: Any) -> None:
    """RESULT with AHEAD."""
    job.result(position, data, **({"flags": ONE | DATA | AHEAD, "contributions": 1} | OF_ONE | ceth))


def end(job: NicTree, position: int, data: bytes | None = None, **ceth: Any) -> None:
    """RESULT without AHEAD."""
    flags = ONE | DATA if data is not None else ONE
    job.result(position, data, **({"flags": flags, "contributions": 1} | OF_ONE | ceth))


@tree_script("7.5-8", "7.5-9", "7.5-14", "7.5-16", "7.5-22")
def data_that_come_ahead(tester: Tester) -> None:
    """The rank gets them; the RESULT that ends the position may be a header."""
    job = NicTree(tester)
    position = asks(tester, job)
    ahead(job, position, b"data")
    tester.nothing("7.5-8")
    end(job, position)
    job.done(0, b"data", clause="7.5-14")
    tester.nothing()
    (following,) = job.post(0, f32(1))
    tester.expect(job.contribution(following, f32(1)))
    job.result(following, f32(3))
    job.done(0, f32(3))


@tree_script("7.5-17", "7.5-18")
def data_that_come_late(tester: Tester) -> None:
    """The RESULT without data came first: the data with AHEAD end the position."""
    job = NicTree(tester)
    position = asks(tester, job)
    end(job, position)
    tester.nothing("7.5-17")
    job.not_done(0, "7.5-17")
    ahead(job, position, b"late")
    job.done(0, b"late", clause="7.5-18")


@tree_script("7.5-15", "7.5-9", "7.5-14")
def data_before_the_rank_asks(tester: Tester) -> None:
    """The CONTRIBUTION that follows is a header without WANTS_RESULT, unless the NIC has dropped the data."""
    job = NicTree(tester)
    job.complete()
    job.places[1] = job.places[0]._replace(mid=job.places[0].mid + 1)
    ahead(job, 1, b"soon")
    tester.nothing()
    (position,) = job.post(0, b"", length=4, contributors="ONE", brings=(0, 0))
    mine = job.contribution(position, None, flags=ANY, contributions=ANY, **OF_ONE)
    (sent,) = tester.expect(mine, clause="7.5-15")
    assert not sent.ceth["flags"] & (DATA | AHEAD), "the data go up again"
    if sent.ceth["flags"] & WANTS:
        end(job, position, b"soon")
    else:
        end(job, position)
    job.done(0, b"soon", clause="7.5-15")


@tree_script("7.5-9", "7.5-10", "7.5-11", "5-22")
def data_ahead_that_are_none(tester: Tester) -> None:
    """Of another message, number or type, for a position beyond the window, from elsewhere: dropped."""
    job = NicTree(tester, slots=8)
    position = asks(tester, job)
    here = job.place(position)
    for changed in (
        {"mid": here["mid"] + 1},
        {"sid": 3},
        {"dtype": int(DType.U16)},
        {"sender": tester.addresses[3]},
        {"node_bitmap": 1},
    ):
        ahead(job, position, b"none", **changed)
    job.places[8] = job.places[position]
    ahead(job, 8, b"none", seg=0)
    tester.nothing("7.5-10")
    end(job, position, b"data")
    job.done(0, b"data", clause="7.5-10")


@tree_script("7.5-14", "7.5-16")
def data_ahead_for_two_ranks(tester: Tester) -> None:
    """Each rank of the node gets them, and a RESULT without data ends the position for both."""
    job = NicTree(tester, 2)
    for rank in range(2):
        job.post(rank, b"", length=4, contributors="ONE", brings=(0, 0))
    tester.expect(job.contribution(0, None, flags=ONE | WANTS, contributions=ANY, **OF_ONE))
    ahead(job, 0, b"data")
    end(job, 0)
    for rank in range(2):
        job.done(rank, b"data", clause="7.5-14")


@tree_script("7.5-19", "7.5-20", "8-6", "7.5-23")
def data_that_never_come(tester: Tester) -> None:
    """The NIC asks; its rank can not end meanwhile; it leaves when it has all."""
    job = NicTree(tester)
    position = asks(tester, job)
    end(job, position)
    asked = job.question("7.5-19")
    end(job, position, b"data", token=asked.ceth["token"])
    job.done(0, b"data", clause="7.5-20")
