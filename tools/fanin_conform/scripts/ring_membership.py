"""Membership, silence and failure at a node of a ring."""

import ipaddress

import numpy as np

from fanin_conform import datagram
from fanin_conform.host import DIGEST, NicRing
from fanin_conform.job import f32
from fanin_conform.script import ring_script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import CONFIG_BODY, HOP_BODY, Opcode

LOST = int(Status.PEER_LOST)


@ring_script("10.2-7", "10.1-2", "10.1-20", "10.1-22", "4-14", "4-15", "4-1")
def the_chain_of_configs(tester: Tester) -> None:
    """Node 0 begins; each waits for the previous one; the answer of the next one goes back."""
    job = NicRing(tester, index=1, nodes=3, join=False)
    job.join_rank(0)
    tester.nothing("10.2-7")
    job.config_of_previous()
    pending = job.config_ack("PENDING", ANY, seg=ANY, node_bitmap=ANY, rank_bitmap=ANY)
    asked, _ = tester.expect(job.forth(Opcode.CONFIG, ANY, token=ANY), pending, clause="10.2-7")
    body = datagram.unpack(CONFIG_BODY, asked.payload)
    wanted = {"digest_high": DIGEST[0], "digest_low": DIGEST[1], "chunk": 256, "route": 2, "hops": 1, "last_lane": 0}
    for name, value in wanted.items():
        assert body[name] == value, f"{name} is {body[name]}, not {value}"
    hop = datagram.unpack(HOP_BODY, asked.payload[CONFIG_BODY.size :])
    assert hop["address"] & 0xFFFFFFFF == int(ipaddress.IPv4Address(job.next)), "the entry is not for the next node"
    assert asked.ceth["token"] == body["boot_id"] & 0xFFFFFFFF, "the token is not the lower half of the boot id"
    job.config = asked
    job.grant()
    tester.expect(job.config_ack("SUCCESS", ANY), clause="10.2-7")
    job.all_joined()


@ring_script("10.2-7", "10.1-1", "10.1-6")
def the_first_node(tester: Tester) -> None:
    """It sends CONFIG when its ranks have joined, and again until it is answered."""
    job = NicRing(tester, 2, index=0, nodes=3, join=False)
    job.join_rank(0)
    tester.nothing("10.1-1")
    job.join_rank(1)
    (job.config,) = tester.expect(job.forth(Opcode.CONFIG, ANY, token=ANY), clause="10.2-7")
    tester.repeats.clear()
    tester.spend(0.5)
    assert tester.repeats[Opcode.CONFIG] >= 1, "CONFIG is not repeated"
    job.grant()
    job.all_joined()


@ring_script("10.2-7", "10.2-1", "10.1-19", "10.2-3")
def the_last_node(tester: Tester) -> None:
    """It is the top: it answers with the least N and W."""
    job = NicRing(tester, index=2, nodes=3, slots=16, join=False)
    job.join_rank(0)
    job.config_of_previous(slots=4, window=2)
    (ack,) = tester.expect(job.config_ack("SUCCESS", ANY), clause="10.2-1")
    slots, window = int.from_bytes(ack.payload[:4], "big"), int.from_bytes(ack.payload[4:8], "big")
    assert (slots, window) == (4, 2), f"it grants N {slots}, W {window}"
    (answer,) = job.all_joined()
    assert answer["slots"] == 4, f"the rank hears N {answer['slots']}"


@ring_script("10.1-12", "4-15", "10.8-2")
def a_node_whose_ranks_have_not_joined(tester: Tester) -> None:
    """It answers PENDING, and SUCCESS when they have."""
    job = NicRing(tester, index=2, nodes=3, join=False)
    job.config_of_previous()
    pending = job.config_ack("PENDING", ANY, seg=ANY, node_bitmap=ANY, rank_bitmap=ANY)
    tester.expect(pending, clause="10.1-12")
    job.join_rank(0)
    job.config_of_previous()
    seen = [packet for _, packet in tester.everything(1) if packet.opcode == Opcode.CONFIG_ACK]
    assert seen, "CONFIG is not answered"
    assert seen[-1].ceth["status"] == 0, "CONFIG is not answered with SUCCESS when the ranks have joined"
    job.all_joined()


@ring_script("10.1-16", "11-19", "11-5")
def a_previous_node_that_differs(tester: Tester) -> None:
    """Another digest, chunk or flags: MEMBERS_MISMATCH, for the ranks as well."""
    for changed in ({"digest_low": 9}, {"chunk": 512}, {"flags": 1}, {"last_lane": 1}):
        job = NicRing(tester, index=2, nodes=3, join=False)
        job.join_rank(0)
        job.config_of_previous(**changed)
        job.joined(0, "MEMBERS_MISMATCH", "10.1-16")
        told = [packet for to, packet in tester.everything() if to == job.previous]
        status = int(Status.MEMBERS_MISMATCH)
        assert any(packet.ceth["status"] == status for packet in told), "the previous node does not hear of it"
        job.close_host()


@ring_script("10.1-17", "10.1-18", "11-21")
def the_previous_node_was_restarted(tester: Tester) -> None:
    """The same CONFIG again is a copy; another boot id is a restart: PEER_LOST."""
    job = NicRing(tester, index=2, nodes=3)
    job.config_of_previous()
    tester.expect(job.config_ack("SUCCESS", ANY), clause="10.1-18")
    job.post(0, f32(1))
    job.config_of_previous(boot_id=77, ceth={"token": 77})
    job.done(0, status="PEER_LOST", clause="10.1-17")
    tester.everything()


@ring_script("10.8-1", "10.8-2", "10.8-3", "4-18", "4-19")
def the_state_of_a_ring(tester: Tester) -> None:
    """The previous node may ask."""
    job = NicRing(tester, index=1, nodes=3)
    job.from_previous(Opcode.QUERY, token=0x55AA)
    state = job.expected(job.previous, Opcode.STATUS, ANY, source=ANY, token=0x55AA)
    tester.expect(state, clause="10.8-2")


@ring_script("10.4-6", "10.4-7", "10.4-2", "4-17", "4-5")
def leaving(tester: Tester) -> None:
    """LEAVE goes to the next node when the ranks have left; the job is free when the previous node has left, too."""
    job = NicRing(tester, index=1, nodes=3)
    job.leave(0)
    tester.expect(job.forth(Opcode.LEAVE), clause="10.4-6")
    job.from_next(Opcode.LEAVE_ACK, source=job.index)
    job.from_previous(Opcode.QUERY, token=1)
    seen = tester.everything(1)
    assert all(packet.opcode != Opcode.NAK for _, packet in seen), "the job is freed before the previous node has left"
    job.from_previous(Opcode.LEAVE)
    tester.expect(job.expected(job.previous, Opcode.LEAVE_ACK, source=job.before), clause="4-5")
    tester.rest()
    job.from_previous(Opcode.QUERY, token=2)
    nak = job.expected(job.previous, Opcode.NAK, status=int(Status.NOT_CONFIGURED), source=job.before)
    tester.expect(nak, clause="10.4-7")


@ring_script("10.4-6", "9-23")
def a_slot_that_waits_keeps_the_node(tester: Tester) -> None:
    """The ranks have left, and a RESULT of the node is not acknowledged: no LEAVE."""
    job = NicRing(tester, index=0, nodes=2)
    (position,) = job.post(0, f32(1))
    job.contribute(position, 0b01, f32(1))
    tester.expect(job.ack(position), job.resulted(position, 0b10, f32(2)))
    job.done(0, f32(2))
    job.leave(0)
    tester.nothing("10.4-6")
    job.acknowledge(position, 1, 1)
    tester.expect(job.forth(Opcode.LEAVE), clause="10.4-6")


@ring_script("10.5-1", "10.5-2", "4-22", "4-1", waits=True)
def keep_alives(tester: Tester) -> None:
    """Both neighbours hear the node while nothing happens."""
    job = NicRing(tester, index=1, nodes=3)
    tester.kept_alive.clear()
    for _ in range(6):
        job.from_next(Opcode.KEEPALIVE)
        job.from_previous(Opcode.KEEPALIVE)
        tester.spend(tester.profile.detection_s / 4)
    for to in (job.next, job.previous):
        count = tester.kept_alive[to, job.jid]
        assert count >= 6, f"{count} KEEPALIVEs to {to} in one and a half detection times"


@ring_script("11-25", "11-15", "10.5-6", "11-2", "4-26", waits=True)
def a_neighbour_falls_silent(tester: Tester) -> None:
    """PEER_LOST, naming the node and its address; the other neighbour hears of it."""
    for silent in ("previous", "next"):
        job = NicRing(tester, index=1, nodes=3)
        job.post(0, np.arange(192, dtype="<f4"))
        tester.everything(1)
        seen = []
        for _ in range(6):
            if silent == "previous":
                job.from_next(Opcode.KEEPALIVE)
            else:
                job.from_previous(Opcode.KEEPALIVE)
            seen += tester.spend(tester.profile.detection_s / 4)
        number = job.before if silent == "previous" else job.after
        lost, other = (job.previous, job.next) if silent == "previous" else (job.next, job.previous)
        job.done(0, status="PEER_LOST", clause="11-25 11-15", missing=1 << number, missing_kind=1, lost_device=lost)
        told = [packet for to, packet in seen if to == other and packet.opcode == Opcode.ABORT]
        assert told, f"{other} is not told"
        wanted = {"status": LOST, "seg": 1, "node_bitmap": 1 << number}
        wanted["rank_bitmap"] = int(ipaddress.IPv4Address(lost))
        for name, value in wanted.items():
            assert told[0].ceth[name] == value, f"{name} is {told[0].ceth[name]:#x}, not {value:#x}"


@ring_script("11-3", "11-4", "11-5", "4-26")
def an_abort_goes_round(tester: Tester) -> None:
    """From either side: the ranks learn status and names, and the other side hears the same."""
    for side in ("previous", "next"):
        job = NicRing(tester, index=1, nodes=4)
        job.post(0, f32(1))
        tester.everything()
        send, other = (job.from_previous, job.next) if side == "previous" else (job.from_next, job.previous)
        send(Opcode.ABORT, status=int(Status.TIMEOUT), seg=1, node_bitmap=0b1000)
        job.done(0, status="TIMEOUT", clause="11-5", missing=0b1000, missing_kind=1)
        told = [packet for to, packet in tester.everything() if to == other and packet.opcode == Opcode.ABORT]
        assert told, f"{other} is not told"
        named = told[0].ceth["status"], told[0].ceth["seg"], told[0].ceth["node_bitmap"]
        assert named == (int(Status.TIMEOUT), 1, 0b1000), f"{other} hears {named}"


@ring_script("11-26", "11-15")
def the_next_node_was_restarted(tester: Tester) -> None:
    """NAK for an active job: PEER_LOST, naming it."""
    job = NicRing(tester, index=1, nodes=3)
    job.post(0, f32(1))
    tester.everything()
    job.from_next(Opcode.NAK, status=int(Status.NOT_CONFIGURED), source=1)
    job.done(0, status="PEER_LOST", clause="11-26", missing=0b100, missing_kind=1, lost_device=job.next)
    tester.everything()


@ring_script("11-7", "11-10", "11-1")
def a_tombstone_of_a_ring(tester: Tester) -> None:
    """It answers both neighbours with ABORT until the previous node has left, too."""
    job = NicRing(tester, index=1, nodes=3)
    job.from_next(Opcode.ABORT, status=int(Status.TIMEOUT))
    tester.everything()
    job.close_host()
    for _ in range(2):
        job.from_previous(Opcode.KEEPALIVE)
        abort = job.expected(
            job.previous,
            Opcode.ABORT,
            source=ANY,
            status=int(Status.TIMEOUT),
            seg=ANY,
            node_bitmap=ANY,
            rank_bitmap=ANY,
        )
        tester.expect(abort, clause="11-10")


@ring_script("4-24", "4-26", "4-27", "11-2")
def a_rank_that_dies(tester: Tester) -> None:
    """Its node is named to both neighbours, as a node of the ring."""
    job = NicRing(tester, 2, index=1, nodes=3)
    for rank in range(2):
        job.post(rank, f32(1))
    tester.everything()
    job.kill(0)
    job.done(1, status="PEER_LOST", missing=0b1, missing_kind=0)
    seen = [(to, packet) for to, packet in tester.everything() if packet.opcode == Opcode.ABORT]
    assert {to for to, _ in seen} >= {job.next, job.previous}, "not both neighbours are told"
    for _, packet in seen:
        named = packet.ceth["status"], packet.ceth["seg"], packet.ceth["node_bitmap"]
        assert named == (LOST, 1, 0b010), f"a neighbour hears {named}"
