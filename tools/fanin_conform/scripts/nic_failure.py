"""Failure at a NIC of a tree: what its ranks learn, and what its parent hears."""

import ipaddress

from fanin_conform.host import NicTree
from fanin_conform.job import f32
from fanin_conform.script import tree_script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode


def number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def posted(tester: Tester, ranks: int = 2) -> NicTree:
    """A job with one position under way."""
    job = NicTree(tester, ranks, above=1)
    for rank in range(ranks):
        (position,) = job.post(rank, f32(1))
    tester.expect(job.contribution(position, f32(ranks)))
    return job


def told(tester: Tester, job: NicTree, status: str, **about: int) -> None:
    """The parent hears of the end: a LEAVE, or ABORTs as well, with this status."""
    seen = [packet for to, packet in tester.everything() if to == job.parent and packet.ceth["jid"] == job.jid]
    assert any(packet.opcode == Opcode.LEAVE for packet in seen), "the parent gets no LEAVE"
    for packet in seen:
        assert packet.opcode in (Opcode.LEAVE, Opcode.ABORT), f"the parent gets {packet}"
        assert packet.ceth["status"] == int(Status[status]), f"the parent hears {packet}"
        for name, value in about.items():
            assert packet.ceth[name] == value, f"{name} is {packet.ceth[name]:#x}, not {value:#x}: {packet}"


@tree_script("11-3", "11-4", "11-5", "4-23", "4-25", "11-2", "4-16")
def an_abort_from_above(tester: Tester) -> None:
    """All requests of all ranks end with its status, those posted later too; names and address are passed on."""
    lost = number("192.0.2.77")
    for level in (1, 2):
        job = posted(tester)
        job.down(Opcode.ABORT, status=int(Status.PEER_LOST), seg=level, node_bitmap=0b10, rank_bitmap=lost)
        for rank in range(2):
            job.done(
                rank, status="PEER_LOST", clause="11-5 4-23", missing=0b10, missing_kind=level, lost_device="192.0.2.77"
            )
        told(tester, job, "PEER_LOST")
        job.post(0, f32(1))
        job.done(0, status="PEER_LOST", clause="11-5")


@tree_script("11-6")
def an_abort_of_an_unknown_status(tester: Tester) -> None:
    """An unknown status, and SUCCESS and PENDING, count as ABORTED."""
    for code in (0, 1, 200):
        job = posted(tester)
        job.down(Opcode.ABORT, status=code)
        for rank in range(2):
            job.done(rank, status="ABORTED", clause="11-6")
        tester.everything()


@tree_script("5-23", "5-15", "5-22")
def aborts_that_are_none(tester: Tester) -> None:
    """Of a stranger, or with a wrong key: the job lives."""
    job = posted(tester)
    job.down(Opcode.ABORT, status=int(Status.ABORTED), sender=tester.addresses[3])
    job.down(Opcode.ABORT, status=int(Status.ABORTED), key=job.key ^ 1)
    job.down(Opcode.NAK, status=int(Status.NOT_CONFIGURED), sender=tester.addresses[3])
    tester.nothing("5-23")
    job.not_done(0, "5-23")
    job.result(0, f32(9))
    for rank in range(2):
        job.done(rank, f32(9))


@tree_script("11-26", "11-15")
def the_parent_was_restarted(tester: Tester) -> None:
    """NAK for an active job: PEER_LOST, with the address of the parent."""
    job = posted(tester)
    job.down(Opcode.NAK, status=int(Status.NOT_CONFIGURED))
    for rank in range(2):
        job.done(rank, status="PEER_LOST", clause="11-26 11-15", lost_device=job.parent)
    tester.everything()


@tree_script("11-24", "11-15", "10.5-6", waits=True)
def the_parent_falls_silent(tester: Tester) -> None:
    """After the detection time: PEER_LOST, naming all behind it, and its address."""
    job = posted(tester)
    tester.spend(tester.profile.detection_s * 1.3)
    for rank in range(2):
        end = job.done(rank, status="PEER_LOST", clause="11-24 11-15", lost_device=job.parent, missing_kind=1)
        others = (1 << job.nodes) - 1 & ~(1 << job.bit)
        assert end["missing"] & others == others, f"of {others:#b} it names {end['missing']:#b}"


@tree_script("4-24", "4-27", "11-2", "4-16", "11-5")
def a_rank_that_dies(tester: Tester) -> None:
    """The others of its node get the rank's bit, the parent that of its node."""
    job = posted(tester, 3)
    job.kill(1)
    for rank in (0, 2):
        job.done(rank, status="PEER_LOST", clause="11-5", missing=0b10, missing_kind=0)
    told(tester, job, "PEER_LOST", seg=0, node_bitmap=1 << job.bit)


@tree_script("11-28", "11-2")
def a_rank_that_leaves_too_early(tester: Tester) -> None:
    """With a request outstanding: ABORTED for the others, naming it."""
    job = posted(tester)
    job.leave(1)
    job.done(0, status="ABORTED", clause="11-28", missing=0b10, missing_kind=0)
    told(tester, job, "ABORTED", seg=0, node_bitmap=1 << job.bit)


@tree_script("11-18", "7.1-6", "7.1-8")
def ranks_that_post_differently(tester: Tester) -> None:
    """Another operation, type, length or class for one position: OP_MISMATCH, for all, and the parent hears of it."""
    others = (
        {"data": f32(1), "op": "MAX"},
        {"data": f32(1), "dtype": "I32"},
        {"data": f32(1, 2)},
        {"data": b"", "length": 4, "contributors": "ONE", "brings": (0, 0)},
    )
    for other in others:
        job = NicTree(tester, 2)
        job.post(0, f32(1))
        job.post(1, **other)
        for rank in range(2):
            job.done(rank, status="OP_MISMATCH", clause="11-18")
        told(tester, job, "OP_MISMATCH")


@tree_script("11-18", "7.1-8")
def two_roots_on_a_node(tester: Tester) -> None:
    """Two data in a position of class ONE: OP_MISMATCH."""
    job = NicTree(tester, 2)
    for rank in range(2):
        job.post(rank, b"abcd", contributors="ONE", wants=(0, 0))
    job.done(1, status="OP_MISMATCH", clause="7.1-8")
    seen = tester.everything()
    ends = [packet for _, packet in seen if packet.opcode == Opcode.LEAVE and packet.ceth["jid"] == job.jid]
    assert ends, "the parent does not hear of it"
    assert ends[0].ceth["status"] == int(Status.OP_MISMATCH), "the parent does not hear OP_MISMATCH"


@tree_script("7.2-5", "11-18")
def a_result_of_another_length(tester: Tester) -> None:
    """The rank that brings nothing has another length than the result: OP_MISMATCH."""
    job = NicTree(tester)
    (position,) = job.post(0, b"", length=6, contributors="ONE", brings=(0, 0))
    tester.expect(job.contribution(position, None, flags=0x22, op=0, dtype=7, contributions=ANY))
    job.result(position, b"eight by", flags=0x21, op=0, dtype=7, contributions=1)
    job.done(0, status="OP_MISMATCH", clause="7.2-5")
    tester.everything()


@tree_script("11-1", "11-7", "11-8")
def a_tombstone(tester: Tester) -> None:
    """After the end the NIC answers its parent with ABORT, and LEAVE with LEAVE_ACK."""
    job = posted(tester)
    job.down(Opcode.ABORT, status=int(Status.OP_MISMATCH))
    tester.everything()
    for code in (Opcode.KEEPALIVE, Opcode.QUERY, Opcode.PROBE, Opcode.RESULT):
        ceth = job.place(0) | {"node_bitmap": 1 << job.bit} if code == Opcode.RESULT else {}
        job.down(code, **ceth)
        again = job.up(Opcode.ABORT, status=int(Status.OP_MISMATCH), seg=ANY, node_bitmap=ANY, rank_bitmap=ANY)
        tester.expect(again, clause="11-7")
    job.down(Opcode.LEAVE)
    tester.expect(job.up(Opcode.LEAVE_ACK), clause="11-7")


@tree_script("11-29", "10.5-5", waits=True)
def a_late_rank_is_no_failure(tester: Tester) -> None:
    """A rank of the node has not posted for more than a detection time: the job lives."""
    job = NicTree(tester, 2)
    job.post(0, f32(1))
    for _ in range(6):
        job.down(Opcode.KEEPALIVE)
        assert tester.spend(tester.profile.detection_s / 4) == [], "the NIC sends something"
    job.not_done(0, "11-29")
    job.post(1, f32(2))
    tester.expect(job.contribution(0, f32(3)), clause="11-29")
    job.result(0, f32(9))
    for rank in range(2):
        job.done(rank, f32(9))


@tree_script("6.1-17", "10.4-2", "4-17")
def the_end_is_acknowledged(tester: Tester) -> None:
    """A LEAVE with a status from above ends the job as an ABORT does, and is acknowledged."""
    job = posted(tester)
    job.down(Opcode.ABORT, status=int(Status.ABORTED), seg=1, node_bitmap=1)
    job.done(0, status="ABORTED")
    seen = tester.everything()
    assert any(packet.opcode == Opcode.LEAVE for _, packet in seen), "the NIC does not leave"
    job.down(Opcode.LEAVE_ACK)
    job.close_host()
    tester.rest()
    job.down(Opcode.QUERY, token=3)
    tester.expect(job.up(Opcode.NAK, status=int(Status.NOT_CONFIGURED)))


@tree_script("12-1", "12-2")
def what_is_not_computed(tester: Tester) -> None:
    """NOT_SUPPORTED: the post is refused, or the request ends so, and no data go out."""
    for op, dtype in (("SUM", "BOOL"), ("BAND", "F32"), ("MIN", "C64"), ("MINLOC", "I32")):
        job = NicTree(tester)
        if job.is_refused(f32(1, 2), op=op, dtype=dtype):
            tester.nothing("12-2")
            job.complete()
        else:
            job.done(0, status="NOT_SUPPORTED", clause="12-2")
            sent = [packet for _, packet in tester.everything() if packet.opcode == Opcode.CONTRIBUTION]
            assert not sent, "it contributes what it does not compute"
