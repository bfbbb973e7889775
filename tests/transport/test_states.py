"""States of a queue pair: the attributes of each change, and its behaviour in each state."""

import pytest

from fanin_nic.transport.queue_pairs import ALWAYS, CHANGES, VALUES, AttributesInvalid, QueuePairNumbers, check_change
from fanin_nic.transport.transport import TableFull
from fanin_wire.fields import COLLECTIVE_QPN
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Attribute as A
from fanin_wire.verbs import QueuePairState as S
from fanin_wire.verbs import RequestOpcode

from .rig import LIMITS, PATH, Endpoint, Pair, bring_up, make
from .test_operations import SOURCE, TARGET, remote

WRITE, SEND = RequestOpcode.RDMA_WRITE, RequestOpcode.SEND


def attributes_of(mask: A) -> dict[A, int]:
    return {attribute: PATH.get(attribute, VALUES[attribute][1][-1]) for attribute in A if attribute & mask}


EVERY_CHANGE = [(kind, *states) for kind in Service for states in CHANGES[kind]]


@pytest.mark.parametrize(("kind", "state", "target"), EVERY_CHANGE)
def test_changes_take_what_they_need_and_no_more(kind: Service, state: S, target: S):
    change = CHANGES[kind][state, target]
    check_change(kind, state, target, attributes_of(change.required))
    check_change(kind, state, target, attributes_of(change.required | change.optional))
    for attribute in change.required:
        with pytest.raises(AttributesInvalid, match=f"lacks {attribute.name}"):
            check_change(kind, state, target, attributes_of(change.required & ~attribute))
    excess = next(attribute for attribute in VALUES if not attribute & (change.required | change.optional))
    with pytest.raises(AttributesInvalid, match=f"does not take {excess.name}"):
        check_change(kind, state, target, attributes_of(change.required | excess))


@pytest.mark.parametrize("kind", Service)
def test_other_changes_do_not_exist(kind: Service):
    for state in S:
        for target in S:
            if target in ALWAYS:
                check_change(kind, state, target, {})
            elif (state, target) not in CHANGES[kind]:
                with pytest.raises(AttributesInvalid, match="can not change to"):
                    check_change(kind, state, target, {})


@pytest.mark.parametrize(
    ("attribute", "value"),
    [(A.PATH_MTU, 512 + 1), (A.RQ_PSN, 1 << 24), (A.MAX_DEST_RD_ATOMIC, 17), (A.MIN_RNR_TIMER, 32), (A.DEST_QPN, -1)],
)
def test_values_out_of_range(attribute: A, value: int):
    required = attributes_of(CHANGES[Service.RC][S.INIT, S.RTR].required)
    with pytest.raises(AttributesInvalid, match=f"{attribute.name} can not be"):
        check_change(Service.RC, S.INIT, S.RTR, required | {attribute: value})


def test_a_refused_modification_changes_nothing():
    end = Endpoint("10.0.0.1")
    index = end.queue_pair()
    before = end.transport.arena.copy()
    with pytest.raises(AttributesInvalid):
        end.transport.modify(index, S.RTS, end.now, {A.SQ_PSN: 5})
    assert (end.transport.arena == before).all()


@pytest.mark.parametrize("state", [S.RESET, S.INIT])
def test_packets_before_rtr_are_dropped(state: S):
    one, two = Endpoint("10.0.0.1"), Endpoint("10.0.0.2")
    one.queue_pair()
    two.queue_pair()
    bring_up(two, 0, to=state, AV=one.address, DEST_QPN=one.qpn(0))
    two.receive(make("RC_SEND_ONLY", one, two, b"data"))
    assert two.count("drop_state") == 1
    assert two.sent == []


def test_rtr_receives_and_does_not_send():
    one, two = Endpoint("10.0.0.1"), Endpoint("10.0.0.2")
    one.queue_pair()
    two.queue_pair()
    bring_up(two, 0, to=S.RTR, AV=one.address, DEST_QPN=one.qpn(0))
    two.post_receive((TARGET, 100))
    two.post(WRITE, (SOURCE, 10))
    assert two.sent == []
    two.receive(make("RC_SEND_ONLY", one, two, b"data", ackreq=1))
    assert two.statuses() == ["SUCCESS"]
    assert [packet.name for packet in two.sent] == ["RC_ACKNOWLEDGE"]
    two.sent.clear()
    two.receive(make("RC_ACKNOWLEDGE", one, two, AETH={"syndrome": 0x1F}))
    assert two.count("drop_state") == 1


def test_requests_posted_before_rts_are_sent_then():
    pair = Pair()
    pair.one.transport.queue_pair(0)["state"] = S.RTR
    pair.one.post(WRITE, (SOURCE, 10), **remote(pair))
    assert pair.one.sent == []
    bring = {A.TIMEOUT: 14, A.RETRY_CNT: 3, A.RNR_RETRY: 3, A.SQ_PSN: 0, A.MAX_QP_RD_ATOMIC: 4}
    pair.one.transport.modify(0, S.RTS, pair.one.now, bring)
    pair.one.settle()
    pair.run()
    assert pair.one.statuses() == ["SUCCESS"]


def test_sqd_ends_what_was_begun_and_begins_nothing():
    pair = Pair()
    pair.one.post(WRITE, (SOURCE, 256 * 40), **remote(pair))
    pair.one.post(WRITE, (SOURCE, 10), wr_id=2, **remote(pair))
    pair.one.transport.modify(0, S.SQD, pair.one.now)
    pair.run()
    assert [completion.wr_id for completion in pair.one.completions] == [100]
    pair.one.transport.modify(0, S.RTS, pair.one.now)
    pair.one.settle()
    pair.run()
    assert [completion.wr_id for completion in pair.one.completions] == [100, 2]


def test_reset_forgets_all_and_the_queue_pair_can_be_used_again():
    pair = Pair()
    pair.bend = lambda packet: []
    pair.one.post(WRITE, (SOURCE, 10), **remote(pair))
    pair.one.post_receive((0, 10))
    pair.run()
    pair.bend = lambda packet: [packet]
    for end, other in ((pair.one, pair.two), (pair.two, pair.one)):
        end.transport.modify(0, S.RESET, end.now)
        bring_up(end, 0, AV=other.address, DEST_QPN=other.qpn(0), SQ_PSN=77, RQ_PSN=77)
    pair.pass_time(10**12)
    assert pair.one.completions == []
    pair.one.post(WRITE, (SOURCE, 10), **remote(pair))
    pair.run()
    assert pair.one.statuses() == ["SUCCESS"]
    assert pair.log[-2].bth["psn"] == 77


def test_destroyed_queue_pair_takes_nothing_and_its_number_does_not_come_back_at_once():
    pair = Pair()
    old = pair.two.qpn(0)
    packet = make("RC_SEND_ONLY", pair.one, pair.two, b"data")
    pair.two.transport.destroy_queue_pair(0)
    pair.two.receive(packet)
    assert pair.two.count("drop_unknown_queue_pair") == 1
    assert pair.two.queue_pair() == 0
    assert pair.two.qpn(0) != old
    pair.two.receive(packet)
    assert pair.two.count("drop_unknown_queue_pair") == 2


def test_table_of_queue_pairs_is_full():
    end = Endpoint("10.0.0.1")
    assert [end.queue_pair() for _ in range(LIMITS.queue_pairs)] == [0, 1, 2, 3]
    with pytest.raises(TableFull):
        end.queue_pair()


def test_numbers_leave_out_those_that_are_taken():
    numbers = QueuePairNumbers(1024, incarnation=(COLLECTIVE_QPN >> 10) - 1)
    assert numbers.number_of(COLLECTIVE_QPN & 1023) != COLLECTIVE_QPN
    numbers = QueuePairNumbers(1024, incarnation=(1 << 14) - 2)
    assert [numbers.number_of(1023), numbers.number_of(0), numbers.number_of(1)] == [(1 << 10) - 1, 1 << 10, 2049]


def test_error_of_one_queue_pair_leaves_the_others_alone():
    one, two = Endpoint("10.0.0.1"), Endpoint("10.0.0.2")
    for index in range(2):
        one.queue_pair()
        two.queue_pair()
        bring_up(one, index, AV=two.address, DEST_QPN=two.qpn(index))
        bring_up(two, index, AV=one.address, DEST_QPN=one.qpn(index))
    one.post(WRITE, (SOURCE, 10), remote_address=0, rkey=5)
    one.post(WRITE, (SOURCE, 10), index=1, remote_address=two.start, rkey=two.key)
    for _ in range(2):
        for end, other in ((one, two), (two, one)):
            packets, end.sent = end.sent, []
            other.receive_all(packets)
    assert sorted(one.statuses()) == ["REM_ACCESS_ERR", "SUCCESS"]
    assert (one.state(0), one.state(1)) == (S.ERR, S.RTS)
