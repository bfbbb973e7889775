"""Recovery at a NIC of a tree: it asks before it sends again, and how often."""

from typing import Any

import numpy as np

from fanin_conform.host import NicTree
from fanin_conform.job import DATA, ONE, WANTS, f32
from fanin_conform.listener import Mismatch
from fanin_conform.profile import LeftOut
from fanin_conform.script import tree_script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode
from fanin_wire.layers import WAIT

STEP_S = 0.05


def wait(age_us: int = 0, child: int = 0, kind: int = 1) -> Any:
    """The body of a WAIT."""
    return WAIT(oldest_age_us=age_us, oldest_child=child, kind=kind)


def answer(job: NicTree, code: Opcode, asked: Any, body: Any = b"", **ceth: Any) -> None:
    """The parent answers a PROBE."""
    place = {name: asked.ceth[name] for name in ("position", "seg", "mid", "sid", "token")}
    job.down(code, body, **(place | ceth))


@tree_script("8-1", "8-2", "8-3", "8-4", "8-14", "4-10", waits=True)
def silence_is_asked_about(tester: Tester) -> None:
    """Without a RESULT the NIC asks, with a header; the data do not go out again."""
    job = NicTree(tester)
    (position,) = job.post(0, f32(1, 2))
    tester.expect(job.contribution(position, f32(1, 2)))
    asked = job.question("8-3")
    for name, value in job.place(position).items():
        assert asked.ceth[name] == value, f"{name} of the PROBE is {asked.ceth[name]}"
    assert asked.ceth["token"], "the PROBE has no token"
    assert not asked.payload, "the PROBE has data"
    assert tester.spend(1.0) == [], "data go out again on suspicion"
    job.result(position, f32(3, 6))
    job.done(0, f32(3, 6))


@tree_script("8-15", "8-23", waits=True)
def questions_become_rarer(tester: Tester) -> None:
    """Each that is not answered, or with WAIT, doubles the time to the next, up to the keep-alive interval."""
    for answered in (False, True):
        job = NicTree(tester)
        (position,) = job.post(0, f32(1))
        tester.expect(job.contribution(position, f32(1)))
        number = 0
        for _ in range(12):
            job.down(Opcode.KEEPALIVE)
            tester.spend(0.25)
            while tester.questions:
                number += 1
                _, asked = tester.questions.pop(0)
                if answered:
                    answer(job, Opcode.WAIT, asked, wait(), node_bitmap=1)
        assert 3 <= number <= 18, f"{number} PROBEs in three seconds"
        job.result(position, f32(3))
        job.done(0, f32(3))


@tree_script("8-30", "11-32", waits=True)
def data_that_never_arrive(tester: Tester) -> None:
    """Each question is answered with NEED, and headers pass: the job ends with PATH_MTU, naming the parent."""
    job = NicTree(tester)
    (position,) = job.post(0, f32(1))
    tester.expect(job.contribution(position, f32(1)))
    for _ in range(round(1.5 * tester.profile.detection_s / STEP_S)):
        job.down(Opcode.KEEPALIVE)
        tester.spend(STEP_S, step=STEP_S)
        while tester.questions:
            _, asked = tester.questions.pop(0)
            answer(job, Opcode.NEED, asked)
    job.done(0, status="PATH_MTU", clause="8-30", lost_device=job.parent)


@tree_script("8-22", "4-11", "8-9", "7.3-1")
def need(tester: Tester) -> None:
    """The CONTRIBUTION goes out again, as it was."""
    job = NicTree(tester, 2)
    for rank in range(2):
        (position,) = job.post(rank, f32(1, 2))
    tester.expect(job.contribution(position, f32(2, 4)))
    for _ in range(2):
        asked = job.question()
        answer(job, Opcode.NEED, asked)
        tester.expect(job.contribution(position, f32(2, 4)), clause="8-22")
    job.result(position, f32(3, 6))
    for rank in range(2):
        job.done(rank, f32(3, 6))


@tree_script("8-22", "5-23", "5-15", "8-21", "7.3-1")
def needs_that_are_none(tester: Tester) -> None:
    """Of a stranger, with a wrong key, or for a position that has its result: nothing goes out."""
    job = NicTree(tester)
    job.complete()
    (position,) = job.post(0, f32(1))
    tester.expect(job.contribution(position, f32(1)))
    here = job.place(position) | {"token": 1}
    job.down(Opcode.NEED, sender=tester.addresses[3], **here)
    job.down(Opcode.NEED, **(here | {"key": job.key ^ 1}))
    job.down(Opcode.NEED, **(here | {"seg": here["seg"] ^ 1}))
    job.down(Opcode.NEED, **(job.place(0) | {"token": 1}))
    tester.nothing("8-22")
    job.result(position, f32(3))
    job.done(0, f32(3))


@tree_script("8-9", "8-18", "4-9")
def the_answer_is_the_result(tester: Tester) -> None:
    """A RESULT with the token of the PROBE counts as any other."""
    job = NicTree(tester)
    (position,) = job.post(0, f32(1))
    tester.expect(job.contribution(position, f32(1)))
    asked = job.question()
    job.result(position, f32(3), token=asked.ceth["token"])
    job.done(0, f32(3))
    job.complete()


@tree_script("8-5", "8-9")
def a_position_that_was_overtaken(tester: Tester) -> None:
    """Results of later positions came: the NIC asks for the one that is missing."""
    job = NicTree(tester, slots=16)
    data = np.arange(64 * 4, dtype="<f4")
    parts = [data[first : first + 64] for first in range(0, data.size, 64)]
    positions = job.post(0, data)
    tester.expect(*(job.contribution(p, parts[p]) for p in positions))
    for position in (0, 2, 3):
        job.result(position, parts[position])
    asked = job.question("8-5", position=1)
    answer(job, Opcode.NEED, asked)
    tester.expect(job.contribution(1, parts[1]), clause="8-22")
    job.result(1, parts[1])
    job.done(0, data)


@tree_script("8-4", "8-7", waits=True)
def only_the_lowest_is_asked_about(tester: Tester) -> None:
    """While all are silent, the questions are about the lowest position."""
    job = NicTree(tester, slots=16)
    data = np.arange(64 * 4, dtype="<f4")
    parts = [data[first : first + 64] for first in range(0, data.size, 64)]
    positions = job.post(0, data)
    tester.expect(*(job.contribution(p, parts[p]) for p in positions))
    tester.spend(1.0)
    asked = {packet.ceth["position"] for _, packet in tester.questions}
    assert asked == {0}, f"it has asked for {sorted(asked)}"
    for position in positions:
        job.result(position, parts[position])
    job.done(0, data)


@tree_script("11-22", "8-24")
def a_wait_that_names_the_silent(tester: Tester) -> None:
    """With an age above the detection time: PEER_LOST, naming the missing; below it, nothing happens."""
    job = NicTree(tester)
    (position,) = job.post(0, f32(1))
    tester.expect(job.contribution(position, f32(1)))
    asked = job.question()
    detection = round(tester.profile.detection_s * 1e6)
    answer(job, Opcode.WAIT, asked, wait(detection // 2, 1), node_bitmap=0b11)
    tester.nothing("11-22")
    job.not_done(0, "11-22")
    asked = job.question()
    answer(job, Opcode.WAIT, asked, wait(detection * 2, 1), node_bitmap=0b11)
    end = job.done(0, status="PEER_LOST", clause="11-22", missing_kind=1)
    assert end["missing"] in (0b10, 0b11), f"it names {end['missing']:#b}"  # all, or the one that is silent
    tester.everything()


@tree_script("11-27", "11-2", "4-16", waits=True)
def a_deadline(tester: Tester) -> None:
    """After it: TIMEOUT, naming the members that the parent has named, and the parent hears of it."""
    job = NicTree(tester)
    (position,) = job.post(0, f32(1), deadline_ms=1500)
    tester.expect(job.contribution(position, f32(1)))
    asked = job.question()
    answer(job, Opcode.WAIT, asked, wait(), node_bitmap=0b10)
    seen = []
    for _ in range(10):
        job.down(Opcode.KEEPALIVE)
        seen += tester.spend(0.25)
    job.done(0, status="TIMEOUT", clause="11-27", missing=0b10, missing_kind=1)
    ends = [packet for _, packet in seen if packet.opcode in (Opcode.LEAVE, Opcode.ABORT)]
    assert ends, "the parent does not hear of the TIMEOUT"
    assert {packet.ceth["status"] for packet in ends} == {int(Status.TIMEOUT)}, "the parent hears another status"


@tree_script("7.5-17", "7.5-19", "7.5-20", "8-6")
def a_result_whose_data_are_missing(tester: Tester) -> None:
    """Class ONE, SUCCESS, and no data for a rank that wants them: not the end, and the NIC asks."""
    job = NicTree(tester)
    (position,) = job.post(0, b"", length=4, contributors="ONE", brings=(0, 0))
    tester.expect(job.contribution(position, None, flags=ONE | WANTS, op=0, dtype=7, contributions=ANY))
    job.result(position, None, flags=ONE, op=0, dtype=7, contributions=1)
    tester.nothing("7.5-17")
    job.not_done(0, "7.5-17")
    asked = job.question("7.5-19")
    fields: dict[str, Any] = {"flags": ONE | DATA, "op": 0, "dtype": 7, "contributions": 1}
    job.result(position, b"late", token=asked.ceth["token"], **fields)
    job.done(0, b"late", clause="7.5-20")


@tree_script("8-20", "8-23")
def a_wait_that_names_nobody(tester: Tester) -> None:
    """All is well above: the NIC goes on waiting, and takes the RESULT when it comes."""
    job = NicTree(tester)
    (position,) = job.post(0, f32(1))
    tester.expect(job.contribution(position, f32(1)))
    answer(job, Opcode.WAIT, job.question(), wait(), node_bitmap=0)
    tester.nothing("8-23")
    job.not_done()
    job.result(position, f32(3))
    job.done(0, f32(3))


def time_to_a_question(tester: Tester, job: NicTree, position: int, clause: str) -> float:
    """Seconds until the NIC asks for a position."""
    begun = tester.target.now()
    for _ in range(400):
        tester.spend(0.0005, step=0.0005)
        for number, (_, packet) in enumerate(tester.questions):
            if packet.ceth["jid"] == job.jid and packet.ceth["position"] == position:
                del tester.questions[number]
                return tester.target.now() - begun
    raise Mismatch(f"no PROBE for position {position} comes", (clause,))


def overtake(tester: Tester, job: NicTree, clause: str, lost: bool) -> float:
    """Overtake a position. Returns the seconds until the NIC asks. lost: its CONTRIBUTION; else the RESULT is late."""
    data = np.arange(128, dtype="<f4")
    first, second = job.post(0, data)
    parts = data[:64], data[64:]
    tester.expect(job.contribution(first, parts[0]), job.contribution(second, parts[1]))
    job.result(second, parts[1])
    seconds = time_to_a_question(tester, job, first, clause)
    if lost:
        job.down(Opcode.NEED, **(job.place(first) | {"token": 1}))
        tester.expect(job.contribution(first, parts[0]))
    job.result(first, parts[0])
    job.done(0, data)
    return seconds


@tree_script("8-8", "8-9", "8-10", "8-11", "8-5")
def the_reorder_time_is_learnt(tester: Tester) -> None:
    """A proved loss makes it shorter, a late RESULT longer, up to its first value."""
    if not tester.target.is_virtual:
        raise LeftOut("virtual time")
    job = NicTree(tester, slots=16)
    begin = overtake(tester, job, "8-5", lost=True)
    after_a_loss = overtake(tester, job, "8-10", lost=False)
    after_a_late_one = overtake(tester, job, "8-11", lost=True)
    assert after_a_loss < begin * 0.75, f"the reorder time is {after_a_loss:.4f} s after a loss, {begin:.4f} s before"
    assert after_a_loss < after_a_late_one <= begin * 1.1, (
        f"it is {after_a_late_one:.4f} s after a RESULT that was late"
    )


@tree_script("8-12", "8-28")
def quick_results_make_nobody_impatient(tester: Tester) -> None:
    """Without a loss the first question comes no earlier than at the start, however quick the results were."""
    if not tester.target.is_virtual:
        raise LeftOut("virtual time")
    times = []
    for rounds in (0, 12):
        job = NicTree(tester)
        for _ in range(rounds):
            job.complete()
        (position,) = job.post(0, f32(1))
        tester.expect(job.contribution(position, f32(1)))
        times.append(time_to_a_question(tester, job, position, "8-12"))
        job.result(position, f32(3))
        job.done(0, f32(3))
    assert times[1] >= times[0] * 0.9, f"it asks after {times[1]:.4f} s, and at the start after {times[0]:.4f} s"
