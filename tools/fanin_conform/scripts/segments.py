"""A segment from its contributions to its results."""

from fanin_conform.job import ALL, DATA, NONE, ONE, WANTS, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import Tester
from fanin_wire.abi import Op, Status


@script("7.1-1", "7.1-12", "7.1-13", "7.2-1", "7.2-4", "4-9", "6-2")
def the_sum_of_three(tester: Tester) -> None:
    """The result comes when all have contributed, to each child, with the sum."""
    job = Job(tester, 3)
    for bit in range(2):
        job.contribute(bit, 0, f32(1 + bit, 10))
        tester.nothing("7.1-13")
    job.contribute(2, 0, f32(3, 10))
    tester.expect(*(job.result(bit, 0, f32(6, 30)) for bit in range(3)))


@script("7.1-11", "7.2-4", "4-8")
def only_who_wants_gets_the_data(tester: Tester) -> None:
    """A child without WANTS_RESULT gets a header."""
    job = Job(tester)
    job.contribute(0, 0, f32(1), flags=ALL | DATA)
    job.contribute(1, 0, f32(2))
    tester.expect(job.result(0, 0, None, dtype=1), job.result(1, 0, f32(3)), clause="7.1-11")


@script("7.1-10")
def contributions_are_added(tester: Tester) -> None:
    """The number of ranks in the result is the sum of those in the contributions."""
    job = Job(tester)
    job.contribute(0, 0, f32(1), contributions=5)
    job.contribute(1, 0, f32(2), contributions=7)
    tester.expect(*(job.result(bit, 0, f32(3), contributions=12) for bit in range(2)))


@script("12-25", "7.1-13", "12-24")
def the_mean_is_divided_by_the_ranks(tester: Tester) -> None:
    """The top divides once, by contributions."""
    job = Job(tester)
    mean = int(Op.MEAN)
    job.contribute(0, 0, f32(1), contributions=3, op=mean)
    job.contribute(1, 0, f32(9), contributions=1, op=mean)
    tester.expect(*(job.result(bit, 0, f32(2.5), contributions=4, op=mean) for bit in range(2)))


@script("7.2-4", "6-8")
def a_barrier(tester: Tester) -> None:
    """Class NONE: headers up, headers down."""
    job = Job(tester)
    for bit in range(2):
        job.contribute(bit, 0, None, flags=NONE, op=0)
    tester.expect(*(job.result(bit, 0, None, flags=NONE, op=0, contributions=0) for bit in range(2)))


@script("7.2-4", "12-4")
def data_of_one(tester: Tester) -> None:
    """Class ONE: the data of one child, bit for bit, for those that want them."""
    job = Job(tester, 3)
    data = bytes(range(255, 250, -1))
    job.contribute(1, 0, data, flags=ONE | DATA, op=0)
    tester.nothing()
    for bit in (0, 2):
        job.contribute(bit, 0, None, flags=ONE | WANTS, op=0)
    header, whole = {"flags": ONE, "op": 0}, {"flags": ONE | DATA, "op": 0}
    tester.expect(
        job.result(0, 0, data, contributions=1, **whole),
        job.result(1, 0, None, contributions=1, **header),
        job.result(2, 0, data, contributions=1, **whole),
    )


@script("7.1-7", "7.2-4", "7.2-7", "11-30", "11-31")
def poison(tester: Tester) -> None:
    """The greatest status is the position's; the result is a header; the stream goes on."""
    job = Job(tester, 3)
    job.contribute(0, 0, None, status=3, dtype=1, contributions=0)
    job.contribute(1, 0, f32(1))
    job.contribute(2, 0, None, status=6, dtype=1, contributions=0)
    tester.expect(*(job.result(bit, 0, None, status=6, dtype=1, contributions=1) for bit in range(3)))
    job.complete(1)


@script("7.1-6", "11-18", "11-1", "11-2", "4-20")
def contributions_that_differ(tester: Tester) -> None:
    """Another op, type, class, mid, sid or length ends the job with OP_MISMATCH, naming the child."""
    changes: tuple[dict, ...] = ({"op": 2}, {"dtype": 3}, {"mid": 4}, {"sid": 9}, {"flags": ONE | WANTS})
    for change in changes:
        job = Job(tester)
        job.contribute(0, 0, f32(1))
        tester.nothing()
        job.contribute(1, 0, None if "flags" in change else f32(2), **change)
        tester.expect(*(job.aborted(bit, "OP_MISMATCH", 1) for bit in range(2)), clause="7.1-6")


@script("7.1-8", "11-18")
def data_that_differ(tester: Tester) -> None:
    """Another length, or two data in a ONE position: OP_MISMATCH."""
    job = Job(tester)
    job.contribute(0, 0, f32(1, 2))
    job.contribute(1, 0, f32(2))
    tester.expect(*(job.aborted(bit, "OP_MISMATCH", 1) for bit in range(2)))
    job = Job(tester)
    for bit in range(2):
        job.contribute(bit, 0, bytes(4), flags=ONE | DATA | WANTS, op=0)
    tester.expect(*(job.aborted(bit, "OP_MISMATCH", 1) for bit in range(2)))


@script("7.1-20")
def no_data_at_all(tester: Tester) -> None:
    """Class ALL without data: OP_MISMATCH."""
    job = Job(tester)
    for bit in range(2):
        job.contribute(bit, 0, None)
    tester.expect(*(job.aborted(bit, "OP_MISMATCH") for bit in range(2)))


@script("11-6", "7.1-7")
def a_poison_that_nobody_knows(tester: Tester) -> None:
    """It counts as ABORTED, also where the greatest is looked for."""
    job = Job(tester, 3)
    for bit, status in enumerate((3, 200, 12)):
        job.contribute(bit, 0, None, status=status, dtype=1)
    tester.expect(*(job.result(bit, 0, None, status=12, dtype=1, contributions=0) for bit in range(3)))
    for bit, status in enumerate((3, 200, 4)):
        job.contribute(bit, 1, None, status=status, dtype=1)
    aborted = int(Status.ABORTED)
    expected = [job.result(bit, 1, None, status=aborted, dtype=1, contributions=0) for bit in range(3)]
    tester.expect(*expected, clause="11-6")


@script("1-1", "1-3", "1-4")
def bits_and_not_the_order_of_joining(tester: Tester) -> None:
    """Children keep their bits in any order of joining. Only one of them wants the result."""
    job = Job(tester, 3, join=False)
    for bit, missing in ((2, (0, 1)), (0, (1,))):
        job.config(bit)
        tester.expect(job.pending(bit, missing))
    job.config(1)
    tester.expect(*(job.joined(bit) for bit in range(3)))
    for bit in range(3):
        job.contribute(bit, 0, f32(bit), flags=ALL | DATA | (WANTS if bit == 2 else 0))
    tester.expect(job.result(0, 0, None, dtype=1), job.result(1, 0, None, dtype=1), job.result(2, 0, f32(3)))
