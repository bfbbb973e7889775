"""RC over a wire that loses, repeats and reorders: retransmission, NAK, RNR, repeated reads and atomics."""

from itertools import groupby
from random import Random

import numpy as np
import pytest

from fanin_wire.rocev2 import RNR_TIMES_NS, Acknowledge, Nak, syndrome
from fanin_wire.verbs import Access, QueuePairState, RequestOpcode

from .rig import LIMITS, MILLISECOND, Packet, Pair, bring_up, make
from .test_operations import SOURCE, TARGET, data_of, remote

TIMEOUT = 4096 << 14  # ns, of the rig's queue pairs
RNR_WAIT = RNR_TIMES_NS[12]
READ, WRITE, SEND = RequestOpcode.RDMA_READ, RequestOpcode.RDMA_WRITE, RequestOpcode.SEND
FETCH_ADD = RequestOpcode.ATOMIC_FETCH_AND_ADD


class Loses:
    """A wire that loses the n-th packet (from 0) of an opcode, for each given (name, n)."""

    def __init__(self, *lost: tuple[str, int]) -> None:
        self.lost, self.seen = set(lost), {}

    def __call__(self, packet: Packet) -> list[Packet]:
        name = packet.name[3:]
        number = self.seen.get(name, 0)
        self.seen[name] = number + 1
        return [] if (name, number) in self.lost else [packet]


def nothing(_packet: Packet) -> list[Packet]:
    return []


def everything(packet: Packet) -> list[Packet]:
    return [packet]


def write(pair: Pair, length: int = 1000, **members) -> None:
    pair.one.fill(SOURCE, data_of(length))
    pair.one.post(WRITE, (SOURCE, length), **(remote(pair) | members))


def naks(pair: Pair) -> list[tuple[int, int]]:
    """(PSN, syndrome) of all NAKs on the wire."""
    found = [(p.bth["psn"], p.header("AETH")["syndrome"]) for p in pair.log if p.name == "RC_ACKNOWLEDGE"]
    return [entry for entry in found if entry[1] >> 5]


@pytest.mark.parametrize("lost", ["RDMA_WRITE_FIRST", "RDMA_WRITE_MIDDLE"])
def test_a_gap_is_reported_once_and_filled(lost: str):
    pair = Pair(psns=(0xFFFFFE, 0))
    pair.bend = Loses((lost, 0))
    write(pair, 2000)
    pair.run()
    assert pair.two.bytes(TARGET, 2000) == data_of(2000)
    missing = 0xFFFFFE + (lost != "RDMA_WRITE_FIRST")
    assert naks(pair) == [(missing, syndrome(Acknowledge.NAK, Nak.SEQUENCE))]
    assert pair.one.statuses() == ["SUCCESS"]
    assert pair.one.count("timeouts") == 0


@pytest.mark.parametrize(
    ("lost", "operation"),
    [
        ("RDMA_WRITE_LAST", WRITE),
        ("ACKNOWLEDGE", WRITE),
        ("RDMA_READ_REQUEST", READ),
        ("RDMA_READ_RESPONSE_LAST", READ),
    ],
)
def test_what_nobody_reports_is_sent_again_after_a_timeout(lost: str, operation: RequestOpcode):
    pair = Pair()
    pair.bend = Loses((lost, 0))
    pair.one.fill(SOURCE if operation == WRITE else 0, data_of(1000))
    pair.two.fill(TARGET, data_of(1000))
    pair.one.post(operation, (SOURCE, 1000), **remote(pair))
    pair.run()
    assert pair.one.completions == []
    pair.pass_time(TIMEOUT - 1)
    assert pair.one.completions == []
    pair.pass_time(1)
    assert pair.one.statuses() == ["SUCCESS"]
    assert pair.one.count("timeouts") == 1
    assert pair.one.bytes(SOURCE, 1000) == pair.two.bytes(TARGET, 1000) == data_of(1000)


def test_read_is_asked_for_from_the_missing_packet_on():
    pair = Pair()
    pair.two.fill(TARGET, data_of(1000))
    pair.bend = Loses(("RDMA_READ_RESPONSE_MIDDLE", 1))
    pair.one.post(READ, (SOURCE, 1000), **remote(pair))
    pair.run()
    requests = [p for p in pair.log if p.name == "RC_RDMA_READ_REQUEST"]
    assert [(p.bth["psn"], p.header("RETH")["dlen"]) for p in requests] == [(0, 1000), (2, 1000 - 512)]
    assert requests[1].header("RETH")["va"] == pair.two.start + TARGET + 512
    assert pair.one.bytes(SOURCE, 1000) == data_of(1000)
    assert pair.one.count("timeouts") == 0  # the response behind it has proved the loss


def test_an_acknowledgement_of_a_later_request_proves_that_a_response_is_lost():
    pair = Pair()
    pair.bend = Loses(("RDMA_READ_RESPONSE_ONLY", 0))
    pair.two.fill(TARGET, data_of(100))
    pair.one.post(READ, (SOURCE, 100), **remote(pair))
    pair.one.post(WRITE, (SOURCE + 1000, 10), **remote(pair, TARGET + 1000))
    pair.run()
    assert pair.one.count("implied_naks") == 1
    assert pair.one.statuses() == ["SUCCESS", "SUCCESS"]
    assert pair.one.bytes(SOURCE, 100) == data_of(100)


@pytest.mark.parametrize("lost", ["FETCH_ADD", "ATOMIC_ACKNOWLEDGE"])
def test_atomic_is_carried_out_once(lost: str):
    pair = Pair()
    pair.bend = Loses((lost, 0))
    for number in range(2):
        pair.one.post(FETCH_ADD, (SOURCE + 8 * number, 8), compare_add=1, **remote(pair))
    pair.run()
    pair.pass_time(TIMEOUT)
    assert int.from_bytes(pair.two.bytes(TARGET, 8), "little") == 2
    assert pair.one.bytes(SOURCE, 16) == bytes(8) + (1).to_bytes(8, "little")


def test_repeated_atomic_is_answered_with_the_newest_value_of_its_psn():
    """After 2^24 packets a PSN comes again."""
    pair = Pair()
    for number, bend in enumerate((lambda packet: [packet], Loses(("ATOMIC_ACKNOWLEDGE", 0)))):
        pair.bend = bend
        for member in ("next_psn", "unacknowledged", "end_psn"):
            pair.one.transport.queue_pair(0)[member] = 5
        pair.two.transport.queue_pair(0)["expected"] = 5
        pair.one.post(FETCH_ADD, (SOURCE + 8 * number, 8), compare_add=1, **remote(pair))
        pair.run()
    pair.pass_time(TIMEOUT)
    assert pair.one.bytes(SOURCE, 16) == bytes(8) + (1).to_bytes(8, "little")


def test_repeated_requests_change_nothing():
    pair = Pair()
    pair.two.post_receive((TARGET, 100))
    pair.two.post_receive((TARGET + 200, 100))
    pair.one.fill(SOURCE, data_of(50))
    pair.one.post(SEND, (SOURCE, 50))
    pair.one.post(FETCH_ADD, (SOURCE + 100, 8), compare_add=1, **remote(pair, TARGET + 800))
    pair.bend = lambda packet: [packet, packet]
    pair.run()
    assert pair.one.statuses() == ["SUCCESS", "SUCCESS"]
    assert len(pair.two.completions) == 1
    assert pair.two.bytes(TARGET + 800, 8) == (1).to_bytes(8, "little")
    assert pair.two.count("duplicates") == 2


@pytest.mark.parametrize("answered", [FETCH_ADD, READ])
def test_acknowledgement_of_a_repetition_is_none_of_what_has_a_response_of_its_own(answered: RequestOpcode):
    """The response may still be under way, or lost, and only the response may complete its request."""
    pair = Pair(psns=(0xFFFFFE, 0))
    write(pair, 600)
    for _ in range(2):
        length = 8 if answered == FETCH_ADD else 700
        pair.one.post(answered, (SOURCE + 1000, length), compare_add=1, **remote(pair, TARGET + 1000))
    pair.run()
    repeated, pair.log = pair.log[0], []
    pair.two.receive(repeated)
    pair.run()
    (acknowledgement,) = pair.log
    assert acknowledgement.bth["psn"] == 0  # of the last of three packets
    assert acknowledgement.header("AETH")["msn"] == 1
    assert pair.one.count("implied_naks") == 0

    pair.log = []
    write(pair, 10)
    pair.run()
    (acknowledgement,) = [packet for packet in pair.log if packet.name == "RC_ACKNOWLEDGE"]
    assert acknowledgement.bth["psn"] == (3 if answered == FETCH_ADD else 7)
    assert acknowledgement.header("AETH")["msn"] == 4


@pytest.mark.parametrize("seed", range(10))
def test_acknowledgements_in_any_mix_of_requests_and_repetitions(seed: int):
    """Each is of the last executed SEND or WRITE packet, and counts the messages that had ended then."""
    pair, random = Pair(psns=(0xFFFFF0, 0)), Random(seed)
    expected, ended, known, answers = (0xFFFFEF, 0), 0, [], 0
    for _ in range(40):
        operation = random.choice([SEND, WRITE, READ, FETCH_ADD])
        if operation == SEND:
            pair.two.post_receive((TARGET, 2000))
        length = 8 if operation == FETCH_ADD else random.choice([1, 256, 257, 1000])
        pair.one.post(operation, (SOURCE, length), compare_add=1, **remote(pair))
        packets, pair.one.sent = pair.one.sent, []
        for packet in packets:
            pair.two.receive(packet)
            is_answered = "READ" in packet.name or "ADD" in packet.name
            ended += is_answered or packet.name.endswith(("LAST", "ONLY"))
            if not is_answered:
                expected = (packet.bth["psn"], ended)
                known.append(packet)
            if known and random.random() < 0.5:
                pair.two.receive(random.choice(known))
            responses, pair.two.sent = pair.two.sent, []
            for response in responses:
                if response.name == "RC_ACKNOWLEDGE":
                    assert (response.bth["psn"], response.header("AETH")["msn"]) == expected
                    answers += 1
            pair.one.receive_all(responses)
    assert pair.one.statuses() == ["SUCCESS"] * 40
    assert pair.one.count("implied_naks") == 0
    assert answers > 40


def test_acknowledgement_after_a_reset():
    """Earlier reads do not count."""
    pair = Pair()
    pair.one.post(READ, (SOURCE, 1000), **remote(pair))
    pair.run()
    for end, other in ((pair.one, pair.two), (pair.two, pair.one)):
        end.transport.modify(0, QueuePairState.RESET, end.now)
        bring_up(end, 0, AV=other.address, DEST_QPN=other.qpn(0), SQ_PSN=7, RQ_PSN=7)
    pair.two.receive(make("RC_RDMA_WRITE_ONLY", pair.one, pair.two, psn=6))
    (acknowledgement,) = pair.two.sent
    assert (acknowledgement.bth["psn"], acknowledgement.header("AETH")["msn"]) == (6, 0)


def test_late_repetition_of_a_write_does_not_undo_a_later_one():
    pair = Pair()
    write(pair, 10)
    pair.run()
    old = pair.log[0]
    pair.one.fill(SOURCE, b"0123456789")
    pair.one.post(WRITE, (SOURCE, 10), **remote(pair))
    pair.run()
    pair.two.receive(old)
    assert pair.two.bytes(TARGET, 10) == b"0123456789"


def test_reordered_packets_that_come_in_one_batch_are_asked_for_from_the_hole_on():
    pair = Pair()
    write(pair, 1000)
    packets, pair.one.sent = pair.one.sent, []
    pair.two.receive_all([packets[1], packets[0], packets[2], packets[3]])
    (nak,) = pair.two.sent
    assert (nak.bth["psn"], nak.header("AETH")["syndrome"]) == (1, syndrome(Acknowledge.NAK, Nak.SEQUENCE))
    pair.run()
    assert pair.one.statuses() == ["SUCCESS"]
    assert pair.two.bytes(TARGET, 1000) == data_of(1000)


def test_retries_are_limited():
    pair = Pair(RETRY_CNT=2)
    pair.bend = nothing
    write(pair, 10)
    pair.one.post(SEND, (SOURCE, 10), wr_id=101)
    pair.one.post_receive((0, 10))
    pair.run()
    for wait in (TIMEOUT, 2 * TIMEOUT):
        pair.pass_time(wait)
        assert pair.one.completions == []
    pair.pass_time(4 * TIMEOUT)
    assert pair.one.statuses() == ["RETRY_EXC_ERR", "WR_FLUSH_ERR", "WR_FLUSH_ERR"]
    assert [completion.wr_id for completion in pair.one.completions] == [100, 101, 200]
    assert pair.one.state() == QueuePairState.ERR
    assert pair.one.transport.next_deadline > pair.one.now + 10**12
    pair.pass_time(TIMEOUT)
    assert len(pair.one.completions) == 3


def test_time_outs_without_progress_come_later_and_later():
    """Up to four times as late as asked for. Progress restores the first time-out."""
    pair = Pair(RETRY_CNT=7)
    pair.bend = nothing
    write(pair, 10)
    for number, factor in enumerate((1, 2, 4, 4)):
        pair.pass_time(factor * TIMEOUT - 1)
        assert pair.one.count("timeouts") == number
        pair.pass_time(1)
        assert pair.one.count("timeouts") == number + 1
    pair.bend = everything
    pair.pass_time(4 * TIMEOUT)
    assert pair.one.statuses() == ["SUCCESS"]
    pair.bend = nothing
    write(pair, 10)
    pair.pass_time(TIMEOUT)
    assert pair.one.count("timeouts") == 6


def test_after_a_time_out_one_packet_asks_what_has_arrived():
    """The other side is slow, and has lost nothing: its data need no repetition."""
    pair = Pair()
    pair.bend = nothing  # for now
    write(pair, 256 * 40)
    pair.run()
    pair.pass_time(TIMEOUT)
    assert [packet.bth["psn"] for packet in pair.log] == [*range(LIMITS.window), 0]
    assert pair.log[-1].bth["ackreq"] == 1
    pair.bend = everything
    pair.two.receive_all(pair.log)
    pair.run()
    assert pair.one.statuses() == ["SUCCESS"]
    assert pair.two.bytes(TARGET, 256 * 40) == data_of(256 * 40)
    assert pair.one.count("resent") == 1


def test_a_loss_halves_what_is_under_way_and_acknowledgements_open_the_window_again():
    pair = Pair()
    pair.bend = Loses(("RDMA_WRITE_MIDDLE", 0))
    write(pair, 256 * 100)
    pair.run()
    kinds = groupby(pair.names(), key=lambda name: name.startswith("RDMA_WRITE"))
    bursts = [len(list(group)) for is_write, group in kinds if is_write]
    assert bursts[:2] == [LIMITS.window, LIMITS.window // 2]
    assert max(bursts[2:]) == LIMITS.window
    assert pair.one.statuses() == ["SUCCESS"]


def test_progress_gives_all_retries_back():
    pair = Pair(RETRY_CNT=1)
    for _ in range(3):
        pair.bend = Loses(("RDMA_WRITE_ONLY", 0))
        write(pair, 10)
        pair.run()
        pair.pass_time(TIMEOUT)
    assert pair.one.statuses() == ["SUCCESS"] * 3


def test_timeout_zero_waits_for_ever():
    pair = Pair(TIMEOUT=0)
    pair.bend = nothing
    write(pair, 10)
    pair.run()
    pair.pass_time(3600 * 10**9)
    assert pair.one.completions == []


@pytest.mark.parametrize("retries", [0, 2])
def test_rnr_retries_are_limited(retries: int):
    pair = Pair(RNR_RETRY=retries)
    pair.one.post(SEND, (SOURCE, 10))
    pair.run()
    for _ in range(retries):
        pair.pass_time(RNR_WAIT)
    assert pair.one.statuses() == ["RNR_RETRY_EXC_ERR"]


def test_rnr_retry_seven_has_no_limit():
    pair = Pair(RNR_RETRY=7)
    pair.one.post(SEND, (SOURCE, 10))
    pair.run()
    for _ in range(50):
        pair.pass_time(RNR_WAIT)
    pair.two.post_receive((TARGET, 10))
    pair.pass_time(RNR_WAIT)
    assert pair.one.statuses() == ["SUCCESS"]


def test_a_receiver_without_requests_gets_fewer_packets_each_time():
    """Whole windows again and again would keep two busy programs from progress."""
    pair, bursts = Pair(RNR_RETRY=7), []
    for number in range(20):
        pair.one.post(SEND, (SOURCE, 10), wr_id=number)
    for _ in range(6):
        before = len(pair.log)
        pair.pass_time(RNR_WAIT)
        bursts.append(sum(packet.name == "RC_SEND_ONLY" for packet in pair.log[before:]))
    assert bursts == [16, 8, 4, 2, 1, 1]


def test_stale_acknowledgements_are_dropped():
    pair = Pair()
    write(pair, 10)
    pair.run()
    for psn in (0, 1, 0xFFFFFF, 0x800000):
        values = {"syndrome": syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS), "msn": 1}
        pair.one.receive(make("RC_ACKNOWLEDGE", pair.two, pair.one, psn=psn, AETH=values))
    assert pair.one.count("drop_stale") == 4
    assert pair.one.state() == QueuePairState.RTS


def test_region_that_goes_away_ends_a_read_that_is_being_answered():
    pair = Pair()
    key = pair.two.register(Access.REMOTE_READ)
    pair.one.post(READ, (SOURCE, 8192), remote_address=pair.two.start, rkey=key)
    data = np.frombuffer(pair.one.sent.pop().data, np.uint8)
    pair.two.transport.packet(int(data.ctypes.data), len(data), pair.one.address, pair.two.now)
    pair.two.transport.serve(pair.two.now, 1)
    pair.two.perform()
    assert len(pair.two.sent) == 16  # a turn
    pair.two.transport.deregister(key)
    pair.two.settle()
    pair.run()
    assert naks(pair) == [(16, syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS))]
    assert pair.one.statuses() == ["REM_ACCESS_ERR"]
    assert pair.one.state() == pair.two.state() == QueuePairState.ERR


def test_window_full_of_lost_packets_recovers():
    pair = Pair()
    lost = []

    def lose_first_window(packet: Packet) -> list[Packet]:
        lost.append(packet)
        return [] if len(lost) <= 16 else [packet]

    pair.bend = lose_first_window
    write(pair, 256 * 40)
    pair.run()
    pair.pass_time(TIMEOUT)
    assert pair.one.statuses() == ["SUCCESS"]
    assert pair.two.bytes(TARGET, 256 * 40) == data_of(256 * 40)
    assert pair.one.count("resent") == 16


def test_sequence_errors_without_progress_are_limited():
    """A peer that answers everything with NAK sequence error can not keep a queue pair busy for ever."""
    pair = Pair(RETRY_CNT=3)
    pair.bend = nothing
    write(pair, 10)
    nak = {"syndrome": syndrome(Acknowledge.NAK, Nak.SEQUENCE), "msn": 0}
    for _ in range(10):
        pair.one.receive(make("RC_ACKNOWLEDGE", pair.two, pair.one, psn=0, AETH=nak))
    assert pair.one.statuses() == ["RETRY_EXC_ERR"]
    assert pair.one.count("resent") == 3


def test_time_between_events_does_not_matter():
    pair = Pair()
    pair.bend = Loses(("RDMA_WRITE_ONLY", 0))
    write(pair, 10)
    pair.run()
    pair.pass_time(100 * MILLISECOND)
    pair.pass_time(10**12)
    assert pair.one.statuses() == ["SUCCESS"]
