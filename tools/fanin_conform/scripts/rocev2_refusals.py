"""Requests that a responder refuses, with which NAK, and without other effects."""

from collections.abc import Callable

from fanin_conform.script import verbs_script
from fanin_conform.verbs.pair import MTU, Pair
from fanin_conform.verbs.tester import VerbsTester
from fanin_wire.agent import REMOTE_RIGHTS
from fanin_wire.layers import ImmDt

DATA = bytes(number * 5 % 249 + 1 for number in range(1024))


def refused(pair: Pair, psn: int, code: str, clause: str) -> None:
    """A NAK; then the queue pair is in error, and answers no more. Its memory is unchanged."""
    pair.tester.expect(pair.nak(psn, code), clause=clause)
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8))
    pair.request("RDMA_READ_REQUEST", b"", pair.reth(8), psn=psn)
    pair.tester.nothing("18.2-24")
    pair.state("ERR", "18.2-24")


@verbs_script("18.2-14", "18.2-24")
def packets_that_do_not_follow(tester: VerbsTester) -> None:
    """A MIDDLE or LAST at the beginning, a FIRST or ONLY or another operation within a message."""
    for begun, name in (
        ("", "SEND_MIDDLE"),
        ("", "SEND_LAST"),
        ("", "RDMA_WRITE_MIDDLE"),
        ("", "RDMA_WRITE_LAST"),
        ("SEND", "SEND_FIRST"),
        ("SEND", "SEND_ONLY"),
        ("SEND", "RDMA_WRITE_MIDDLE"),
        ("SEND", "RDMA_WRITE_ONLY"),
        ("SEND", "RDMA_READ_REQUEST"),
        ("RDMA_WRITE", "RDMA_WRITE_FIRST"),
        ("RDMA_WRITE", "RDMA_WRITE_ONLY"),
        ("RDMA_WRITE", "SEND_LAST"),
        ("RDMA_WRITE", "RDMA_READ_REQUEST"),
    ):
        pair = Pair(tester)
        pair.receive(1024, place=2048)
        if begun:
            headers = [pair.reth(3 * MTU)] if begun == "RDMA_WRITE" else []
            pair.request(f"{begun}_FIRST", DATA[:MTU], *headers, ackreq=0)
            tester.everything()
        has_reth = name in ("RDMA_WRITE_FIRST", "RDMA_WRITE_ONLY", "RDMA_READ_REQUEST")
        size = MTU if name.endswith(("FIRST", "MIDDLE")) else 0 if name == "RDMA_READ_REQUEST" else 8
        length = {"RDMA_WRITE_FIRST": 2 * MTU, "RDMA_READ_REQUEST": 8}.get(name, size)
        headers = [pair.reth(length, place=1024)] if has_reth else []
        psn = pair.request(name, DATA[:size], *headers)
        refused(pair, psn, "INVALID_REQUEST", "18.2-14")
        pair.memory(1024, bytes(MTU), "18.2-14")


@verbs_script("18.2-15", "18.2-24")
def packets_of_a_wrong_length(tester: VerbsTester) -> None:
    """FIRST and MIDDLE must be full, LAST must not be empty, and no packet may exceed the path MTU."""
    for before, name, size in (
        ((), "SEND_FIRST", MTU - 4),
        ((), "SEND_FIRST", MTU + 4),
        ((), "SEND_FIRST", 0),
        ((), "SEND_ONLY", MTU + 4),
        (("SEND_FIRST",), "SEND_MIDDLE", MTU - 4),
        (("SEND_FIRST",), "SEND_LAST", 0),
        (("SEND_FIRST",), "SEND_LAST", MTU + 1),
        ((), "RDMA_WRITE_FIRST", MTU - 1),
        ((), "RDMA_WRITE_ONLY", MTU + 4),
        (("RDMA_WRITE_FIRST",), "RDMA_WRITE_LAST", 0),
    ):
        pair = Pair(tester)
        pair.receive(1024, place=2048)
        total = MTU * len(before) + (2 * MTU if name.endswith("FIRST") else size or 8)
        headers = [pair.reth(total)] if name.startswith("RDMA") else []
        for each in before:
            pair.request(each, DATA[:MTU], *headers, ackreq=0)
            tester.everything()
        psn = pair.request(name, DATA[:size], *(headers if not before else []))
        refused(pair, psn, "INVALID_REQUEST", "18.2-15")


@verbs_script("18.2-16", "18.2-24")
def a_write_of_another_length_than_it_says(tester: VerbsTester) -> None:
    """Its LAST comes too early, or its ONLY is shorter or longer, or it goes on behind its end."""
    for packets, says in (
        ((("ONLY", 8),), 12),
        ((("ONLY", 8),), 4),
        ((("ONLY", 8),), 0),
        ((("FIRST", MTU), ("LAST", 8)), MTU + 9),
        ((("FIRST", MTU), ("LAST", 8)), MTU + 7),
        ((("FIRST", MTU), ("LAST", 8)), 3 * MTU),
        ((("FIRST", MTU), ("MIDDLE", MTU), ("MIDDLE", MTU)), 2 * MTU + 8),
    ):
        pair = Pair(tester)
        for number, (part, size) in enumerate(packets):
            headers = [] if number else [pair.reth(says)]
            last = number == len(packets) - 1
            psn = pair.request(f"RDMA_WRITE_{part}", DATA[:size], *headers, ackreq=int(last))
        refused(pair, psn, "INVALID_REQUEST", "18.2-16")


@verbs_script("18.2-17", "18.2-24")
def a_send_that_is_too_long(tester: VerbsTester) -> None:
    """In its only packet, and in its last one."""
    pair = Pair(tester)
    pair.receive(15, place=100, wr=1)
    psn = pair.request("SEND_ONLY", DATA[:16])
    refused(pair, psn, "INVALID_REQUEST", "18.2-17")
    pair.done("LOC_LEN_ERR", wr=1, clause="18.2-17")
    other = Pair(tester)
    other.receive(MTU + 15, place=100, wr=2)
    other.request("SEND_FIRST", DATA[:MTU], ackreq=0)
    psn = other.request("SEND_LAST", DATA[:16])
    refused(other, psn, "INVALID_REQUEST", "18.2-17")
    other.done("LOC_LEN_ERR", wr=2, clause="18.2-17")
    other.memory(100 + MTU + 15, bytes(8), "18.2-17")


@verbs_script("18.2-18", "18.2-24")
def operations_that_the_queue_pair_does_not_allow(tester: VerbsTester) -> None:
    """WRITE, READ and atomics, each where the others are allowed."""
    for lacking in REMOTE_RIGHTS:
        if lacking == "REMOTE_ATOMIC" and not tester.profile.atomics:
            continue
        pair = Pair(tester, rights=tuple(name for name in REMOTE_RIGHTS if name != lacking))
        if lacking == "REMOTE_WRITE":
            psn = pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8))
        elif lacking == "REMOTE_READ":
            psn = pair.request("RDMA_READ_REQUEST", b"", pair.reth(8))
        else:
            psn = pair.request("FETCH_ADD", b"", pair.atomic(swap=1))
        tester.expect(pair.nak(psn, "INVALID_REQUEST"), clause="18.2-18")
        pair.memory(0, bytes(16), "18.2-18")
        pair.state("ERR", "18.2-24")


def each_operation(tester: VerbsTester, ask: Callable[[Pair, str], int], clause: str) -> None:
    """`ask` posts WRITE, READ and an atomic: each is refused, and nothing is written."""
    for operation in ("WRITE", "READ", "ATOMIC"):
        if operation == "ATOMIC" and not tester.profile.atomics:
            continue
        pair = Pair(tester)
        psn = ask(pair, operation)
        refused(pair, psn, "REMOTE_ACCESS", clause)
        pair.memory(0, bytes(512), clause)


def request(pair: Pair, operation: str, place: int, rkey: int, length: int = 16) -> int:
    """An operation at a place of the memory."""
    if operation == "WRITE":
        return pair.request("RDMA_WRITE_ONLY", DATA[:length], pair.reth(length, place=place, rkey=rkey))
    if operation == "READ":
        return pair.request("RDMA_READ_REQUEST", b"", pair.reth(length, place=place, rkey=rkey))
    return pair.request("FETCH_ADD", b"", pair.atomic(place=place, rkey=rkey, swap=1))


@verbs_script("18.2-20", "18.2-24")
def keys_that_there_are_not(tester: VerbsTester) -> None:
    """The key of the memory with one bit changed, 0, and one of another protection domain."""
    for change in (1, 1 << 7, 1 << 31):
        each_operation(tester, lambda pair, what, bit=change: request(pair, what, 0, pair.rkey ^ bit), "18.2-20")  # type: ignore[misc]
    each_operation(tester, lambda pair, operation: request(pair, operation, 0, 0), "18.2-20")


@verbs_script("18.2-21", "18.2-24")
def bytes_outside_the_region(tester: VerbsTester) -> None:
    """One before its beginning, one behind its end, all of it and one more, and around the end of all addresses."""

    def before(pair: Pair, operation: str) -> int:
        return request(pair, operation, 56, pair.region(64, 64, *REMOTE_RIGHTS))

    def behind(pair: Pair, operation: str) -> int:
        return request(pair, operation, 128 if operation == "ATOMIC" else 113, pair.region(64, 64, *REMOTE_RIGHTS))

    def longer(pair: Pair, operation: str) -> int:
        return request(pair, operation, 128 if operation == "ATOMIC" else 64, pair.region(64, 64, *REMOTE_RIGHTS), 65)

    def wrapped(pair: Pair, operation: str) -> int:
        return request(pair, operation, 2**64 - 8 - pair.address, pair.rkey)

    for ask in (before, behind, longer, wrapped):
        each_operation(tester, ask, "18.2-21")


@verbs_script("18.2-21", "18.2-22", "18.2-24")
def a_long_write_beyond_the_region(tester: VerbsTester) -> None:
    """The first packet is within the region, but the message is not: it is refused."""
    pair = Pair(tester)
    rkey = pair.region(0, 2 * MTU, *REMOTE_RIGHTS)
    psn = pair.request("RDMA_WRITE_FIRST", DATA[:MTU], pair.reth(2 * MTU + 1, rkey=rkey))
    seen = tester.everything(1)
    if seen and seen[0].fields.get("answer") == "ACK":  # a device may check each packet alone
        pair.request("RDMA_WRITE_MIDDLE", DATA[:MTU])
        tester.everything(1)
        psn = pair.request("RDMA_WRITE_LAST", DATA[:1])
        refused(pair, psn, "REMOTE_ACCESS", "18.2-21")
        pair.memory(2 * MTU, bytes(8), "18.2-21")
        return
    answers = [(packet.fields.get("answer"), packet.fields["psn"]) for packet in seen]
    assert answers == [("NAK_REMOTE_ACCESS", psn)], f"expected {pair.nak(psn, 'REMOTE_ACCESS')}\nseen     {seen}"
    pair.memory(0, bytes(2 * MTU + 8), "18.2-21")


@verbs_script("18.2-22", "18.2-24")
def operations_that_the_region_does_not_allow(tester: VerbsTester) -> None:
    """Each where the region allows the others."""

    def without(pair: Pair, operation: str) -> int:
        rights = [name for name in REMOTE_RIGHTS if name != f"REMOTE_{operation}"]
        return request(pair, operation, 64, pair.region(64, 64, *rights))

    each_operation(tester, without, "18.2-22")


@verbs_script("18.2-23", "18.2-24")
def a_receive_request_that_can_not_be_written(tester: VerbsTester) -> None:
    """Remote operational error; the request ends with a local protection error."""
    pair = Pair(tester)
    pair.receive(16, wr=6, writable=False)
    psn = pair.request("SEND_ONLY", DATA[:8])
    refused(pair, psn, "REMOTE_OPERATIONAL", "18.2-23")
    pair.done("LOC_PROT_ERR", wr=6, clause="18.2-23")


@verbs_script("18.2-25", "18.2-3")
def requests_before_a_refused_one(tester: VerbsTester) -> None:
    """They have been executed, and the NAK says so."""
    pair = Pair(tester)
    pair.receive(16, place=600, wr=1)
    pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8), ackreq=0)
    pair.request("SEND_ONLY_WITH_IMMEDIATE", DATA[:8], ImmDt(immdt=3), ackreq=0)
    psn = pair.request("RDMA_WRITE_ONLY", DATA[:8], pair.reth(8, rkey=0))
    pair.msn += 2
    seen = tester.everything(1)
    assert seen, "no NAK has come"
    wrong = pair.nak(psn, "REMOTE_ACCESS").differences(seen[-1])
    assert not wrong, f"expected {pair.nak(psn, 'REMOTE_ACCESS')}\nseen     {seen[-1]}\n         {'; '.join(wrong)}"
    pair.memory(0, DATA[:8], "18.2-25")
    pair.done(wr=1, byte_length=8, immediate=3)
