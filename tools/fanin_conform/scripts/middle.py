"""A switch below a switch: what it asks and tells its parent, and what it passes down."""

from fanin_conform.below import UP, JobBelow
from fanin_conform.datagram import Dissected, unpack
from fanin_conform.job import ALL, DATA, ONE, WANTS, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import CONFIG_BODY, HOP_BODY, Opcode
from fanin_wire.layers import HOP, WAIT


def told_below(job: JobBelow, seen: list[tuple[str, Dissected]]) -> dict[str, int]:
    """The statuses of the ABORTs to the children, by address."""
    return {to: each.ceth["status"] for to, each in seen if each.opcode == Opcode.ABORT and to != job.parent}


@script("10.1-3", "10.1-4", "10.1-5", "10.3-2", "4-14", "10.1-2", "10.3-1")
def the_path_is_passed_on(tester: Tester) -> None:
    """CONFIG goes up when all children have joined: their description, and the path without its first entry."""
    job = JobBelow(tester, join=False)
    job.above += [HOP(address=f"::ffff:192.0.2.{n}", bit=n, mask=0xFF << 8 | 1 << n) for n in range(1, 7)]
    packet = job.ask()
    body, rest = unpack(CONFIG_BODY, packet.payload), packet.payload[CONFIG_BODY.size :]
    for name, wanted in (("digest_high", 1), ("digest_low", 2), ("chunk", job.chunk), ("hops", 7), ("route", 1)):
        assert body[name] == wanted, f"{name} is {body[name]}, not {wanted}"
    assert body["boot_id"] & 0xFFFFFFFF == packet.ceth["token"], "the token is not the lower half of the boot id"
    hops = [unpack(HOP_BODY, rest[at:]) for at in range(0, 7 * HOP_BODY.size, HOP_BODY.size)]
    for seen, given in zip(hops, job.above, strict=True):
        entry = unpack(HOP_BODY, bytes(given))
        assert seen == entry, f"an entry of the path is {seen}, not {entry}"
    job.grant()


@script("10.1-25")
def a_top_only(tester: Tester) -> None:
    """A device that can be a top only answers NOT_SUPPORTED."""
    job = Job(tester, join=False)
    job.above = [HOP(address=f"::ffff:{tester.addresses[3]}", bit=UP, mask=1 << UP)]
    job.config(0)
    (answer,) = tester.expect(job.to(0, Opcode.CONFIG_ACK, ANY, token=ANY, status=ANY, seg=ANY, node_bitmap=ANY))
    wanted = "PENDING" if tester.profile.middle else "NOT_SUPPORTED"
    assert answer.ceth["status"] == Status[wanted], f"status {answer.ceth['status']}, not {wanted}"


@script("10.1-8", "2.3-2")
def paths_that_can_not_be(tester: Tester) -> None:
    """A later entry whose bit is outside its mask, or without an IPv4 address, or one entry too many: dropped."""
    job = Job(tester, join=False)
    for wrong in ({"bit": 64}, {"mask": 1}, {"address": "::192.0.2.1"}, {"address": "2001:db8::1"}):
        job.above = [HOP(**({"address": "::ffff:192.0.2.1", "bit": UP, "mask": 1 << UP} | wrong))]
        job.config(0)
    job.above = [HOP(address="::ffff:192.0.2.1", bit=UP, mask=1 << UP)] * 8
    job.config(0)
    tester.nothing("10.1-8")
    job.above = []
    job.config(0)
    tester.expect(job.pending(0, [1]), clause="5-22")


@script("10.2-2", "10.2-3", "10.3-3")
def the_grant_is_passed_on(tester: Tester) -> None:
    """SUCCESS makes the job active with the parent's N and W, for each child as well."""
    job = JobBelow(tester, slots=16, grant=False)
    job.answer(slots=8, window=2)
    body = (8).to_bytes(4) + (2).to_bytes(4)
    tester.expect(*(job.to(bit, Opcode.CONFIG_ACK, body, token=job.token(bit)) for bit in range(2)))
    job.slots = 8
    job.complete(0)


@script("10.1-22", "4-24", "10.8-2")
def those_that_are_missing_above(tester: Tester) -> None:
    """PENDING of the parent: the children get its missing members, counted one more."""
    job = JobBelow(tester, grant=False)
    job.answer(status=int(Status.PENDING), seg=1, node_bitmap=0b1)
    tester.everything()
    job.config(0)
    tester.expect(job.pending(0, [0], seg=2), clause="10.1-22")
    job.send(Opcode.QUERY, 1, token=6)
    pending = job.to(1, Opcode.STATUS, token=6, status=int(Status.PENDING), seg=2, node_bitmap=1)
    tester.expect(pending, clause="10.8-2")
    job.grant()


@script("10.2-5", "10-3", "10.3-5")
def a_refusal_from_above(tester: Tester) -> None:
    """It ends the job, and the children get ABORT."""
    for status in ("NO_RESOURCES", "JID_IN_USE", "TOO_FEW_LANES"):
        job = JobBelow(tester, grant=False)
        job.answer(status=int(Status[status]))
        seen = tester.everything(2)
        told = told_below(job, seen)
        assert told == dict.fromkeys(job.addresses, Status[status]), f"ABORTs: {told}"
        job.config(0)
        tester.expect(job.aborted(0, status, node_bitmap=ANY, rank_bitmap=ANY), clause="10.1-15")


@script("10.2-6")
def a_grant_of_another_start(tester: Tester) -> None:
    """CONFIG_ACK with another token than that of the device's CONFIG is dropped."""
    job = JobBelow(tester, grant=False)
    assert job.asked is not None
    job.answer(slots=8, window=4, token=job.asked.ceth["token"] ^ 1)
    tester.nothing("10.2-6")
    job.send(Opcode.QUERY, 0, token=5)
    (state,) = tester.expect(job.to(0, Opcode.STATUS, token=5, status=ANY, seg=ANY, node_bitmap=ANY))
    assert state.ceth["status"] == Status.PENDING, "the job no longer forms"
    job.grant()


@script("10.6-3", "10.6-4")
def a_parent_of_another_version(tester: Tester) -> None:
    """CONFIG_ACK(VERSION_MISMATCH) of any version ends the job; from a stranger it does nothing."""
    job = JobBelow(tester, grant=False)
    packet = job.packet(Opcode.CONFIG_ACK, UP, bytes(8), version=9, status=int(Status.VERSION_MISMATCH))
    tester.send(tester.addresses[2], packet)
    tester.nothing("10.6-3")
    tester.send(job.parent, packet)
    seen = tester.everything(2)
    told = told_below(job, seen)
    assert told == dict.fromkeys(job.addresses, Status.VERSION_MISMATCH), f"ABORTs: {told}"


@script("7.1-14", "7.2-2", "7.2-3", "7.2-4", "1-2")
def a_partial_goes_up_and_a_result_comes_down(tester: Tester) -> None:
    """One CONTRIBUTION when all children have contributed; one RESULT to each with what the parent says."""
    job = JobBelow(tester, 3)
    for bit in range(3):
        tester.nothing("7.1-14")
        job.contribute(bit, 0, f32(bit + 1, 10), contributions=bit + 2)
    tester.expect(job.partial(0, f32(6, 30), contributions=9), clause="7.1-14")
    job.total(0, f32(60, 300))
    tester.expect(*job.all_told(0, f32(60, 300)), clause="7.2-3")


@script("7.1-14", "7.2-4")
def nobody_below_wants_the_result(tester: Tester) -> None:
    """WANTS_RESULT goes up only if a child wants it; other children get a header."""
    job = JobBelow(tester)
    for bit in range(2):
        job.contribute(bit, 0, f32(1), flags=ALL | DATA)
    tester.expect(job.partial(0, f32(2), flags=ALL | DATA), clause="7.1-14")
    job.total(0, None, dtype=1, contributions=4)
    tester.expect(*(job.result(bit, 0, None, dtype=1, contributions=4) for bit in range(2)))
    job.contribute(0, 1, f32(1), flags=ALL | DATA)
    job.contribute(1, 1, f32(1))
    tester.expect(job.partial(1, f32(2)))
    job.total(1, f32(9))
    none, some = job.all_told(1, f32(9))
    tester.expect(none._replace(payload=b"", ceth=none.ceth | {"flags": ALL}), some, clause="7.2-4")


@script("7.1-13", "12-24", "12-25")
def a_mean_is_not_divided_below(tester: Tester) -> None:
    """MEAN travels as a sum; the top divides."""
    job = JobBelow(tester)
    for bit in range(2):
        job.contribute(bit, 0, f32(6), op=4)
    tester.expect(job.partial(0, f32(12), op=4), clause="12-24")
    job.total(0, f32(6), op=4)
    tester.expect(*job.all_told(0, f32(6), op=4))


@script("7.1-14", "7.2-7", "11-30", "11-31")
def a_status_goes_up(tester: Tester) -> None:
    """A poisoned position goes up with its status and without data, and the stream goes on."""
    job = JobBelow(tester)
    status = int(Status.LOCAL_PROTECTION_ERROR)
    job.contribute(0, 0, f32(1))
    job.contribute(1, 0, None, status=status, dtype=1, flags=ALL | WANTS)
    tester.expect(job.partial(0, None, dtype=1, status=status, contributions=1), clause="7.1-14")
    job.total(0, None, dtype=1, status=status, contributions=1)
    told = {"dtype": 1, "status": status, "contributions": 1}
    tester.expect(*(job.result(bit, 0, None, **told) for bit in range(2)), clause="7.2-7")
    job.complete(1)


@script("5-23", "5-17", "7.2-2", "5-21")
def results_that_are_none(tester: Tester) -> None:
    """From another address, for another bit, too early, of another length, or repeated: dropped."""
    job = JobBelow(tester)
    job.contribute(0, 0, f32(1))
    job.total(0, f32(9))
    tester.nothing("7.2-2")
    job.contribute(1, 0, f32(1))
    tester.expect(job.partial(0, f32(2)))
    job.total(0, f32(9), source=tester.addresses[2])
    job.total(0, f32(9), source=job.addresses[0])
    job.total(0, f32(9), node_bitmap=1)
    tester.nothing("5-23")
    job.total(1, f32(9))
    tester.nothing("7.2-2")
    job.total(0, f32(8))
    tester.expect(*job.all_told(0, f32(8)))
    job.total(0, f32(9))
    tester.nothing("7.2-2")


@script("7.1-4", "8-20", "8-26", "8-27", "8-14")
def questions_are_passed_on(tester: Tester) -> None:
    """LOCAL: WAIT without bits. Only what the lowest child asks, or sends again, is asked above, with a token."""
    job = JobBelow(tester)
    for bit in range(2):
        job.contribute(bit, 0, f32(1))
    tester.expect(job.partial(0, f32(2)))
    job.probe(1, 0, token=8)
    tester.expect(job.to(1, Opcode.WAIT, ANY, token=8, **job.place(0)), clause="8-20")
    job.contribute(1, 0, f32(1))
    tester.nothing("7.1-4")
    job.probe(0, 0, token=9)
    waiting = job.to(0, Opcode.WAIT, ANY, token=9, **job.place(0))
    probe = job.up(Opcode.PROBE, ANY, token=ANY, op=ANY, dtype=ANY, flags=ANY, contributions=ANY, **job.place(0))
    probe = probe._replace(ceth=probe.ceth | {"node_bitmap": ANY, "rank_bitmap": ANY, "status": ANY})
    _, asked = tester.expect(waiting, probe, clause="8-26")
    assert asked.ceth["token"], "the PROBE has no token"
    job.contribute(0, 0, f32(1))
    tester.expect(probe, clause="7.1-4")
    job.total(0, f32(7))
    tester.expect(*job.all_told(0, f32(7)))


@script("11-22", "11-16")
def a_wait_that_tells_of_silence(tester: Tester) -> None:
    """WAIT with an age above the detection time: PEER_LOST, without the address of a device."""
    job = JobBelow(tester)
    for bit in range(2):
        job.contribute(bit, 0, f32(1))
    tester.expect(job.partial(0, f32(2)))
    job.probe(0, 0, token=9)
    asked = next(packet for to, packet in tester.everything(2) if to == job.parent)
    for seconds, statuses in ((0.1, []), (tester.profile.detection_s * 2, [Status.PEER_LOST] * 2)):
        body = WAIT(oldest_age_us=round(seconds * 1e6), oldest_child=0, kind=1)
        job.down(Opcode.WAIT, body, token=asked.ceth["token"], node_bitmap=1, **job.place(0))
        told = told_below(job, tester.everything())
        assert list(told.values()) == statuses, f"ABORTs after a silence of {seconds} s: {told}"


@script("8-22")
def the_partial_is_sent_again(tester: Tester) -> None:
    """NEED: the CONTRIBUTION again, as it was. Of an unknown position: nothing."""
    job = JobBelow(tester)
    for bit in range(2):
        job.contribute(bit, 0, f32(1))
    tester.expect(job.partial(0, f32(2)))
    job.down(Opcode.NEED, token=1, **job.place(0))
    tester.expect(job.partial(0, f32(2)), clause="8-22")
    job.down(Opcode.NEED, token=1, **job.place(1))
    job.down(Opcode.NEED, source=tester.addresses[2], token=1, **job.place(0))
    tester.nothing("5-23")


@script("7.1-15", "7.1-18", "7.1-19", "7.1-17")
def one_data_goes_up_at_once(tester: Tester) -> None:
    """Class ONE: the data do not wait for the other children. A RESULT that comes before the last one waits."""
    job = JobBelow(tester, 3)
    job.contribute(1, 0, b"datum", flags=ONE | DATA, op=0)
    up = {"op": 0, "contributions": 1, "flags": ONE | DATA}
    tester.expect(job.partial(0, b"datum", **up), clause="7.1-15")
    job.contribute(0, 0, None, flags=ONE | WANTS, op=0)
    tester.nothing("7.1-15")
    job.total(0, None, flags=ONE, op=0, contributions=1)
    tester.everything()
    job.contribute(2, 0, None, flags=ONE, op=0, status=int(Status.LOCAL_PROTECTION_ERROR))
    seen = tester.everything(1)
    assert job.addresses[2] in [to for to, packet in seen if packet.opcode == Opcode.RESULT], "child 2 has no RESULT"
    job.complete(1)


@script("10.4-1", "10.4-3", "10.3-4", waits=True)
def leaving_above(tester: Tester) -> None:
    """The device leaves at its parent when all its children have left, until LEAVE_ACK."""
    job = JobBelow(tester)
    job.send(Opcode.LEAVE, 0)
    tester.expect(job.to(0, Opcode.LEAVE_ACK), clause="10.4-3")
    job.send(Opcode.LEAVE, 1)
    tester.expect(job.to(1, Opcode.LEAVE_ACK), job.up(Opcode.LEAVE), clause="10.4-3")
    tester.spend(1.0)
    assert tester.repeats[Opcode.LEAVE], "LEAVE is not repeated"
    job.down(Opcode.LEAVE_ACK)
    tester.nothing()
    tester.repeats.clear()
    tester.spend(1.5)
    assert not tester.repeats[Opcode.LEAVE], "LEAVE is repeated after LEAVE_ACK"


@script("10.1-6", waits=True)
def config_is_repeated(tester: Tester) -> None:
    """CONFIG is repeated until there is an answer other than PENDING."""
    job = JobBelow(tester, grant=False)
    tester.spend(1.5, [(job, 0), (job, 1)])
    assert tester.repeats[Opcode.CONFIG] > 1, "CONFIG is not repeated"
    job.grant()
    tester.repeats.clear()
    tester.spend(1.5, [(job, 0), (job, 1)])
    assert not tester.repeats[Opcode.CONFIG], "CONFIG is repeated after the answer"


@script("11-2", "11-3", "4-16", "4-24", "4-25")
def an_abort_goes_both_ways(tester: Tester) -> None:
    """A child's abort goes up as LEAVE with the status; the parent's abort goes to the children."""
    job = JobBelow(tester)
    job.send(Opcode.ABORT, 1, status=int(Status.PEER_LOST), node_bitmap=0b10, rank_bitmap=0x0A000001)
    told = [job.aborted(bit, "PEER_LOST", 1, rank_bitmap=0x0A000001) for bit in range(2)]
    about = {"status": int(Status.PEER_LOST), "seg": 0, "node_bitmap": 1 << UP, "rank_bitmap": 0x0A000001}
    tester.expect(*told, job.up(Opcode.LEAVE, **about), clause="11-2")
    job = JobBelow(tester)
    job.down(Opcode.ABORT, status=int(Status.TIMEOUT), seg=1, node_bitmap=0b1)
    seen = tester.everything(2)
    for bit in range(2):
        (packet,) = (each for to, each in seen if to == job.addresses[bit])
        wrong = job.aborted(bit, "TIMEOUT", seg=2, node_bitmap=1).differences(packet)
        assert packet.opcode == Opcode.ABORT, f"{packet}"
        assert not wrong, f"{packet}: {'; '.join(wrong)}"


@script("11-26")
def nak_of_the_parent(tester: Tester) -> None:
    """It has restarted: PEER_LOST to the children, with its address; NAK of a stranger does nothing."""
    job = JobBelow(tester)
    job.down(Opcode.NAK, source=tester.addresses[2], status=int(Status.NOT_CONFIGURED))
    tester.nothing("5-23")
    job.down(Opcode.NAK, status=int(Status.NOT_CONFIGURED))
    seen = tester.everything(2)
    told = told_below(job, seen)
    assert told == dict.fromkeys(job.addresses, Status.PEER_LOST), f"ABORTs: {told}"


@script("6-35", "6-36", "6-25")
def a_window_through_two_levels(tester: Tester) -> None:
    """Positions in flight at both levels, results in any order, and slots that are used again."""
    job = JobBelow(tester, slots=4)
    for start in range(0, 12, 2):
        for position in (start, start + 1):
            for bit in range(2):
                job.contribute(bit, position, f32(position))
            tester.expect(job.partial(position, f32(2 * position)))
        job.contribute(0, start + 4, f32(9))
        tester.nothing("6-36")
        for position in (start + 1, start):
            job.total(position, f32(position + 0.5))
            tester.expect(*job.all_told(position, f32(position + 0.5)))
