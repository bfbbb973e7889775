"""Membership of a NIC in a tree: CONFIG, its answers, LEAVE, keep-alives."""

from typing import Any

from fanin_conform import datagram
from fanin_conform.host import DIGEST, NicTree
from fanin_conform.job import f32
from fanin_conform.script import nic_script, tree_script
from fanin_conform.tester import ANY, Expected, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import CONFIG_BODY, HOP_BODY, Opcode
from fanin_wire.layers import offload

SLOW_REPEATS = 8  # CONFIGs after which the next comes in half a second: an answer can not be for it


@tree_script("10.1-1", "10.1-2", "10.1-3", "10.1-5", "4-14", "6.1-11", "6-20", "10-1")
def config(tester: Tester) -> None:
    """It comes when all ranks of the node have joined, and has the whole path."""
    job = NicTree(tester, 2, above=2, join=False)
    job.join_rank(1)
    tester.nothing("10.1-1")
    job.joined(1, "PENDING")
    job.join_rank(0)
    asked = job.expect_config("4-14")
    body = datagram.unpack(CONFIG_BODY, asked.payload)
    wanted = {"digest_high": DIGEST[0], "digest_low": DIGEST[1], "slots": 8, "chunk": 256, "route": 1, "hops": 3}
    wanted |= {"last_lane": 0, "flags": 0}
    for name, value in wanted.items():
        assert body[name] == value, f"{name} is {body[name]}, not {value}"
    assert 0 < body["window"] <= 4, f"window is {body['window']}"
    assert asked.ceth["token"] == body["boot_id"] & 0xFFFFFFFF, "the token is not the lower half of the boot id"
    for level, hop in enumerate(job.hops):
        seen = datagram.unpack(HOP_BODY, asked.payload[CONFIG_BODY.size + level * HOP_BODY.size :])
        assert (seen["bit"], seen["mask"]) == (hop.bit, hop.mask), f"entry {level} is {seen}"
        assert seen["address"] >> 32 == 0xFFFF, f"entry {level} is not a mapped address"
    job.grant()
    job.all_joined()
    job.complete()


@tree_script("10.1-6", "10.5-4", waits=True)
def config_is_repeated(tester: Tester) -> None:
    """Until it is answered, and after PENDING as well."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    job.expect_config()
    tester.repeats.clear()
    tester.spend(1.0)
    assert 2 <= tester.repeats[Opcode.CONFIG] <= 14, f"{tester.repeats[Opcode.CONFIG]} CONFIGs more in a second"
    tester.repeats.clear()
    job.answer(status=int(Status.PENDING), seg=1, node_bitmap=1)
    tester.spend(1.5)
    assert tester.repeats[Opcode.CONFIG] >= 1, "CONFIG is not repeated after PENDING"
    job.joined(0, "PENDING")
    job.grant()
    job.all_joined()


@tree_script("10.1-28", "10.1-29", waits=True)
def length_of_config(tester: Tester) -> None:
    """Full, with zeros behind its fields. After three unanswered ones every other one is short."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    first = job.expect_config("10.1-28")
    fields = CONFIG_BODY.size + HOP_BODY.size
    assert len(first.payload) == job.chunk, f"the body has {len(first.payload)} bytes, not {job.chunk}"
    assert not any(first.payload[fields:]), "other than zeros follow the fields"
    tester.spend(1.0)
    seen, full = tester.config_lengths[job.jid][:6], job.chunk
    assert seen == [full, full, full, fields, full, fields], f"the bodies have {seen} bytes"
    job.grant()
    job.all_joined()


@tree_script("10.1-31", "10.1-32", "11-32", waits=True)
def path_that_loses_long_packets(tester: Tester) -> None:
    """Only short CONFIGs are answered: their SUCCESS is ignored, and the join ends with PATH_MTU."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    job.expect_config()
    seen, step = tester.config_lengths[job.jid], 0.05
    answered = SLOW_REPEATS
    for _ in range(round((tester.profile.detection_s + 4.0) / step)):
        tester.spend(step, step=step)
        if len(seen) > answered and seen[-1] < job.chunk:
            answered = len(seen)
            job.grant(full=False)
    job.joined(0, "PATH_MTU", "10.1-32")


@tree_script("10.1-7", waits=True)
def nobody_answers(tester: Tester) -> None:
    """The NIC gives up after the detection time."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    job.expect_config()
    tester.spend(tester.profile.detection_s * 1.2)
    job.joined(0, "PEER_LOST", "10.1-7")


@tree_script("10.2-5", "11-19", "11-20")
def refusals(tester: Tester) -> None:
    """The ranks hear every answer of the parent but SUCCESS and PENDING."""
    for name in ("JID_IN_USE", "NO_RESOURCES", "MEMBERS_MISMATCH", "TOO_FEW_LANES", "NOT_SUPPORTED"):
        job = NicTree(tester, 2, join=False)
        for rank in range(2):
            job.join_rank(rank)
        job.expect_config()
        job.answer(status=int(Status[name]), slots=4 if name == "NO_RESOURCES" else 0)
        job.all_joined(name, "10.2-5")
        tester.everything()
        job.close_host()


@tree_script("10.2-6", "5-23")
def answers_that_are_none(tester: Tester) -> None:
    """With another token, from another device, or with another key: the NIC goes on asking."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    asked = job.expect_config()
    job.answer(slots=8, window=4, token=asked.ceth["token"] ^ 1)
    job.answer(slots=8, window=4, source=tester.addresses[3])
    job.answer(slots=8, window=4, key=job.key ^ 1)
    tester.nothing("10.2-6")
    job.joined(0, "PENDING", "10.2-6")
    job.grant()
    job.all_joined()


@tree_script("10.2-2", "10.2-3", "6-23")
def what_was_granted(tester: Tester) -> None:
    """The ranks learn N and W from the top, which may be less than offered."""
    job = NicTree(tester, slots=16, join=False)
    job.join_rank(0)
    job.expect_config()
    job.grant(slots=4, window=1)
    (answer,) = job.all_joined()
    assert (answer["slots"], answer["window"]) == (4, 1), f"the rank hears N {answer['slots']}, W {answer['window']}"
    for number in range(6):
        job.complete(f32(number))


@tree_script("10.6-3", "10.6-4", "10.6-1")
def a_parent_of_another_version(tester: Tester) -> None:
    """CONFIG_ACK(VERSION_MISMATCH) counts in any version, from the parent alone."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    job.expect_config()
    refusal: dict[str, Any] = {"status": int(Status.VERSION_MISMATCH), "version": 7, "token": 0}
    job.down(Opcode.CONFIG_ACK, b"another format", sender=tester.addresses[3], **refusal)
    tester.nothing("10.6-3")
    job.joined(0, "PENDING", "10.6-3")
    job.down(Opcode.CONFIG_ACK, b"another format", **refusal)
    job.joined(0, "VERSION_MISMATCH", "10.6-4")
    tester.everything()


@tree_script("11-3", "11-5", "10.1-15")
def an_abort_while_forming(tester: Tester) -> None:
    """The join ends with the status of the ABORT."""
    job = NicTree(tester, join=False)
    job.join_rank(0)
    job.expect_config()
    job.down(Opcode.ABORT, status=int(Status.MEMBERS_MISMATCH), seg=1, node_bitmap=1)
    job.joined(0, "MEMBERS_MISMATCH", "11-3")
    tester.everything()


@tree_script("11-19", "11-5")
def ranks_that_describe_the_job_differently(tester: Tester) -> None:
    """Another digest, chunk or mask: MEMBERS_MISMATCH, for the ranks that wait as well."""
    for changed in ({"digest": (1, 3)}, {"chunk": 512}, {"rank_mask": 7}, {"flags": 1}):
        job = NicTree(tester, 2, join=False)
        job.join_rank(0)
        job.join_rank(1, **changed)
        job.joined(1, "MEMBERS_MISMATCH", "11-19")
        job.joined(0, "MEMBERS_MISMATCH", "11-19")
        tester.everything()
        job.close_host()


@tree_script("10-2", "10.1-13")
def another_key_at_the_nic(tester: Tester) -> None:
    """Its jid belongs to another job here: JID_IN_USE for the rank."""
    job = NicTree(tester)
    other = NicTree(tester, join=False)
    other.jid = job.jid
    other.join_rank(0)
    other.joined(0, "JID_IN_USE", "10.1-13")
    tester.nothing()
    job.complete()


@tree_script("10.4-1", "10.4-3", "10.3-4", "4-16", "5-12", waits=True)
def leaving(tester: Tester) -> None:
    """LEAVE comes when the last rank has left, again until LEAVE_ACK; then the job is unknown."""
    job = NicTree(tester, 2)
    job.complete()
    job.leave(0)
    tester.nothing("10.4-3")
    job.leave(1)
    tester.expect(job.up(Opcode.LEAVE), clause="4-16")
    tester.repeats.clear()
    tester.spend(1.0)
    assert tester.repeats[Opcode.LEAVE] >= 1, "LEAVE is not repeated"
    job.down(Opcode.LEAVE_ACK)
    tester.nothing()
    tester.rest()
    job.down(Opcode.QUERY, token=5)
    unknown = job.up(Opcode.NAK, status=int(Status.NOT_CONFIGURED))
    tester.expect(unknown, clause="10.3-4")


@tree_script("10.4-5", waits=True)
def a_leave_that_nobody_answers(tester: Tester) -> None:
    """After the detection time the parent counts as gone, and the job is unknown."""
    job = NicTree(tester)
    job.leave(0)
    tester.expect(job.up(Opcode.LEAVE))
    tester.spend(tester.profile.detection_s * 1.3)
    assert tester.repeats[Opcode.LEAVE] >= 4, f"{tester.repeats[Opcode.LEAVE] + 1} LEAVEs before it gave up"
    tester.repeats.clear()
    tester.spend(1.0)
    assert tester.repeats[Opcode.LEAVE] == 0, "LEAVE is sent beyond the detection time"


@tree_script("10.5-1", "10.5-2", "10.5-5", "11-29", waits=True)
def keep_alives(tester: Tester) -> None:
    """The NIC sends some while nothing happens, and those of its parent keep the job alive."""
    job = NicTree(tester)
    tester.kept_alive.clear()
    for _ in range(6):
        job.down(Opcode.KEEPALIVE)
        tester.spend(tester.profile.detection_s / 4)
    count = tester.kept_alive[job.parent, job.jid]
    assert count >= 6, f"{count} KEEPALIVEs in one and a half detection times"
    job.complete()


@nic_script("5-12", "4-21", "5-13", "5-9")
def packets_of_an_unknown_job(tester: Tester) -> None:
    """NAK to what waits for an answer, LEAVE_ACK to LEAVE, nothing else."""
    sender = tester.addresses[0]
    jid, key = tester.number(32), tester.number(32)
    named = {"jid": jid, "key": key, "source": 5}

    def send(code: Opcode, **ceth: int) -> None:
        tester.send(sender, offload(code, **(named | ceth)))

    for code in (Opcode.CONTRIBUTION, Opcode.PROBE, Opcode.QUERY, Opcode.KEEPALIVE):
        tester.rest()
        send(code)
        nak = Expected(sender, Opcode.NAK, named | {"status": int(Status.NOT_CONFIGURED)})
        tester.expect(nak, clause="5-12")
    tester.rest()
    for code in (Opcode.RESULT, Opcode.NEED, Opcode.WAIT, Opcode.ACK, Opcode.CONFIG_ACK, Opcode.LEAVE_ACK):
        send(code)
    for code in (Opcode.STATUS, Opcode.ABORT, Opcode.NAK):
        send(code)
    send(Opcode.KEEPALIVE, node_bitmap=2)
    tester.nothing("5-13")
    send(Opcode.LEAVE)
    tester.expect(Expected(sender, Opcode.LEAVE_ACK, named), clause="5-9")


@nic_script("5-2", "3-10", "3-2", needs=("port",))
def a_wrong_icrc(tester: Tester) -> None:
    """A packet is dropped if any bit of it has flipped."""
    sender = tester.addresses[0]
    whole = offload(Opcode.LEAVE, jid=tester.number(32), key=1)
    data = bytearray(datagram.build(whole, sender, tester.target.address))
    for place in range(8, len(data)):
        data[place] ^= 1 << place % 8
        tester.send(sender, bytes(data))
        data[place] ^= 1 << place % 8
    tester.nothing("3-10")


@nic_script("5-5", "5-6", "5-7", "5-3")
def packets_that_are_none(tester: Tester) -> None:
    """Unknown opcodes, sources, versions, lanes, and wrong lengths: no answer."""
    sender = tester.addresses[0]

    def send(code: int = int(Opcode.LEAVE), **ceth: int) -> None:
        packet = offload(Opcode.LEAVE, **({"jid": tester.number(32), "key": 1} | ceth))
        packet.opcode = code
        tester.send(sender, packet)

    for code in (0xCF, 0xD0, 0xFF):
        send(code)
    for source in (64, 255):
        send(source=source)
    tester.nothing("5-5")
    for version in (0, 1, 3, 255):
        send(version=version)
    tester.nothing("5-6")
    if tester.target.has_port:
        send(lane=255)
    send(length=4)
    tester.nothing("5-7")


@nic_script("10.6-2", "10.6-1")
def a_config_of_another_version(tester: Tester) -> None:
    """CONFIG_ACK(VERSION_MISMATCH), in the NIC's version."""
    sender = tester.addresses[0]
    named = {"jid": tester.number(32), "key": tester.number(32), "source": 1}
    tester.send(sender, offload(Opcode.CONFIG, **named, version=3))
    values = named | {"status": int(Status.VERSION_MISMATCH), "token": ANY}
    tester.expect(Expected(sender, Opcode.CONFIG_ACK, values, ANY), clause="10.6-2")


@tree_script("5-10", "5-11", "11-11")
def a_reason_before_the_job(tester: Tester) -> None:
    """A LEAVE with a status comes before the first rank: it learns the reason. Under another key the job is formed."""
    job = NicTree(tester, join=False)
    job.down(Opcode.LEAVE, status=int(Status.PEER_LOST))
    tester.expect(job.up(Opcode.LEAVE_ACK))
    job.join_rank(0)
    try:
        job.joined(0, "PEER_LOST", "5-10")
    finally:
        tester.everything()
    other = NicTree(tester, join=False)
    other.down(Opcode.LEAVE, status=int(Status.PEER_LOST))
    tester.expect(other.up(Opcode.LEAVE_ACK))
    other.key ^= 1
    other.form()
    other.complete()
