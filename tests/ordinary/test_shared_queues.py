"""Shared receive queues over real devices: queue pairs take their requests from one queue."""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing

import numpy as np
import pytest

from fanin import device_status
from fanin.errors import CqOverrun, InvalidRequest, NoResources, QueueFull
from fanin.verbs import (
    AH,
    CQ,
    PD,
    QP,
    SRQ,
    AHAttr,
    CollectiveQP,
    GlobalRoute,
    QPInitAttr,
    RecvWR,
    SendWR,
    SrqAttr,
    SrqInitAttr,
)
from fanin.verbs.enums import (
    IBV_QPS_ERR,
    IBV_QPS_RESET,
    IBV_QPS_RTS,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM,
)
from fanin_nic.daemon.lanes.ordinary_host import MAX_SHARED_QUEUES
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.abi import CQ_DEPTH, SHARED_DEPTH
from fanin_wire.verbs import Attribute
from tests.e2e.fabrics import eventually
from tests.ordinary.sides import BOUND_S, QKEY, Side, attributes, sockets

GRH = 40
BUFFER = 16384
ENDS = pytest.mark.parametrize("kind", [IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD])


class Sharing:
    """A side that sends by several queue pairs to another one, whose queue pairs share a receive queue."""

    def __init__(self, running: Running, kinds: Sequence[int], opened: ExitStack) -> None:
        self.one, self.two = (Side(socket, kinds[0]) for socket in sockets(running))
        for side in (self.one, self.two):
            opened.callback(side.close)
            side.qp.close()
        self.srq = SRQ(self.two.pd)
        self.senders = [self.one.make_qp(kind) for kind in kinds]
        self.receivers = [self.two.make_qp(kind, srq=self.srq) for kind in kinds]
        for sender, receiver in zip(self.senders, self.receivers, strict=True):
            sender.to_rts(attributes(self.two, receiver.qp_num))
            receiver.to_rts(attributes(self.one, sender.qp_num))
        self.one.fill()

    def receive(self, number: int) -> None:
        """Post the request `number`, with its own buffer."""
        self.srq.post_recv(RecvWR(number, sg=[self.two.piece(BUFFER, number * BUFFER)]))

    def send(self, index: int, length: int, offset: int = 0) -> None:
        """Send by one of the queue pairs, with its index as immediate data."""
        request = SendWR(index, IBV_WR_SEND_WITH_IMM, imm_data=index, sg=[self.one.piece(length, offset)])
        if self.senders[index].qp_type == IBV_QPT_UD:
            address = AH(self.one.pd, AHAttr(GlobalRoute(self.two.gid)))
            request.set_wr_ud(address, self.receivers[index].qp_num, QKEY)
        self.senders[index].post_send(request)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@ENDS
def test_messages_of_several_queue_pairs(running: Running, opened: ExitStack, kind: int) -> None:
    """Each message takes one request, with data and completion of its queue pair."""
    sharing, count = Sharing(running, [kind] * 4, opened), 64
    order = random.Random(kind)
    longest = 1000 if kind == IBV_QPT_UD else 10_000
    for number in range(count):
        sharing.receive(number)
    sent = [(order.randrange(4), order.randrange(longest), 64 * number) for number in range(count)]
    received = []
    for index, length, offset in sent:
        sharing.send(index, length, offset)
        sharing.one.completion()
        received.append(sharing.two.completion())
    head = GRH if kind == IBV_QPT_UD else 0
    assert sorted(found.wr_id for found in received) == list(range(count))
    for found, (index, length, offset) in zip(received, sent, strict=True):
        assert (found.imm_data, found.byte_len) == (index, length + head)
        assert found.qp_num == sharing.receivers[index].qp_num
        start = found.wr_id * BUFFER + head
        assert (sharing.two.data[start : start + length] == sharing.one.data[offset : offset + length]).all()


def test_queue_pairs_that_send_at_once(running: Running, opened: ExitStack) -> None:
    """Long messages arrive interleaved; there are fewer requests than messages, so senders wait."""
    sharing, rounds = Sharing(running, [IBV_QPT_RC] * 4, opened), 12
    for index in range(4):
        for _ in range(rounds):
            sharing.send(index, BUFFER, index * BUFFER)
    sharing.two.data[:] = 0
    left = 4 * rounds
    for number in range(8):
        sharing.receive(number)
    while left:
        found = sharing.two.completion()
        start, source = found.wr_id * BUFFER, found.imm_data * BUFFER
        assert (sharing.two.data[start : start + BUFFER] == sharing.one.data[source : source + BUFFER]).all()
        sharing.two.data[start : start + BUFFER] = 0
        sharing.receive(found.wr_id)
        left -= 1
    assert sharing.one.statuses(4 * rounds) == ["SUCCESS"] * (4 * rounds)


def test_write_with_immediate(running: Running, opened: ExitStack) -> None:
    sharing = Sharing(running, [IBV_QPT_RC] * 2, opened)
    sharing.receive(0)
    write = SendWR(1, IBV_WR_RDMA_WRITE_WITH_IMM, imm_data=7, sg=[sharing.one.piece(100)])
    write.set_wr_rdma(sharing.two.mr.rkey, sharing.two.mr.address + BUFFER)
    sharing.senders[1].post_send(write)
    found = sharing.two.completion()
    assert (found.wr_id, found.imm_data, found.qp_num) == (0, 7, sharing.receivers[1].qp_num)


def test_queue_pair_that_ends_leaves_the_requests_to_the_others(running: Running, opened: ExitStack) -> None:
    sharing = Sharing(running, [IBV_QPT_RC] * 3, opened)
    for number in range(3):
        sharing.receive(number)
    state = attributes(sharing.one, 0)
    state.qp_state = IBV_QPS_ERR
    sharing.receivers[0].modify(state, int(Attribute.STATE))
    state.qp_state = IBV_QPS_RESET
    sharing.receivers[1].modify(state, int(Attribute.STATE))
    sharing.receivers[1].close()
    for number in range(3):
        sharing.send(2, 500)
        found = sharing.two.completion()
        assert (found.wr_id, found.qp_num) == (number, sharing.receivers[2].qp_num)


def test_a_completion_queue_that_is_full_ends_the_queue_pairs_that_fill_it(running: Running, opened: ExitStack) -> None:
    """A shared queue has room for more requests than a completion queue for completions. The remaining requests are for
    queue pairs with another completion queue."""
    sharing, posted = Sharing(running, [IBV_QPT_RC], opened), CQ_DEPTH + 100
    for number in range(posted):
        sharing.srq.post_recv(RecvWR(number, sg=[sharing.two.piece(8)]))
    for _ in range(CQ_DEPTH):
        sharing.send(0, 8)
        sharing.one.completion()
    assert sharing.receivers[0].qp_state == IBV_QPS_RTS
    sharing.send(0, 8)
    assert eventually(lambda: sharing.receivers[0].qp_state, lambda now: now == IBV_QPS_ERR) == IBV_QPS_ERR
    other = CQ(sharing.two.context)
    receiver = QP(sharing.two.pd, QPInitAttr(IBV_QPT_RC, other, other, srq=sharing.srq))
    sender = sharing.one.make_qp()
    sender.to_rts(attributes(sharing.two, receiver.qp_num))
    receiver.to_rts(attributes(sharing.one, sender.qp_num))
    sender.post_send(SendWR(1, IBV_WR_SEND, sg=[sharing.one.piece(8)]))
    assert other.wait(BOUND_S)
    assert [found.wr_id for found in other.poll(2)[1]] == [CQ_DEPTH + 1]
    assert [found.wr_id for found in sharing.two.completions(CQ_DEPTH)] == list(range(CQ_DEPTH))
    with pytest.raises(CqOverrun):
        sharing.two.cq.poll(1)


def test_requests_posted_before_there_is_a_queue_pair(running: Running, opened: ExitStack) -> None:
    sharing = Sharing(running, [IBV_QPT_RC], opened)
    sharing.receivers.pop().close()
    sharing.receive(3)
    receiver = sharing.two.make_qp(IBV_QPT_RC, srq=sharing.srq)
    sender = sharing.one.make_qp(IBV_QPT_RC)
    sender.to_rts(attributes(sharing.two, receiver.qp_num))
    receiver.to_rts(attributes(sharing.one, sender.qp_num))
    sender.post_send(SendWR(1, IBV_WR_SEND, sg=[sharing.one.piece(10)]))
    assert sharing.two.completion().wr_id == 3


# Objects


@pytest.fixture
def side(running: Running) -> Iterator[Side]:
    with closing(Side(sockets(running)[0])) as one:
        yield one


def test_names_of_a_queue(side: Side) -> None:
    with SRQ(side.pd, SrqInitAttr(SrqAttr(max_wr=10, max_sge=2))) as srq:
        assert srq.query().max_wr == SHARED_DEPTH
        assert "max sge" in str(srq)
    with pytest.raises(InvalidRequest, match="SRQ is closed"):
        srq.post_recv(RecvWR(1))


@pytest.mark.parametrize("members", [{"max_wr": SHARED_DEPTH + 1}, {"max_sge": 9}, {"srq_limit": 1}, {"max_wr": -1}])
def test_limits_that_a_device_does_not_have(side: Side, members: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(members))):
        SRQ(side.pd, SrqInitAttr(SrqAttr(**members)))


def test_closing_a_queue_closes_its_queue_pairs(side: Side) -> None:
    srq = SRQ(side.pd)
    qp = side.make_qp(srq=srq)
    qp.to_init(attributes(side, 0))
    with pytest.raises(InvalidRequest, match="shared receive queue"):
        qp.post_recv(RecvWR(1))
    srq.close()
    assert qp.closed


def test_the_device_keeps_a_queue_that_is_in_use(side: Side) -> None:
    srq = SRQ(side.pd)
    qp = side.make_qp(srq=srq)
    with pytest.raises(InvalidRequest, match="queue pairs still receive from it"):
        srq._release()
    qp.close()
    srq.close()


def test_queue_of_another_protection_domain(side: Side) -> None:
    with SRQ(PD(side.context)) as srq, pytest.raises(InvalidRequest, match="shared queue"):
        side.make_qp(srq=srq)


def test_queue_that_is_not_there(side: Side) -> None:
    with SRQ(side.pd) as srq:
        srq.index += 1
        with pytest.raises(InvalidRequest, match="no shared receive queue"):
            srq.post_recv(RecvWR(1))
        with pytest.raises(InvalidRequest, match="shared queue"):
            side.make_qp(srq=srq)
        srq.index -= 1


def test_queues_of_another_context(running: Running, side: Side) -> None:
    """Queues of this context may have the same numbers."""
    with closing(Side(sockets(running)[1])) as other, SRQ(side.pd), SRQ(other.pd) as srq:
        with pytest.raises(InvalidRequest, match="SRQ belongs to another context"):
            side.make_qp(srq=srq)
        with pytest.raises(InvalidRequest, match="CQ belongs to another context"):
            QP(side.pd, QPInitAttr(IBV_QPT_RC, side.cq, other.cq))
        with pytest.raises(InvalidRequest, match="CQ belongs to another context"):
            CollectiveQP(side.pd, other.cq)


def test_pieces_that_are_too_many(side: Side) -> None:
    with SRQ(side.pd) as srq, pytest.raises(InvalidRequest, match="pieces"):
        srq.post_recv(RecvWR(1, sg=[side.piece(8)] * 9))


def test_a_queue_that_is_full(side: Side) -> None:
    """Requests wait in the device, and then in the ring: two full queues, and some under way."""
    with SRQ(side.pd) as srq:
        for number in range(SHARED_DEPTH):
            srq.post_recv(RecvWR(number, sg=[side.piece(8)]))
        with pytest.raises(QueueFull):
            fill(srq, 2 * SHARED_DEPTH)


def fill(srq: SRQ, count: int) -> None:
    for number in range(count):
        srq.post_recv(RecvWR(number))


def test_a_client_has_so_many_queues_and_gives_them_back(side: Side) -> None:
    def held() -> int:
        return device_status(side.context.socket_path)["ordinary"]["shared_queues"]

    queues = [SRQ(side.pd) for _ in range(MAX_SHARED_QUEUES)]
    assert held() == MAX_SHARED_QUEUES == side.context.query_device().max_shared_queues
    with pytest.raises(NoResources, match="shared receive queue"):
        SRQ(side.pd)
    queues.pop().close()
    SRQ(side.pd)
    socket = side.context.socket_path
    side.close()
    assert eventually(lambda: device_status(socket)["ordinary"]["shared_queues"], lambda now: now == 0) == 0


def test_a_queue_is_empty_when_its_number_comes_again(running: Running, opened: ExitStack) -> None:
    sharing = Sharing(running, [IBV_QPT_RC], opened)
    sharing.receive(0)
    first = sharing.srq.index
    sharing.srq.close()
    sharing.srq = SRQ(sharing.two.pd)
    assert sharing.srq.index == first
    receiver, sender = sharing.two.make_qp(srq=sharing.srq), sharing.one.make_qp()
    sender.to_rts(attributes(sharing.two, receiver.qp_num, rnr_retry=1))
    receiver.to_rts(attributes(sharing.one, sender.qp_num, min_rnr_timer=1))
    sender.post_send(SendWR(1, IBV_WR_SEND, sg=[sharing.one.piece(10)]))
    assert sharing.one.statuses(1) == ["RNR_RETRY_EXC_ERR"]
    assert not np.any(sharing.two.data[:BUFFER])
