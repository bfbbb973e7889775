"""The requester of a connection: segmentation, acknowledgements, going back, time-outs, RNR, responses."""

from typing import Any

from fanin_conform.script import verbs_script
from fanin_conform.verbs.packets import LAST_PSN, PSN_MASK, Dissected
from fanin_conform.verbs.pair import MTU, Pair, parts
from fanin_conform.verbs.tester import Expected, VerbsTester
from fanin_wire.layers import AtomicAckETH
from fanin_wire.rocev2 import RNR_TIMES_NS

DATA = bytes(number * 11 % 253 for number in range(2048))
REMOTE, RKEY = 0x1122334455667788, 0xA1B2C3D4  # of memory that the tester does not have
TIMEOUT, TIMEOUT_S = 14, 4096e-9 * 2**14  # 67 ms
LONG_RNR, SHORT_RNR = 26, 1  # 81.92 ms, 0.01 ms
RECEIVE_TIMEOUT_S = 8.0


def with_data(tester: VerbsTester, **given: Any) -> Pair:
    """A queue pair whose memory begins with DATA."""
    pair = Pair(tester, **given)
    pair.store(0, DATA)
    return pair


def posted_write(pair: Pair, length: int, **given: Any) -> list[Expected]:
    """The host posts a WRITE. Returns its packets."""
    pair.post("RDMA_WRITE", length, remote=REMOTE, rkey=RKEY, **given)
    payloads = [DATA[first : min(first + MTU, length)] for first in range(0, length, MTU)] or [b""]
    reth = {"va": REMOTE, "rkey": RKEY, "dlen": length}
    return [
        pair.sent(f"RDMA_WRITE_{name}", payload, **(reth if name in ("FIRST", "ONLY") else {}))
        for name, payload in zip(parts(len(payloads)), payloads, strict=True)
    ]


def psn_of(expected: Expected) -> int:
    return int(expected.fields["psn"])


@verbs_script("18.3-1", "18.3-2", "18.3-3", "18.3-5", "18.3-6")
def writes_of_every_length(tester: VerbsTester) -> None:
    """Around the path MTU. The last packet asks, and its ACK completes the request."""
    pair = with_data(tester)
    for length in (0, 1, 3, MTU - 1, MTU, MTU + 1, 2 * MTU, 3 * MTU + 2):
        packets = posted_write(pair, length)
        seen = tester.expect(*packets, clause="18.3-2")
        assert seen[-1].fields["ackreq"] == 1, f"the last packet does not ask: {seen[-1]}"
        pair.not_done("18.3-6")
        pair.msn += 1
        pair.answer("ACK", psn_of(packets[-1]), pair.msn)
        pair.done(operation="RDMA_WRITE", clause="18.3-6")


@verbs_script("18.3-2", "18.3-4", "18.3-5")
def sends_with_all_that_they_can_bring(tester: VerbsTester) -> None:
    """Immediate data and the solicited bit are in the last packet alone."""
    pair = with_data(tester)
    pair.post("SEND", MTU + 4, solicited=True)
    packets = [pair.sent("SEND_FIRST", DATA[:MTU], solicited=0)]
    packets += [pair.sent("SEND_LAST", DATA[MTU : MTU + 4], solicited=1, ackreq=1)]
    tester.expect(*packets, clause="18.3-4")
    pair.answer("ACK", psn_of(packets[-1]), 1)
    pair.done(operation="SEND")
    pair.post("SEND_WITH_IMM", 5, immediate=0x12345678)
    (packet,) = [pair.sent("SEND_ONLY_WITH_IMMEDIATE", DATA[:5], immdt=0x12345678, solicited=0)]
    tester.expect(packet, clause="18.3-4")
    pair.answer("ACK", psn_of(packet), 2)
    pair.done(operation="SEND")
    pair.post("RDMA_WRITE_WITH_IMM", MTU + 1, immediate=9, remote=REMOTE, rkey=RKEY)
    packets = [pair.sent("RDMA_WRITE_FIRST", DATA[:MTU], va=REMOTE, rkey=RKEY, dlen=MTU + 1)]
    packets += [pair.sent("RDMA_WRITE_LAST_WITH_IMMEDIATE", DATA[MTU : MTU + 1], immdt=9)]
    tester.expect(*packets, clause="18.3-4")
    pair.answer("ACK", psn_of(packets[-1]), 3)
    pair.done(operation="RDMA_WRITE")


@verbs_script("18.3-1", "18.3-7", "18.3-8")
def psns_wrap(tester: VerbsTester) -> None:
    """In a message; ACKs after the wrap complete requests before it."""
    pair = with_data(tester, send_psn=LAST_PSN - 1)
    packets = posted_write(pair, 8) + posted_write(pair, 3 * MTU)
    tester.expect(*packets, clause="18.3-1")
    assert [psn_of(each) for each in packets] == [LAST_PSN - 1, LAST_PSN, 0, 1]
    pair.answer("ACK", 1, 2)
    pair.done(clause="18.3-7")
    pair.done(clause="18.3-7")
    pair.answer("ACK", LAST_PSN, 1)
    pair.not_done("18.3-8")


@verbs_script("18.3-6", "18.3-7")
def one_ack_for_several_requests(tester: VerbsTester) -> None:
    """The ACK of the third of four completes three."""
    pair = with_data(tester)
    packets = [posted_write(pair, 16, wr=number)[0] for number in range(4)]
    tester.expect(*packets, clause="18.3-1")
    pair.answer("ACK", psn_of(packets[2]), 3)
    for number in range(3):
        pair.done(wr=number, clause="18.3-7")
    pair.not_done("18.3-6")
    pair.answer("ACK", psn_of(packets[3]), 4)
    pair.done(wr=3, clause="18.3-7")


@verbs_script("18.3-6", "18.3-8")
def acks_that_are_not_for_what_is_under_way(tester: VerbsTester) -> None:
    """Of the PSN before, of one not sent yet, and of one half of all PSNs away; a NAK of such a PSN as well."""
    pair = with_data(tester)
    (packet,) = posted_write(pair, 16)
    tester.expect(packet, clause="18.3-1")
    for kind in ("ACK", "NAK_INVALID_REQUEST", "NAK_SEQUENCE"):
        for away in (-1, 1, 1 << 23):
            pair.answer(kind, psn_of(packet) + away)
    tester.nothing("18.3-8")
    pair.not_done("18.3-8")
    pair.state("RTS", "18.3-8")
    pair.answer("ACK", psn_of(packet), 1)
    pair.done(clause="18.3-6")


@verbs_script("18.3-9", "18.3-7")
def going_back(tester: VerbsTester) -> None:
    """A NAK in the middle of a message: earlier packets are complete, the rest comes again unchanged."""
    pair = with_data(tester)
    before = posted_write(pair, 16, wr=1)
    packets = posted_write(pair, 4 * MTU, wr=2)
    tester.expect(*before, *packets, clause="18.3-1")
    pair.answer("NAK_SEQUENCE", psn_of(packets[2]), 1)
    tester.expect(*packets[2:], clause="18.3-9")
    pair.done(wr=1, clause="18.3-7")
    pair.not_done("18.3-9")
    pair.answer("NAK_SEQUENCE", psn_of(packets[3]), 1)
    tester.expect(*packets[3:], clause="18.3-9")
    pair.answer("ACK", psn_of(packets[3]), 2)
    pair.done(wr=2, clause="18.3-9")


@verbs_script("18.3-9", "18.3-13")
def going_back_over_several_requests(tester: VerbsTester) -> None:
    """A NAK of the first packet of three requests: all come again."""
    pair = with_data(tester)
    packets = posted_write(pair, 16, wr=1) + posted_write(pair, MTU + 1, wr=2) + posted_write(pair, 0, wr=3)
    tester.expect(*packets, clause="18.3-1")
    pair.answer("NAK_SEQUENCE", psn_of(packets[0]))
    tester.expect(*packets, clause="18.3-9")
    pair.answer("ACK", psn_of(packets[-1]), 3)
    for number in (1, 2, 3):
        pair.done(wr=number, clause="18.3-9")


@verbs_script("18.3-12", "18.3-13", "18.3-7")
def naks_that_end_the_queue_pair(tester: VerbsTester) -> None:
    """Each code has its status; earlier requests are complete, later ones flushed, nothing more is sent."""
    for code, status in (
        ("INVALID_REQUEST", "REM_INV_REQ_ERR"),
        ("REMOTE_ACCESS", "REM_ACCESS_ERR"),
        ("REMOTE_OPERATIONAL", "REM_OP_ERR"),
    ):
        pair = with_data(tester)
        packets = [posted_write(pair, 16, wr=number)[0] for number in range(3)]
        tester.expect(*packets, clause="18.3-1")
        pair.answer(f"NAK_{code}", psn_of(packets[1]), 1)
        pair.done(wr=0, clause="18.3-7")
        pair.done(status, wr=1, clause="18.3-12")
        pair.done("WR_FLUSH_ERR", wr=2, clause="18.3-13")
        pair.state("ERR", "18.3-13")
        tester.nothing("18.3-13")


def comes_again(pair: Pair, packets: list[Expected], clause: str) -> list[Dissected]:
    """Time passes until packets come again, unchanged. Returns them."""
    seen = pair.tester.wait(RECEIVE_TIMEOUT_S, lambda seen: len(seen) >= len(packets))
    for each, packet in zip(packets, seen, strict=False):
        wrong = [f"it is {packet.name}"] if packet.name != each.name else each.differences(packet)
        assert not wrong, f"expected {each}\nseen     {packet}\n         {'; '.join(wrong)} [{clause}]"
    assert len(seen) >= len(packets), f"expected {packets[len(seen)]}\nseen     nothing [{clause}]"
    return seen


@verbs_script("18.3-10")
def rnr(tester: VerbsTester) -> None:
    """It waits as long as the NAK says, and sends again, as often as needed."""
    pair = with_data(tester)
    packets = posted_write(pair, 16, wr=1) + posted_write(pair, MTU + 1, wr=2)
    tester.expect(*packets, clause="18.3-1")
    for code in (LONG_RNR, SHORT_RNR):
        begun = tester.target.now()
        pair.answer(f"RNR_NAK {code}", psn_of(packets[1]), 1)
        comes_again(pair, packets[1:], "18.3-10")
        waited = round((tester.target.now() - begun) * 1e9)
        assert waited >= RNR_TIMES_NS[code], f"it has waited {waited} ns, not {RNR_TIMES_NS[code]} [18.3-10]"
    pair.done(wr=1, clause="18.3-7")
    pair.answer("ACK", psn_of(packets[2]), 2)
    pair.done(wr=2, clause="18.3-10")


@verbs_script("18.3-10", "18.3-11", "18.3-13")
def too_many_rnr_naks(tester: VerbsTester) -> None:
    """After two repetitions the third RNR NAK ends the request."""
    pair = with_data(tester, rnr_retries=2)
    packets = [posted_write(pair, 16, wr=number)[0] for number in range(2)]
    tester.expect(*packets, clause="18.3-1")
    for _ in range(2):
        pair.answer(f"RNR_NAK {SHORT_RNR}", psn_of(packets[0]))
        comes_again(pair, packets, "18.3-10")
        pair.not_done("18.3-11")
    pair.answer(f"RNR_NAK {SHORT_RNR}", psn_of(packets[0]))
    pair.done("RNR_RETRY_EXC_ERR", wr=0, clause="18.3-11")
    pair.done("WR_FLUSH_ERR", wr=1, clause="18.3-13")


@verbs_script("18.3-14", "18.3-9")
def silence(tester: VerbsTester) -> None:
    """Without an ACK the oldest packet comes again, or more; after an ACK, the rest."""
    pair = with_data(tester, timeout=TIMEOUT)
    packets = posted_write(pair, 3 * MTU)
    tester.expect(*packets, clause="18.3-1")
    comes_again(pair, packets[:1], "18.3-14")
    pair.answer("ACK", psn_of(packets[1]))
    tester.wait(0.01)  # for packets under way
    comes_again(pair, packets[2:], "18.3-14")
    pair.answer("ACK", psn_of(packets[2]), 1)
    pair.done(clause="18.3-14")
    pair.state("RTS", "18.3-14")


@verbs_script("18.3-14", "18.3-15", "18.3-13")
def silence_that_does_not_end(tester: VerbsTester) -> None:
    """After two repetitions, no more, the request ends, and later ones are flushed."""
    pair = with_data(tester, timeout=TIMEOUT, retries=2)
    packets = [posted_write(pair, 16, wr=number)[0] for number in range(2)]
    tester.expect(*packets, clause="18.3-1")
    oldest = packets[0]
    for _ in range(2):
        comes_again(pair, [oldest], "18.3-14")
        tester.wait(0.01)  # those behind it may follow
    more = [packet for packet in tester.wait(8 * TIMEOUT_S) if not oldest.differences(packet)]
    assert not more, f"expected nothing more\nseen     {more[0]} [18.3-15]"
    pair.done("RETRY_EXC_ERR", wr=0, clause="18.3-15")
    pair.done("WR_FLUSH_ERR", wr=1, clause="18.3-13")
    tester.nothing("18.3-13")


def posted_read(pair: Pair, length: int, place: int = 0, **given: Any) -> Expected:
    """The host posts a READ. Returns its request packet."""
    pair.post("RDMA_READ", length, place=place, remote=REMOTE, rkey=RKEY, **given)
    psns = max(1, -(-length // MTU))
    return pair.sent("RDMA_READ_REQUEST", psns=psns, va=REMOTE, rkey=RKEY, dlen=length)


@verbs_script("18.3-16", "18.3-17", "18.3-19")
def reads(tester: VerbsTester) -> None:
    """Of one packet and of three: the data are in memory with the last packet; the next PSN follows them."""
    pair = Pair(tester)
    request = posted_read(pair, 100, place=64)
    tester.expect(request, clause="18.3-16")
    pair.respond("RDMA_READ_RESPONSE_ONLY", DATA[:100], psn_of(request))
    pair.done(operation="RDMA_READ", clause="18.3-17")
    pair.memory(0, bytes(64) + DATA[:100] + bytes(64), "18.3-17")
    request = posted_read(pair, 2 * MTU + 5, place=1024)
    tester.expect(request, clause="18.3-16")
    psn = psn_of(request)
    pair.respond("RDMA_READ_RESPONSE_FIRST", DATA[:MTU], psn)
    pair.respond("RDMA_READ_RESPONSE_MIDDLE", DATA[MTU : 2 * MTU], psn + 1)
    pair.respond("RDMA_READ_RESPONSE_MIDDLE", bytes(MTU), psn + 1)  # again, with other data
    tester.nothing("18.3-19")
    pair.not_done("18.3-17")
    pair.respond("RDMA_READ_RESPONSE_LAST", DATA[2 * MTU : 2 * MTU + 5], psn + 2)
    pair.done(operation="RDMA_READ", clause="18.3-17")
    pair.memory(1024, DATA[: 2 * MTU + 5] + bytes(8), "18.3-19")
    (packet,) = posted_write(pair, 0)
    tester.expect(packet, clause="18.3-16")


@verbs_script("18.3-18", "18.3-17")
def a_response_that_is_lost(tester: VerbsTester) -> None:
    """The third packet comes without the second: the READ is asked again, from the second on or as a whole."""
    pair = Pair(tester)
    request = posted_read(pair, 3 * MTU)
    tester.expect(request, clause="18.3-16")
    psn = psn_of(request)
    pair.respond("RDMA_READ_RESPONSE_FIRST", DATA[:MTU], psn)
    pair.respond("RDMA_READ_RESPONSE_LAST", DATA[2 * MTU : 3 * MTU], psn + 2)
    answer_what_is_asked(pair, psn, 3)
    pair.done(operation="RDMA_READ", clause="18.3-18")
    pair.memory(0, DATA[: 3 * MTU], "18.3-18")


def answer_what_is_asked(pair: Pair, first: int, packets: int) -> None:
    """The device asks again: READs of `packets` packets from PSN `first` on, or of a part up to their end."""
    seen = pair.tester.everything(1)
    asked = [packet for packet in seen if packet.name == "RC_RDMA_READ_REQUEST"]
    assert asked, f"expected RC_RDMA_READ_REQUEST\nseen     {seen[0] if seen else 'nothing'}"
    begin = (int(asked[0].fields["psn"]) - first) & PSN_MASK
    wanted = {"va": REMOTE + MTU * begin, "rkey": RKEY, "dlen": (packets - begin) * MTU}
    got = {name: asked[0].fields[name] for name in wanted}
    assert begin < packets, f"it asks from another PSN on: {asked[0]}"
    assert got == wanted, f"it asks for {got}, not for {wanted}"
    for number, name in enumerate(parts(packets - begin), begin):
        pair.respond(f"RDMA_READ_RESPONSE_{name}", DATA[MTU * number : MTU * (number + 1)], first + number)


@verbs_script("18.3-18")
def a_later_request_is_acknowledged(tester: VerbsTester) -> None:
    """An ACK of a WRITE after a READ means that the response is lost: neither is complete before it comes."""
    pair = Pair(tester)
    pair.store(1024, DATA[:16])
    request = posted_read(pair, MTU)
    pair.post("RDMA_WRITE", 16, place=1024, remote=REMOTE, rkey=RKEY, wr=2)
    write = pair.sent("RDMA_WRITE_ONLY", DATA[:16], va=REMOTE)
    tester.expect(request, write, clause="18.3-1")
    pair.answer("ACK", psn_of(write), 2)
    answer_what_is_asked(pair, psn_of(request), 1)
    pair.done(operation="RDMA_READ", clause="18.3-18")
    pair.memory(0, DATA[:MTU], "18.3-18")
    pair.answer("ACK", psn_of(write), 2)
    pair.done(operation="RDMA_WRITE", wr=2, clause="18.3-18")


@verbs_script("18.3-14", "18.3-18")
def silence_after_a_read(tester: VerbsTester) -> None:
    """The READ is asked again."""
    pair = Pair(tester, timeout=TIMEOUT)
    request = posted_read(pair, MTU)
    tester.expect(request, clause="18.3-16")
    comes_again(pair, [request], "18.3-14")
    pair.respond("RDMA_READ_RESPONSE_ONLY", DATA[:MTU], psn_of(request))
    pair.done(operation="RDMA_READ", clause="18.3-18")
    pair.memory(0, DATA[:MTU], "18.3-18")


@verbs_script("18.3-20", "18.3-1")
def atomics(tester: VerbsTester) -> None:
    """The headers of both, and where the answer goes."""
    tester.profile.require_atomics()
    pair = Pair(tester)
    operand = 0x1020304050607080
    kinds: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("ATOMIC_FETCH_AND_ADD", "FETCH_ADD", {"swap": operand}),
        ("ATOMIC_CMP_AND_SWP", "COMPARE_SWAP", {"compare": operand, "swap": 3}),
    )
    for number, (operation, name, fields) in enumerate(kinds):
        pair.post(operation, 8, place=64 * number, remote=REMOTE, rkey=RKEY, compare_add=operand, swap=3)
        request = pair.sent(name, va=REMOTE, rkey=RKEY, **fields)
        tester.expect(request, clause="18.3-20")
        original = 0x0123456789ABCDEF + number
        pair.respond("ATOMIC_ACKNOWLEDGE", b"", psn_of(request), AtomicAckETH(original=original))
        pair.done(operation="FETCH_ADD" if number == 0 else "COMP_SWAP", clause="18.3-20")
        pair.word(64 * number, original, "18.3-20")
        pair.memory(64 * number + 8, bytes(8), "18.3-20")


@verbs_script("18.3-21", "18.3-16")
def no_more_reads_than_may_be_under_way(tester: VerbsTester) -> None:
    """Of five READs two are asked at once; each response lets the next one go."""
    pair = Pair(tester, reads=2)
    requests = [posted_read(pair, 8, place=8 * number, wr=number) for number in range(5)]
    tester.expect(*requests[:2], clause="18.3-21")
    for number, request in enumerate(requests):
        pair.respond("RDMA_READ_RESPONSE_ONLY", DATA[8 * number : 8 * number + 8], psn_of(request))
        tester.expect(*requests[number + 2 : number + 3], clause="18.3-21")
        pair.done(wr=number, clause="18.3-17")
    pair.memory(0, DATA[:40], "18.3-17")
