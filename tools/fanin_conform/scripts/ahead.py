"""Data ahead of the result (section 7.5)."""

from fanin_conform.below import JobBelow
from fanin_conform.job import DATA, ONE, WANTS, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Expected, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Flag

AHEAD = int(Flag.AHEAD)
DATUM = b"datum"


def bring(job: Job, bit: int, position: int, flags: int = ONE | DATA | AHEAD) -> None:
    """The child that has the data contributes."""
    job.contribute(bit, position, DATUM, flags=flags, op=0, sid=0)


def want(job: Job, bit: int, position: int, flags: int = ONE | WANTS) -> None:
    """A child without data contributes."""
    job.contribute(bit, position, None, flags=flags, op=0, sid=0)


def sent_ahead(job: Job, bit: int, position: int) -> Expected:
    """The data, ahead of the result."""
    return job.result(bit, position, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1)


def ended(job: Job, bit: int, position: int, *, data: bool = False) -> Expected:
    """The RESULT."""
    flags = ONE | DATA if data else ONE
    return job.result(bit, position, DATUM if data else None, flags=flags, op=0, sid=0, contributions=1)


@script("7.5-4", "7.5-16", "7.5-8", "7.2-4")
def data_go_to_those_that_lack_them(tester: Tester) -> None:
    """They go at once to missing children and to those that want them; the RESULT is a header."""
    tester.profile.require_ahead()
    job = Job(tester, 3)
    want(job, 0, 0)
    tester.nothing()
    bring(job, 1, 0)
    tester.expect(sent_ahead(job, 0, 0), sent_ahead(job, 2, 0), clause="7.5-4")
    bring(job, 1, 0)
    tester.nothing("7.5-8")
    want(job, 2, 0, ONE)
    tester.expect(*(ended(job, bit, 0) for bit in range(3)), clause="7.5-16")


@script("7.5-4")
def not_to_one_that_does_not_want_them(tester: Tester) -> None:
    """A child that has contributed and does not want the data gets none."""
    tester.profile.require_ahead()
    job = Job(tester, 3)
    want(job, 0, 0, ONE)
    bring(job, 1, 0)
    tester.expect(sent_ahead(job, 2, 0), clause="7.5-4")
    want(job, 2, 0, ONE)
    tester.expect(*(ended(job, bit, 0) for bit in range(3)))


@script("7.5-4", "7.5-27")
def without_the_flag_nothing_goes_ahead(tester: Tester) -> None:
    """Data without AHEAD come with the RESULT; so do those that come last."""
    job = Job(tester, 3)
    bring(job, 1, 0, ONE | DATA)
    tester.nothing("7.5-27")
    want(job, 0, 0)
    want(job, 2, 0)
    tester.expect(*(ended(job, bit, 0, data=bit != 1) for bit in range(3)), clause="7.5-27")


@script("7.5-6", "7.2-7")
def nothing_goes_ahead_of_a_status(tester: Tester) -> None:
    """A position with a status sends nothing ahead."""
    job = Job(tester, 3)
    status = int(Status.LOCAL_PROTECTION_ERROR)
    job.contribute(0, 0, None, flags=ONE | WANTS, op=0, sid=0, status=status)
    bring(job, 1, 0)
    tester.nothing("7.5-6")
    want(job, 2, 0)
    told = {"flags": ONE, "op": 0, "sid": 0, "contributions": 1, "status": status}
    tester.expect(*(job.result(bit, 0, None, **told) for bit in range(3)), clause="7.2-7")


@script("7.5-17", "7.5-20", "8-18")
def who_lost_the_data_asks(tester: Tester) -> None:
    """A PROBE gets the RESULT and the data, for a child that wants them."""
    job = Job(tester)
    bring(job, 1, 0)
    tester.everything()
    want(job, 0, 0)
    tester.everything(2)
    job.probe(0, 0, token=9)
    told = ended(job, 0, 0, data=True)
    seen = tester.everything(1)
    assert len(seen) == 1, f"{len(seen)} answers"
    if tester.profile.ahead:
        wrong = told._replace(ceth=told.ceth | {"token": 9}).differences(seen[0][1])
        assert not wrong, "; ".join(wrong)


@script("7.5-3", "7.5-7", "7.5-4", "7.1-16")
def through_a_device_in_between(tester: Tester) -> None:
    """It sends them to its children and, with AHEAD, to its parent; data from above go to its children."""
    tester.profile.require_ahead()
    job = JobBelow(tester)
    bring(job, 1, 0)
    up = job.partial(0, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1)
    tester.expect(sent_ahead(job, 0, 0), up, clause="7.5-3")
    want(job, 0, 0, ONE)
    job.total(0, None, flags=ONE, op=0, sid=0, contributions=1)
    tester.expect(*(ended(job, bit, 0) for bit in range(2)))
    want(job, 0, 1)
    tester.nothing()
    job.total(1, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1)
    passed_on = [sent_ahead(job, bit, 1) for bit in range(2)]
    tester.expect(*(each._replace(ceth=each.ceth | {"contributions": ANY}) for each in passed_on), clause="7.5-7")
    want(job, 1, 1, ONE)
    tester.expect(job.partial(1, None, flags=ONE, op=0, sid=0), clause="7.1-16")
    job.total(1, None, flags=ONE, op=0, sid=0, contributions=1)
    tester.expect(*(ended(job, bit, 1) for bit in range(2)))


@script("7.5-9", "7.5-10")
def what_comes_ahead_too_late(tester: Tester) -> None:
    """Data from above, of another mid or for a position that has its result, are dropped."""
    tester.profile.require_ahead()
    job = JobBelow(tester)
    want(job, 0, 0)
    job.total(0, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1, mid=77)
    tester.nothing("7.5-10")
    want(job, 1, 0)
    tester.expect(job.partial(0, None, flags=ONE | WANTS, op=0, sid=0))
    job.total(0, DATUM, flags=ONE | DATA, op=0, sid=0, contributions=1)
    tester.expect(*(ended(job, bit, 0, data=True) for bit in range(2)))
    job.total(0, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1)
    tester.nothing("7.5-10")


@script("7.5-12", "7.5-9", "7.5-10")
def data_from_above_wait_for_the_children(tester: Tester) -> None:
    """A slot that has served p - N takes data for p only after all children have contributed to p - N + W."""
    tester.profile.require_ahead()
    job = JobBelow(tester, slots=8)
    window, size = job.slots // 2, job.slots
    for position in range(window):
        job.complete(position)

    def ahead() -> None:
        job.total(size, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1)

    job.contribute(0, window, f32(1))
    ahead()
    tester.nothing("7.5-12")
    job.contribute(1, window, f32(1))
    tester.expect(job.partial(window, f32(2)))
    ahead()
    passed_on = [sent_ahead(job, bit, size) for bit in range(2)]
    tester.expect(*(each._replace(ceth=each.ceth | {"contributions": ANY}) for each in passed_on), clause="7.5-12")


@script("7.5-21", "7.1-17", "7.2-7")
def a_status_after_the_data(tester: Tester) -> None:
    """The position fails only for the child that brought the status."""
    tester.profile.require_ahead()
    job = Job(tester, 3)
    bring(job, 1, 0)
    tester.expect(sent_ahead(job, 0, 0), sent_ahead(job, 2, 0))
    status = int(Status.LOCAL_PROTECTION_ERROR)
    job.contribute(0, 0, None, flags=ONE | WANTS, op=0, sid=0, status=status)
    tester.nothing()
    want(job, 2, 0, ONE)
    failed = ended(job, 0, 0)
    failed = failed._replace(ceth=failed.ceth | {"status": ANY})  # the child knows it
    tester.expect(failed, ended(job, 1, 0), ended(job, 2, 0), clause="7.5-21")


@script("7.5-21", "7.1-17")
def a_status_after_the_data_from_above(tester: Tester) -> None:
    """It stays below: the device contributes with success."""
    tester.profile.require_ahead()
    job = JobBelow(tester)
    want(job, 1, 0)
    job.total(0, DATUM, flags=ONE | DATA | AHEAD, op=0, sid=0, contributions=1)
    passed_on = [sent_ahead(job, bit, 0) for bit in range(2)]
    tester.expect(*(each._replace(ceth=each.ceth | {"contributions": ANY}) for each in passed_on))
    status = int(Status.LOCAL_PROTECTION_ERROR)
    job.contribute(0, 0, None, flags=ONE | WANTS, op=0, sid=0, status=status)
    tester.expect(job.partial(0, None, flags=ONE, op=0, sid=0), clause="7.5-21")
    job.total(0, None, flags=ONE, op=0, sid=0, contributions=1)
    failed = ended(job, 0, 0)
    failed = failed._replace(ceth=failed.ceth | {"status": ANY})  # the child knows it
    tester.expect(failed, ended(job, 1, 0), clause="7.5-21")
