"""Recovery: what a device answers to PROBE."""

from fanin_conform.job import ALL, DATA, Job, f32
from fanin_conform.script import script
from fanin_conform.tester import ANY, Tester
from fanin_wire.fields import WAIT_BODY, Opcode


@script("8-16", "8-17", "4-11")
def need(tester: Tester) -> None:
    """The child's contribution is missing: NEED, with the place and the token."""
    job = Job(tester)
    job.probe(0, 0, token=0xABCD)
    tester.expect(job.to(0, Opcode.NEED, token=0xABCD, **job.place(0)))
    job.contribute(1, 0, f32(1))
    job.probe(0, 0, token=0xABCE)
    tester.expect(job.to(0, Opcode.NEED, token=0xABCE, **job.place(0)))
    job.contribute(0, 0, f32(1))
    tester.expect(*(job.result(bit, 0, f32(2)) for bit in range(2)))


@script("8-19", "8-24", "4-12")
def wait_names_the_missing(tester: Tester) -> None:
    """The child's contribution has arrived and others are missing: WAIT names them, and how long one was silent."""
    job = Job(tester, 3)
    job.contribute(0, 0, f32(1))
    job.probe(0, 0)
    (answer,) = tester.expect(job.to(0, Opcode.WAIT, ANY, token=77, node_bitmap=0b110, **job.place(0)))
    body = answer.payload
    assert len(body) >= WAIT_BODY.size, "WAIT has no body"
    assert body[4] in (1, 2), f"oldest_child {body[4]} is not missing"
    assert body[5] == 1, f"kind is {body[5]}, not 1"


@script("8-18", "6-30", "4-9")
def probe_of_a_stored_result(tester: Tester) -> None:
    """A child without its result asks: after a NEED has proved a loss, it gets the RESULT with the token."""
    job = Job(tester)
    job.complete(0)
    job.probe(1, 1, token=4)
    tester.expect(job.to(1, Opcode.NEED, token=4, **job.place(1)))
    job.probe(1, 0, token=5)
    tester.expect(job.result(1, 0, f32(2, 4), token=5))


@script("8-21")
def probe_that_is_stale_or_a_violation(tester: Tester) -> None:
    """No answer."""
    job = Job(tester)
    for position in range(job.slots + 1):
        job.complete(position)
    job.probe(0, 0)
    job.probe(0, 3 * job.slots)
    tester.nothing("8-21")


@script("4-10", "5-21")
def probe_with_fields_that_can_not_be(tester: Tester) -> None:
    """A reserved class, a length above the chunk, or an unknown op: dropped, as in a contribution."""
    job = Job(tester)
    job.probe(0, 0, flags=0x60)
    job.probe(0, 0, flags=ALL | DATA, op=99, dtype=1)
    job.send(Opcode.PROBE, 0, bytes(job.chunk + 4), token=7, **job.place(0))
    tester.nothing("5-21")
    job.probe(0, 0, flags=ALL, op=2, dtype=9, contributions=5, node_bitmap=1, rank_bitmap=1)
    tester.expect(job.to(0, Opcode.NEED, token=77, **job.place(0)), clause="4-10")


@script("8-18", "7.2-4")
def probe_of_a_result_without_data(tester: Tester) -> None:
    """The child does not want the data: the RESULT that answers it is a header."""
    job = Job(tester)
    job.contribute(0, 0, f32(1), flags=ALL | DATA)
    job.contribute(1, 0, f32(2))
    tester.expect(job.result(0, 0, None, dtype=1), job.result(1, 0, f32(3)))
    job.probe(1, 1, token=4)
    tester.expect(job.to(1, Opcode.NEED, token=4, **job.place(1)))
    job.probe(0, 0, token=5)
    tester.expect(job.result(0, 0, None, dtype=1, token=5))
