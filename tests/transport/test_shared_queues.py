"""Shared receive queues: queue pairs take their receive requests from one queue, in the order of arrival. None is lost,
none ends twice."""

import pytest

from fanin_nic.transport.queue_pairs import AttributesInvalid
from fanin_nic.transport.transport import SharedQueueInUse, TableFull
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, QueuePairState, RequestOpcode

from .rig import DOMAIN, LIMITS, STRANGER_DOMAIN, Endpoint, Packet, bring_up
from .test_operations import SOURCE, TARGET, data_of
from .test_reliability import SEND, TIMEOUT

RESET, ERR, RTS = QueuePairState.RESET, QueuePairState.ERR, QueuePairState.RTS
SEND_WITH_IMM, WRITE_WITH_IMM = RequestOpcode.SEND_WITH_IMM, RequestOpcode.RDMA_WRITE_WITH_IMM
QKEY, GRH = 0x1234, 40
BUFFER = 2048
RC, UC, UD = Service.RC, Service.UC, Service.UD
KINDS = pytest.mark.parametrize("kind", [RC, UC, UD])


class Several:
    """Queue pairs of one endpoint with a shared receive queue, each connected with one of another."""

    def __init__(self, *kinds: Service, **attributes: int) -> None:
        self.one, self.two = Endpoint("10.0.0.1"), Endpoint("10.0.0.2")
        self.queue = self.two.transport.create_shared_queue(domain=DOMAIN)
        self.posted = 0
        for index, kind in enumerate(kinds):
            assert self.one.queue_pair(kind) == self.two.queue_pair(kind, shared_queue=self.queue) == index
            self.connect(index, **attributes)

    def connect(self, index: int, **attributes: int) -> None:
        """Connect a queue pair of each end from RESET."""
        for end, other in ((self.one, self.two), (self.two, self.one)):
            is_datagram = end.transport.queue_pair(index)["kind"] == UD
            path = {} if is_datagram else {"AV": other.address, "DEST_QPN": other.qpn(index)}
            bring_up(end, index, **(path | attributes))

    def post_receives(self, number: int, length: int = BUFFER) -> None:
        """Post requests to the shared queue: request n has the buffer n."""
        for _ in range(number):
            place = TARGET + self.posted * BUFFER
            self.two.post_shared((place, length), index=self.queue, wr_id=self.posted)
            self.posted += 1

    def send(self, index: int, length: int = 100, opcode: RequestOpcode = SEND, **members: int) -> list[Packet]:
        """Send a message. Returns its packets, undelivered."""
        self.one.fill(SOURCE, data_of(length))
        where = {"destination": self.two.address, "remote_qpn": self.two.qpn(index), "remote_qkey": QKEY}
        self.one.post(opcode, (SOURCE, length), index=index, **(where | members))
        packets, self.one.sent = self.one.sent, []
        return packets

    def answer(self) -> None:
        packets, self.two.sent = self.two.sent, []
        self.one.receive_all(packets)

    def received(self) -> list[int]:
        """Requests that have succeeded, in order."""
        return [completion.wr_id for completion in self.two.completions if completion.status == 0]

    def waiting(self) -> int:
        """Requests in the queue."""
        row = self.two.transport.tables["shared_queues"][self.queue]
        return int(row["tail"]) - int(row["head"])

    def room(self) -> int:
        """Free places of the queue."""
        taken = 0
        while self.two.transport.post_shared(self.queue, self.two._receive_wqe(((0, 8),), 999, None), self.two.now):
            taken += 1
        return taken


@pytest.mark.parametrize("kinds", [(RC, RC), (UC, UC), (UD, UD), (RC, UC, UD)])
def test_requests_are_taken_in_the_order_in_which_messages_begin(kinds: tuple[Service, ...]):
    several = Several(*kinds)
    several.post_receives(2 * len(kinds))
    for index in [*range(len(kinds)), *reversed(range(len(kinds)))]:
        several.two.receive_all(several.send(index))
    assert several.received() == list(range(2 * len(kinds)))
    for number, completion in enumerate(several.two.completions):
        start = GRH if completion.flags & 1 else 0
        assert several.two.bytes(TARGET + number * BUFFER + start, 100) == data_of(100)
        assert completion.length == 100 + start
    assert several.waiting() == 0


def test_completions_name_the_queue_pair_that_has_received():
    several = Several(RC, RC)
    several.post_receives(2)
    for index in (1, 0):
        several.two.receive_all(several.send(index))
    assert [completion.qpn for completion in several.two.completions] == [several.two.qpn(1), several.two.qpn(0)]


@pytest.mark.parametrize("kind", [RC, UC])
def test_messages_of_several_packets_that_arrive_interleaved(kind: Service):
    several = Several(kind, kind)
    several.post_receives(2)
    long, short = several.send(0, 1000), several.send(1, 700)
    several.two.receive(long[0])
    several.two.receive_all(short)
    several.two.receive_all(long[1:])
    assert several.received() == [1, 0]
    assert several.two.bytes(TARGET, 1000) == data_of(1000)
    assert several.two.bytes(TARGET + BUFFER, 701) == data_of(700) + b"\0"
    assert several.room() == LIMITS.shared_depth


def test_empty_queue_is_answered_with_an_rnr_nak_until_a_request_is_posted():
    several = Several(RC, RC)
    several.post_receives(1)
    several.two.receive_all(several.send(1))
    several.two.receive_all(several.send(0))
    assert several.two.count("rnr_naks_sent") == 1
    several.answer()
    several.post_receives(1)
    several.one.tick(TIMEOUT)
    several.two.receive_all(several.one.sent)
    assert several.received() == [0, 1]
    assert several.two.state(0) == several.two.state(1) == RTS


@pytest.mark.parametrize("kind", [UC, UD])
def test_message_without_a_request_is_dropped_and_counted(kind: Service):
    several = Several(kind)
    several.two.receive_all(several.send(0))
    assert several.two.count("drop_no_receive") == 1
    several.post_receives(1)
    several.two.receive_all(several.send(0))
    assert several.received() == [0]


def test_write_with_immediate_takes_a_request_at_its_end():
    several = Several(RC, RC)
    several.post_receives(2)
    where = {"remote_address": several.two.start, "rkey": several.two.key, "immediate": 5}
    write = several.send(0, 600, WRITE_WITH_IMM, **where)
    several.two.receive_all(write[:2])
    several.two.receive_all(several.send(1))
    several.two.receive_all(write[2:])
    assert [(c.wr_id, c.immediate) for c in several.two.completions] == [(0, 0), (1, 5)]


def test_end_in_error_flushes_what_the_queue_pair_has_taken_and_nothing_else():
    several = Several(RC, RC)
    several.post_receives(3)
    several.two.receive(several.send(0, 1000)[0])
    several.two.transport.modify(0, ERR, several.two.now)
    several.two.settle()
    assert [(c.wr_id, c.status.name) for c in several.two.completions] == [(0, "WR_FLUSH_ERR")]
    several.two.receive_all(several.send(1))
    assert several.received() == [1]
    assert several.waiting() == 1


@KINDS
def test_end_in_error_between_messages_flushes_nothing(kind: Service):
    several = Several(kind, kind)
    several.post_receives(1)
    several.two.transport.modify(0, ERR, several.two.now)
    several.two.settle()
    assert several.two.completions == []
    several.two.receive_all(several.send(1))
    assert several.received() == [0]


@pytest.mark.parametrize("kind", [RC, UC])
@pytest.mark.parametrize("way", ["reset", "destroy", "error and destroy"])
def test_request_of_a_message_that_is_cut_off_is_not_lost(kind: Service, way: str):
    several = Several(kind, kind)
    several.post_receives(2)
    several.two.receive_all(several.send(0, 1000)[:2])
    assert several.waiting() == 1
    if way == "reset":
        several.two.transport.modify(0, RESET, several.two.now)
    elif way == "destroy":
        several.two.transport.destroy_queue_pair(0)
    else:  # before the turn that flushes it
        several.two.transport.modify(0, ERR, several.two.now)
        several.two.transport.destroy_queue_pair(0)
    several.two.settle()
    assert several.two.completions == []
    for _ in range(2):
        several.two.receive_all(several.send(1))
    assert several.received() == [0, 1]
    assert several.room() == LIMITS.shared_depth


def test_queue_pair_that_was_reset_receives_from_the_queue_again():
    several = Several(RC)
    several.post_receives(1)
    several.two.receive(several.send(0, 1000)[0])
    for end in (several.one, several.two):
        end.transport.modify(0, RESET, end.now)
    several.connect(0)
    several.two.receive_all(several.send(0, 1000))
    assert several.received() == [0]


def test_message_of_an_unreliable_connection_with_a_lost_packet_gives_its_request_back():
    several = Several(UC, UC)
    several.post_receives(2)
    first, _lost, *rest = several.send(0, 1000)
    several.two.receive_all([first, *rest])
    assert several.waiting() == 2
    several.two.receive_all(several.send(1))
    several.two.receive_all(several.send(0, 1000))
    assert several.received() == [0, 1]


def test_next_message_of_an_unreliable_connection_takes_the_place_of_one_that_was_cut_off():
    several = Several(UC, UC)
    several.post_receives(2)
    several.two.receive(several.send(0, 1000)[0])
    several.two.receive_all(several.send(0, 700))
    assert several.received() == [0]
    several.two.receive(several.send(0, 1000)[0])
    write = {"remote_address": several.two.start, "rkey": several.two.key}
    several.two.receive_all(several.send(0, 10, RequestOpcode.RDMA_WRITE, **write))
    assert several.waiting() == 1
    assert several.room() == LIMITS.shared_depth - 1


@pytest.mark.parametrize(("length", "status"), [(99, "LOC_LEN_ERR"), (300, "LOC_LEN_ERR"), (BUFFER, "LOC_PROT_ERR")])
def test_message_that_can_not_be_taken_ends_its_request_and_its_connection_only(length: int, status: str):
    several = Several(RC, RC)
    lkey = several.two.register(Access.REMOTE_WRITE) if status == "LOC_PROT_ERR" else None
    several.two.post_shared((TARGET, length), wr_id=50, lkey=lkey)
    several.post_receives(1)
    several.two.receive_all(several.send(0, 100 if length < 100 else 600))
    assert [(c.wr_id, c.status.name) for c in several.two.completions] == [(50, status)]
    assert several.two.state(0) == ERR
    several.two.receive_all(several.send(1))
    assert several.received() == [0]


def test_datagram_longer_than_its_request_leaves_it():
    several = Several(UD, UD)
    several.post_receives(1, GRH + 99)
    several.two.receive_all(several.send(0, 100))
    assert several.two.count("drop_length") == 1
    several.two.receive_all(several.send(1, 99))
    assert several.received() == [0]


def test_room_of_a_queue_counts_what_is_taken():
    several = Several(RC)
    several.post_receives(1)
    several.two.receive(several.send(0, 1000)[0])
    assert several.room() == LIMITS.shared_depth - 1
    several.two.transport.modify(0, RESET, several.two.now)
    assert several.waiting() == LIMITS.shared_depth


def test_queue_with_less_room():
    several = Several()
    several.queue = several.two.transport.create_shared_queue(domain=DOMAIN, room=5)
    assert several.room() == 5


@KINDS
def test_queue_pair_with_a_shared_queue_has_none_of_its_own(kind: Service):
    several = Several(kind)
    wqe = several.two._receive_wqe(((0, 8),), 1, None)
    assert not several.two.transport.post_receive(0, wqe, several.two.now)


def test_queue_is_destroyed_when_no_queue_pair_uses_it():
    several = Several(RC, RC)
    transport = several.two.transport
    for index in (0, 1):
        with pytest.raises(SharedQueueInUse, match=f"{2 - index} queue pairs"):
            transport.destroy_shared_queue(several.queue)
        transport.destroy_queue_pair(index)
    several.post_receives(3)
    transport.destroy_shared_queue(several.queue)
    again = transport.create_shared_queue(domain=DOMAIN)
    assert again == several.queue
    assert several.waiting() == 0


def test_more_queues_than_there_is_room_for():
    transport = Endpoint("10.0.0.1").transport
    for _ in range(LIMITS.shared_queues):
        transport.create_shared_queue(domain=DOMAIN)
    with pytest.raises(TableFull, match="shared receive queues"):
        transport.create_shared_queue(domain=DOMAIN)


@pytest.mark.parametrize("room", [0, -1, LIMITS.shared_depth + 1])
def test_rooms_that_can_not_be(room: int):
    with pytest.raises(AttributesInvalid, match=str(room)):
        Endpoint("10.0.0.1").transport.create_shared_queue(domain=DOMAIN, room=room)


@pytest.mark.parametrize("queue", [-1, 1, LIMITS.shared_queues, "stranger"])
def test_queue_pair_of_a_queue_that_is_not_there(queue: int | str):
    endpoint = Endpoint("10.0.0.1")
    endpoint.transport.create_shared_queue(domain=STRANGER_DOMAIN if queue == "stranger" else DOMAIN)
    with pytest.raises(AttributesInvalid, match="no shared receive queue"):
        endpoint.queue_pair(RC, shared_queue=0 if queue == "stranger" else queue)
    assert not endpoint.transport.tables["queue_pairs"]["qpn"].any()


def test_counters_of_a_queue_run_freely():
    """The numbers of requests pass 2^32, also when one goes back."""
    several = Several(RC, RC)
    row = several.two.transport.tables["shared_queues"][several.queue]
    row["head"] = row["tail"] = 2**32 - 1
    several.post_receives(3)
    several.two.receive(several.send(0, 1000)[0])
    several.two.receive_all(several.send(1))
    several.two.transport.modify(0, RESET, several.two.now)
    assert int(row["head"]) == 0
    for _ in range(2):
        several.two.receive_all(several.send(1))
    assert several.received() == [1, 0, 2]
