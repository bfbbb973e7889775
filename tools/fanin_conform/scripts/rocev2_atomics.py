"""Atomics at the responder: what is computed, what is answered, and what a repetition is answered with."""

from typing import Any

from fanin_conform.script import verbs_script
from fanin_conform.verbs.pair import Pair
from fanin_conform.verbs.tester import Expected, VerbsTester

START = 0x0102030405060708
MASK = (1 << 64) - 1


def with_word(tester: VerbsTester, value: int = START, **given: Any) -> Pair:
    """A queue pair with a number at the start of its memory."""
    tester.profile.require_atomics()
    pair = Pair(tester, **given)
    pair.store(0, value.to_bytes(8, "little"))
    return pair


def answer(pair: Pair, psn: int, original: int) -> Expected:
    return pair.expected("ATOMIC_ACKNOWLEDGE", psn, answer="ACK", original=original, msn=pair.msn)


def add(pair: Pair, value: int, psn: int | None = None) -> int:
    """A FETCH_ADD; its PSN."""
    used = pair.request("FETCH_ADD", b"", pair.atomic(swap=value, compare=0x1111), psn=psn)
    pair.msn += psn is None
    return used


def swap(pair: Pair, compare: int, value: int) -> int:
    """A COMPARE_SWAP; its PSN."""
    psn = pair.request("COMPARE_SWAP", b"", pair.atomic(swap=value, compare=compare))
    pair.msn += 1
    return psn


@verbs_script("18.2-11", "18.2-12", "18.2-3")
def fetch_and_add(tester: VerbsTester) -> None:
    """With carries through all bytes, and around 2^64."""
    pair, value = with_word(tester), START
    for operand in (1, 0xF8, MASK, 1 << 63, 1 << 63, 0):
        tester.expect(answer(pair, add(pair, operand), value), clause="18.2-12")
        value = value + operand & MASK
        pair.word(0, value, "18.2-11")
    pair.memory(8, bytes(8), "18.2-11")
    pair.ping("18.2-12")


@verbs_script("18.2-11", "18.2-12")
def compare_and_swap(tester: VerbsTester) -> None:
    """It swaps only equal values, and returns the old value in both cases."""
    pair, value = with_word(tester), START
    for compare, operand in ((START, 5), (START, 6), (5 | 1 << 63, 7), (5 | 1 << 32, 7), (5, MASK), (MASK, 0)):
        tester.expect(answer(pair, swap(pair, compare, operand), value), clause="18.2-12")
        value = operand if value == compare else value
        pair.word(0, value, "18.2-11")


@verbs_script("18.2-13", "18.2-11")
def a_repeated_atomic(tester: VerbsTester) -> None:
    """It gets the first answer again, and the memory stays."""
    pair = with_word(tester)
    first = add(pair, 7)
    tester.expect(answer(pair, first, START), clause="18.2-12")
    second = swap(pair, START + 7, 100)
    tester.expect(answer(pair, second, START + 7), clause="18.2-12")
    for _ in range(2):
        for psn, original in ((second, START + 7), (first, START)):
            name = "COMPARE_SWAP" if psn == second else "FETCH_ADD"
            operands = {"swap": 100, "compare": START + 7} if psn == second else {"swap": 7, "compare": 0x1111}
            pair.request(name, b"", pair.atomic(**operands), psn=psn)
            tester.expect(answer(pair, psn, original), clause="18.2-13")
            pair.word(0, 100, "18.2-13")
    third = add(pair, 1)
    tester.expect(answer(pair, third, 100), clause="18.2-13")
    pair.word(0, 101, "18.2-13")


@verbs_script("18.2-13", "18.2-1")
def an_atomic_that_came_twice_at_once(tester: VerbsTester) -> None:
    """The repetition arrives before the answer to the first one."""
    pair = with_word(tester)
    psn = add(pair, 3)
    add(pair, 3, psn)
    tester.expect(answer(pair, psn, START), answer(pair, psn, START), clause="18.2-13")
    pair.word(0, START + 3, "18.2-13")


@verbs_script("18.2-13", "18.2-7")
def as_many_repetitions_as_may_be_under_way(tester: VerbsTester) -> None:
    """Four atomics, the queue pair's limit, again in their order."""
    pair = with_word(tester, reads=4)
    psns = [add(pair, 1) for _ in range(4)]
    seen = [(packet.fields["psn"], packet.fields["original"]) for packet in tester.everything(4)]
    wanted = [(psn, START + number) for number, psn in enumerate(psns)]
    assert seen == wanted, f"the answers are {seen}, not {wanted}"
    for number, psn in enumerate(psns):
        add(pair, 1, psn)
        tester.expect(answer(pair, psn, START + number), clause="18.2-13")
    pair.word(0, START + 4, "18.2-13")


@verbs_script("18.2-19", "18.2-24")
def an_address_that_is_no_multiple_of_eight(tester: VerbsTester) -> None:
    """Invalid request, and the memory stays."""
    for place in (1, 2, 4, 7):
        pair = with_word(tester)
        psn = pair.request("FETCH_ADD", b"", pair.atomic(place=place, swap=1))
        tester.expect(pair.nak(psn, "INVALID_REQUEST"), clause="18.2-19")
        pair.word(0, START, "18.2-19")
        pair.state("ERR", "18.2-24")


@verbs_script("18.2-4", "18.2-11", "18.2-1")
def an_atomic_ahead(tester: VerbsTester) -> None:
    """It is not executed before the missing packet has come."""
    pair = with_word(tester)
    expected = pair.psn
    pair.request("FETCH_ADD", b"", pair.atomic(swap=5), psn=expected + 1)
    tester.expect(pair.nak(expected, "SEQUENCE"), clause="18.2-4")
    pair.word(0, START, "18.2-4")
    tester.expect(answer(pair, add(pair, 1), START), clause="18.2-12")
    tester.expect(answer(pair, add(pair, 5), START + 1), clause="18.2-12")
    pair.word(0, START + 6, "18.2-11")
