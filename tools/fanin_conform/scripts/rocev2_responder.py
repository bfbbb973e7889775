"""The responder of a connection: order, acknowledgements, NAKs, repeated requests, reads."""

from fanin_conform.script import verbs_script
from fanin_conform.verbs.packets import LAST_PSN
from fanin_conform.verbs.pair import MTU, Pair, parts
from fanin_conform.verbs.tester import VerbsTester
from fanin_wire.layers import ImmDt
from fanin_wire.rocev2 import RNR_TIMES_NS

RNR_TIMER = 5  # 0.06 ms
assert RNR_TIMES_NS[RNR_TIMER] == 60_000
DATA = bytes(number * 7 % 251 for number in range(4096))


def write(pair: Pair, data: bytes, place: int = 0, **bth: int) -> int:
    """A WRITE of one packet; its PSN."""
    psn = pair.request("RDMA_WRITE_ONLY", data, pair.reth(len(data), place=place), **bth)
    pair.msn += 1
    return psn


@verbs_script("18.2-1", "18.2-2", "18.2-3", "18.2-28")
def a_send(tester: VerbsTester) -> None:
    """A SEND of one packet: data, completion, ACK."""
    pair = Pair(tester)
    pair.receive(100, place=8, wr=11)
    psn = pair.request("SEND_ONLY", DATA[:90])
    pair.msn += 1
    tester.expect(pair.ack(psn), clause="18.2-2")
    pair.done(wr=11, byte_length=90, operation="RECV", immediate=None, clause="18.2-28")
    pair.memory(0, bytes(8) + DATA[:90] + bytes(10), "18.2-28")


@verbs_script("18.2-1", "18.2-2", "18.2-3", "18.2-28")
def a_send_of_several_packets(tester: VerbsTester) -> None:
    """One message: the MSN counts it once, when it is complete."""
    pair = Pair(tester)
    pair.receive(1024, wr=3)
    first = pair.request("SEND_FIRST", DATA[:MTU])
    tester.expect(pair.ack(first), clause="18.2-3")
    pair.not_done("18.2-28")
    pair.request("SEND_MIDDLE", DATA[MTU : 2 * MTU], ackreq=0)
    last = pair.request("SEND_LAST", DATA[2 * MTU : 2 * MTU + 5])
    pair.msn += 1
    pair.acknowledged(last, "18.2-2")
    pair.done(wr=3, byte_length=2 * MTU + 5, clause="18.2-28")
    pair.memory(0, DATA[: 2 * MTU + 5] + bytes(8), "18.2-28")


@verbs_script("18.2-1", "18.2-2", "18.2-3", "18.2-16")
def a_write_of_several_packets(tester: VerbsTester) -> None:
    """Its data go to the place of the RETH, and nowhere else."""
    pair = Pair(tester)
    size = 3 * MTU + 1
    pair.request("RDMA_WRITE_FIRST", DATA[:MTU], pair.reth(size, place=64), ackreq=0)
    pair.request("RDMA_WRITE_MIDDLE", DATA[MTU : 2 * MTU], ackreq=0)
    pair.request("RDMA_WRITE_MIDDLE", DATA[2 * MTU : 3 * MTU], ackreq=0)
    psn = pair.request("RDMA_WRITE_LAST", DATA[3 * MTU : size])
    pair.msn += 1
    pair.acknowledged(psn, "18.2-2")
    pair.memory(0, bytes(64) + DATA[:size] + bytes(64), "18.2-1")
    pair.not_done()


@verbs_script("18.2-2", "18.2-3")
def an_ack_stands_for_all_before(tester: VerbsTester) -> None:
    """Of eight requests the last one asks."""
    pair = Pair(tester)
    for number in range(8):
        psn = write(pair, bytes([number + 1]) * 16, 16 * number, ackreq=int(number == 7))
    pair.acknowledged(psn, "18.2-2")
    pair.memory(0, b"".join(bytes([number + 1]) * 16 for number in range(8)), "18.2-1")


@verbs_script("18.2-1", "18.2-3", "18.2-9")
def psns_wrap(tester: VerbsTester) -> None:
    """From 2^24 - 1 the PSN goes on with 0: in a message, in a response, between requests."""
    pair = Pair(tester, receive_psn=LAST_PSN - 1)
    assert write(pair, DATA[:8]) == LAST_PSN - 1
    pair.acknowledged(LAST_PSN - 1, "18.2-1")
    pair.request("RDMA_WRITE_FIRST", DATA[:MTU], pair.reth(2 * MTU), ackreq=0)
    psn = pair.request("RDMA_WRITE_LAST", DATA[MTU : 2 * MTU])
    pair.msn += 1
    assert psn == 0
    pair.acknowledged(0, "18.2-1")
    write(pair, DATA[:8], psn=LAST_PSN)  # a repetition
    pair.msn -= 1
    pair.acknowledged(0, "18.2-6")
    other = Pair(tester, receive_psn=LAST_PSN - 1)
    other.store(0, DATA[: 3 * MTU])
    read(other, 3 * MTU)
    assert other.psn == 1
    other.ping("18.2-9")


def read(pair: Pair, length: int, place: int = 0, *, clause: str = "18.2-8") -> int:
    """A READ of DATA and its response; its PSN."""
    psns = max(1, -(-length // MTU))
    psn = pair.request("RDMA_READ_REQUEST", b"", pair.reth(length, place=place), psns=psns)
    pair.msn += 1
    expect_response(pair, psn, DATA[place : place + length], clause)
    return psn


def expect_response(pair: Pair, psn: int, data: bytes, clause: str) -> None:
    """The response to a READ, from a PSN on."""
    payloads = [data[first : first + MTU] for first in range(0, len(data), MTU)] or [b""]
    expected = []
    for number, (name, payload) in enumerate(zip(parts(len(payloads)), payloads, strict=True)):
        aeth = {} if name == "MIDDLE" else {"answer": "ACK", "msn": pair.msn}
        expected.append(pair.expected(f"RDMA_READ_RESPONSE_{name}", psn + number, payload, **aeth))
    pair.tester.expect(*expected, clause=clause)


@verbs_script("18.2-8", "18.2-9", "18.2-10", "18.2-3")
def reads_of_every_length(tester: VerbsTester) -> None:
    """Around the path MTU: how many packets, which bytes, which PSNs; the next request follows them."""
    pair = Pair(tester)
    pair.store(0, DATA)
    for length in (1, 3, MTU - 1, MTU, MTU + 1, 2 * MTU, 3 * MTU + 7):
        read(pair, length, place=length % 5)
    pair.ping("18.2-9")


@verbs_script("18.2-1", "18.2-8", "18.2-9")
def a_write_between_two_reads(tester: VerbsTester) -> None:
    """Three requests at once: the second READ sees what was written. The first may, for it has no fence (9.5)."""
    pair = Pair(tester)
    pair.store(0, DATA[:MTU])
    first = pair.request("RDMA_READ_REQUEST", b"", pair.reth(8))
    middle = pair.request("RDMA_WRITE_ONLY", b"\xff" * 8, pair.reth(8))
    last = pair.request("RDMA_READ_REQUEST", b"", pair.reth(8))
    seen = [packet for packet in tester.everything(2) if packet.fields["psn"] != middle]
    responses = [(packet.name, packet.fields["psn"]) for packet in seen]
    name = "RC_RDMA_READ_RESPONSE_ONLY"
    assert responses == [(name, first), (name, last)], f"the responses are {responses}"
    assert seen[0].payload in (DATA[:8], b"\xff" * 8), f"the first READ has read {seen[0].payload.hex()}"
    assert seen[1].payload == b"\xff" * 8, f"the second READ has read {seen[1].payload.hex()}"


@verbs_script("18.2-4", "18.2-5", "18.2-1")
def a_gap(tester: VerbsTester) -> None:
    """One NAK of the expected PSN, whatever follows; then all is sent again, and executed."""
    pair = Pair(tester)
    missing = pair.psn
    for number in (1, 2, 3):
        pair.request("RDMA_WRITE_ONLY", b"\xee" * 8, pair.reth(8, place=8 * number), psn=missing + number)
        if number == 1:
            tester.expect(pair.nak(missing, "SEQUENCE"), clause="18.2-4")
    tester.nothing("18.2-5")
    pair.memory(0, bytes(64), "18.2-4")
    for number in range(4):
        psn = write(pair, DATA[8 * number : 8 * number + 8], 8 * number)
        pair.acknowledged(psn, "18.2-5")
    pair.memory(0, DATA[:32], "18.2-1")
    pair.request("RDMA_WRITE_ONLY", b"\xee" * 8, pair.reth(8), psn=pair.psn + 1)
    tester.expect(pair.nak(pair.psn, "SEQUENCE"), clause="18.2-4")


@verbs_script("18.2-4")
def far_ahead(tester: VerbsTester) -> None:
    """A PSN nearly half of all ahead is still ahead."""
    pair = Pair(tester)
    ahead = pair.psn + (1 << 23) - 1
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8), psn=ahead)
    tester.expect(pair.nak(pair.psn, "SEQUENCE"), clause="18.2-4")


@verbs_script("18.2-25", "18.2-4")
def a_nak_acknowledges_what_is_before(tester: VerbsTester) -> None:
    """A lost packet behind others that did not ask."""
    pair = Pair(tester)
    write(pair, DATA[:8], ackreq=0)
    write(pair, DATA[8:16], 8, ackreq=0)
    tester.everything()
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8, place=64), psn=pair.psn + 1)
    tester.expect(pair.nak(pair.psn, "SEQUENCE"), clause="18.2-25")


@verbs_script("18.2-6", "18.2-1", "18.2-3")
def repeated_sends_and_writes(tester: VerbsTester) -> None:
    """They take no receive request, change no memory, count no message; an ACK answers them."""
    pair = Pair(tester)
    pair.receive(64, place=512, wr=1)
    first = pair.request("SEND_ONLY", DATA[:8])
    pair.msn += 1
    tester.expect(pair.ack(first), clause="18.2-2")
    second = write(pair, DATA[:8])
    tester.expect(pair.ack(second), clause="18.2-2")
    pair.done(wr=1)
    pair.receive(64, place=600, wr=2)
    pair.store(0, bytes(8))
    for psn, name, headers in ((first, "SEND_ONLY", []), (second, "RDMA_WRITE_ONLY", [pair.reth(8)])):
        pair.request(name, DATA[8:16], *headers, psn=psn)
        (seen,) = tester.everything(1)
        answered = seen.name, seen.fields["answer"], seen.fields["psn"] in (psn, second), seen.fields["msn"]
        assert answered == ("RC_ACKNOWLEDGE", "ACK", True, pair.msn), f"expected an ACK\nseen     {seen}"
    pair.memory(0, bytes(16), "18.2-6")
    pair.memory(600, bytes(8), "18.2-6")
    pair.not_done("18.2-6")
    pair.ping("18.2-6")


@verbs_script("18.2-7", "18.2-9")
def repeated_reads(tester: VerbsTester) -> None:
    """The whole READ again, and its last two packets: with the current data."""
    pair = Pair(tester)
    pair.store(0, DATA[: 3 * MTU])
    psn = read(pair, 3 * MTU)
    pair.request("RDMA_READ_REQUEST", b"", pair.reth(3 * MTU), psn=psn)
    expect_response(pair, psn, DATA[: 3 * MTU], "18.2-7")
    pair.request("RDMA_READ_REQUEST", b"", pair.reth(2 * MTU, place=MTU), psn=psn + 1)
    expect_response(pair, psn + 1, DATA[MTU : 3 * MTU], "18.2-7")
    pair.ping("18.2-9")


@verbs_script("18.2-30", "18.2-8", "18.2-28")
def messages_of_no_bytes(tester: VerbsTester) -> None:
    """SEND, WRITE and READ; the last two with an invalid key and address."""
    pair = Pair(tester)
    pair.receive(16, wr=5)
    psn = pair.request("SEND_ONLY")
    pair.msn += 1
    tester.expect(pair.ack(psn), clause="18.2-30")
    pair.done(wr=5, byte_length=0, clause="18.2-30")
    wrong = pair.reth(0, rkey=pair.rkey ^ 0xFF)
    wrong.va = 0
    psn = pair.request("RDMA_WRITE_ONLY", b"", wrong)
    pair.msn += 1
    tester.expect(pair.ack(psn), clause="18.2-30")
    psn = pair.request("RDMA_READ_REQUEST", b"", wrong)
    pair.msn += 1
    tester.expect(pair.expected("RDMA_READ_RESPONSE_ONLY", psn, answer="ACK", msn=pair.msn), clause="18.2-30")
    pair.ping("18.2-30")


@verbs_script("18.2-29", "18.2-28")
def immediate_data(tester: VerbsTester) -> None:
    """With a SEND of one packet and of two, and with a WRITE."""
    pair = Pair(tester)
    for wr in range(4):
        pair.receive(512, place=1024 + 512 * wr, wr=wr)
    psn = pair.request("SEND_ONLY_WITH_IMMEDIATE", DATA[:5], ImmDt(immdt=0xCAFE0001))
    pair.msn += 1
    tester.expect(pair.ack(psn), clause="18.2-29")
    pair.request("SEND_FIRST", DATA[:MTU], ackreq=0)
    psn = pair.request("SEND_LAST_WITH_IMMEDIATE", DATA[:3], ImmDt(immdt=0))
    pair.msn += 1
    pair.acknowledged(psn, "18.2-29")
    psn = pair.request("RDMA_WRITE_ONLY_WITH_IMMEDIATE", DATA[:9], pair.reth(9) / ImmDt(immdt=0x80000000))
    pair.msn += 1
    tester.expect(pair.ack(psn), clause="18.2-29")
    pair.done(wr=0, byte_length=5, immediate=0xCAFE0001, operation="RECV", clause="18.2-29")
    pair.done(wr=1, byte_length=MTU + 3, immediate=0, operation="RECV", clause="18.2-29")
    pair.done(wr=2, immediate=0x80000000, operation="RECV_RDMA_WITH_IMM", clause="18.2-29")
    pair.memory(0, DATA[:9] + bytes(7), "18.2-29")
    pair.memory(1024 + 2 * 512, bytes(512), "18.2-29")


@verbs_script("18.2-26", "18.2-27", "18.2-28")
def no_receive_request(tester: VerbsTester) -> None:
    """An RNR NAK with the time of the queue pair; later requests are dropped; the second time all are executed."""
    pair = Pair(tester, rnr_timer=RNR_TIMER)
    refused = pair.psn
    pair.request("SEND_ONLY", DATA[:8], psn=refused)
    (seen,) = tester.expect(pair.ack(refused, "RNR_NAK"), clause="18.2-26")
    code = int(seen.fields["syndrome"]) & 31
    assert code == RNR_TIMER, f"the RNR NAK asks for the time {code}, not {RNR_TIMER}"
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8), psn=refused + 1)
    tester.everything()  # a NAK of the sequence is allowed
    pair.memory(0, bytes(8), "18.2-26")
    pair.receive(16, place=100, wr=9)
    psn = pair.request("SEND_ONLY", DATA[:8])
    pair.msn += 1
    assert psn == refused
    pair.acknowledged(psn, "18.2-27")
    pair.done(wr=9, byte_length=8, clause="18.2-27")
    pair.memory(100, DATA[:8], "18.2-27")
    pair.ping("18.2-27")


@verbs_script("18.2-26", "18.2-27", "18.2-29")
def no_receive_request_for_immediate_data(tester: VerbsTester) -> None:
    """The second packet of a WRITE is refused until there is a request."""
    pair = Pair(tester, rnr_timer=RNR_TIMER)
    pair.request("RDMA_WRITE_FIRST", DATA[:MTU], pair.reth(MTU + 4), ackreq=0)
    refused = pair.psn
    last = "RDMA_WRITE_LAST_WITH_IMMEDIATE", DATA[MTU : MTU + 4], ImmDt(immdt=77)
    pair.request(*last, psn=refused)
    tester.expect(pair.ack(refused, "RNR_NAK"), clause="18.2-26")
    pair.receive(wr=4)
    psn = pair.request(*last)
    pair.msn += 1
    pair.acknowledged(psn, "18.2-27")
    pair.done(wr=4, immediate=77, clause="18.2-29")
    pair.memory(0, DATA[: MTU + 4] + bytes(4), "18.2-29")
