"""Packets whose payload can not be read: the request ends, and what follows it is taken back."""

import numpy as np

from fanin_nic.transport import events
from fanin_nic.transport.records.actions import ActionKind
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import QueuePairState, RequestOpcode

from .rig import Endpoint, Pair, bring_up
from .test_operations import SOURCE, remote

WRITE, SEND = RequestOpcode.RDMA_WRITE, RequestOpcode.SEND


def fail(endpoint: Endpoint, packet: int) -> None:
    """Make one of the endpoint's next packets unreadable, and perform the rest."""
    endpoint.transport.serve(endpoint.now, 1)
    actions = endpoint.transport.tables["actions"][: int(endpoint.transport.header["action_count"])]
    number = np.flatnonzero(actions["kind"] == ActionKind.SEND)[packet]
    events.fail_unreadable(endpoint.transport.base, number, endpoint.now)
    endpoint.settle()


def hold(endpoint: Endpoint) -> None:
    """Do nothing for posted requests before `fail`."""
    endpoint.settle = lambda: None  # type: ignore[method-assign]


def release(endpoint: Endpoint) -> None:
    """End `hold`."""
    del endpoint.settle


def test_a_connection_ends_with_the_request() -> None:
    pair = Pair()
    hold(pair.one)
    for wr_id in (1, 2, 3):
        pair.one.post(WRITE, (SOURCE, 600), wr_id=wr_id, **remote(pair))
    release(pair.one)
    fail(pair.one, 1)
    assert [packet.bth["psn"] for packet in pair.one.sent] == [0]  # nothing from the unreadable packet on
    assert [(c.wr_id, c.status.name) for c in pair.one.completions] == [
        (1, "LOC_PROT_ERR"),
        (2, "WR_FLUSH_ERR"),
        (3, "WR_FLUSH_ERR"),
    ]
    assert pair.one.state() == QueuePairState.ERR
    assert pair.one.count("completions") == 3


def test_a_later_request_waits_for_those_before_it() -> None:
    pair = Pair()
    hold(pair.one)
    for wr_id in (1, 2):
        pair.one.post(WRITE, (SOURCE, 100), wr_id=wr_id, **remote(pair))
    release(pair.one)
    fail(pair.one, 1)
    assert pair.one.completions == []  # the first one is under way
    pair.run()
    assert pair.one.statuses() == ["SUCCESS", "LOC_PROT_ERR"]


def test_datagrams_that_are_complete_are_taken_back() -> None:
    pair = Pair(Service.UD)
    to = {"destination": pair.two.address, "remote_qpn": pair.two.qpn(0), "remote_qkey": 0x1234}
    hold(pair.one)
    for wr_id in (1, 2, 3):
        pair.one.post(SEND, (SOURCE, 100), wr_id=wr_id, **to)
    release(pair.one)
    fail(pair.one, 1)
    assert len(pair.one.sent) == 1
    assert [(c.wr_id, c.status.name) for c in pair.one.completions] == [
        (1, "SUCCESS"),
        (2, "LOC_PROT_ERR"),
        (3, "WR_FLUSH_ERR"),
    ]
    assert pair.one.state() == QueuePairState.SQE
    assert pair.one.count("completions") == 3
    pair.one.transport.modify(0, QueuePairState.RTS, pair.one.now)
    pair.two.post_receive((0, 4096))
    pair.one.post(SEND, (SOURCE, 100), wr_id=4, **to)
    pair.run()
    assert pair.one.statuses()[-1] == "SUCCESS"
    assert pair.log[-1].bth["psn"] == 1  # the PSN of the datagram that was taken back
    assert pair.two.statuses() == ["SUCCESS"]


def test_other_queue_pairs_keep_their_packets() -> None:
    pair = Pair()
    other = pair.one.queue_pair(Service.UD)
    bring_up(pair.one, other)
    to = {"destination": pair.two.address, "remote_qpn": 99, "remote_qkey": 1}
    hold(pair.one)
    pair.one.post(WRITE, (SOURCE, 100), wr_id=1, **remote(pair))
    pair.one.post(SEND, (SOURCE, 100), wr_id=2, index=other, **to)
    release(pair.one)
    pair.one.transport.serve(pair.one.now, 1)
    fail(pair.one, 0)
    assert [packet.name for packet in pair.one.sent] == ["UD_SEND_ONLY"]
    assert sorted((c.wr_id, c.status.name) for c in pair.one.completions) == [(1, "LOC_PROT_ERR"), (2, "SUCCESS")]
