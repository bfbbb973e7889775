"""A program on the NIC's daemon, and one on rxe: every operation in both directions.

The tests are those of the transport without a daemon, on this network.
"""

import pytest

from fanin_wire.verbs import RequestOpcode
from tests.rdma import test_reliable as reliable
from tests.rdma import test_unreliable as unreliable
from tests.rdma.cases import ALL, PATH_MTUS, SENDS, WRITES, opcodes, ways
from tests.rdma.test_errors import (
    test_message_longer_than_its_receive_request,
    test_receiver_that_does_not_come,
    test_wrong_key,
    test_wrong_local_key,
)
from tests.rdma.test_reliable import SOURCE, TARGET
from tests.rdma.test_unreliable import test_a_datagram_says_where_it_comes_from, test_wrong_qkey
from tests.rdma.wire import Faults

__all__ = [
    "test_a_datagram_says_where_it_comes_from",
    "test_message_longer_than_its_receive_request",
    "test_receiver_that_does_not_come",
    "test_wrong_key",
    "test_wrong_local_key",
    "test_wrong_qkey",
]
paths = pytest.mark.parametrize(("mtu", "faults"), [(mtu, "none") for mtu in (PATH_MTUS if ALL else (1024,))])
lossy_paths = pytest.mark.parametrize(
    ("mtu", "faults"), [(mtu, faults) for mtu in PATH_MTUS for faults in ("none", "loss")] if ALL else [(1024, "none")]
)


@ways
def test_nothing_arrives(connect, wire, way):
    """The rule of the bridge loses packets, and both ends find out."""
    one, two = reliable.in_order(way, connect(TIMEOUT=15, RETRY_CNT=2))
    wire.faults = Faults(loss=1.0)
    one.post(RequestOpcode.RDMA_WRITE, SOURCE, 10, to=two, at=TARGET)
    assert one.sent()[0].status == "RETRY_EXC_ERR"
    assert wire.lost() >= 3


@paths
@ways
@opcodes
def test_every_length(connect, wire, way, opcode, mtu, faults):
    reliable.test_every_length(connect, wire, way, opcode, mtu, faults)


@lossy_paths
@ways
def test_atomics(connect, wire, way, mtu, faults):
    reliable.test_atomics(connect, wire, way, mtu, faults)


@lossy_paths
@ways
def test_many_requests_under_way(connect, wire, way, mtu, faults):
    reliable.test_many_requests_under_way(connect, wire, way, mtu, faults)


@ways
@pytest.mark.parametrize("opcode", [*SENDS, *WRITES], ids=lambda opcode: opcode.name)
def test_unreliable_connection(connect, way, opcode):
    unreliable.test_unreliable_connection(connect, way, opcode, 1024)


@ways
def test_datagrams(connect, wire, way):
    unreliable.test_datagrams(connect, wire, way, "none")
