"""Random, legal conversations: a device and the switch in plain Python hear the same and must answer the same.

A conversation is a list of steps. A step that would not be legal in the state of the children is left out, so any part
of a conversation is one, too: a difference is shrunk by leaving steps out.
"""

import random
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fanin_conform.datagram import Dissected
from fanin_conform.job import ALL, DATA, NONE, ONE, WANTS, Job
from fanin_conform.listener import Mismatch
from fanin_conform.profile import EVERYTHING, Profile
from fanin_conform.targets.target import Target
from fanin_conform.tester import Tester
from fanin_wire.abi import Op, Status
from fanin_wire.datatypes import DATATYPES
from fanin_wire.fields import WAIT_BODY, Opcode
from fanin_wire.operations import OPERATIONS

LEASES, CHILDREN, MAX_UNITS = (4, 8), (1, 2, 3), 64  # slots, children of a job, bytes of a segment in units of 16
KINDS = {"contribute": 12, "again": 3, "probe": 5, "query": 1, "poison": 1}  # how often
SHRINK_S = 30.0
Answers = dict[int, list[Dissected | Mismatch]]  # by number of the address; the comparable part of packets


class Step(NamedTuple):
    """bit: of the child. back: positions before its next one, to repeat something."""

    kind: str
    bit: int
    back: int

    def __str__(self) -> str:
        return f"{self.kind} {self.bit}" + (f" {self.back}" if self.kind in ("again", "probe") else "")


class Conversation(NamedTuple):
    """seed: of jid, key, operations and data. flags: of CONFIG."""

    seed: int
    children: int
    slots: int
    flags: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        head = f"seed {self.seed}: {self.children} children, {self.slots} slots, flags {self.flags}"
        return ", ".join([head, *map(str, self.steps)])


class Difference(NamedTuple):
    """The packets of a conversation up to the first step with different answers, and these."""

    conversation: Conversation
    log: tuple[str, ...]
    seen: Answers
    expected: Answers

    def __str__(self) -> str:
        said = [*_said("the device", self.seen), *_said("the reference", self.expected)]
        return "\n".join([str(self.conversation), *self.log, *said])


def _said(who: str, answers: Answers) -> list[str]:
    said = [f"{who} to address {number}: {packet}" for number, packets in answers.items() for packet in packets]
    return said or [f"{who}: nothing"]


def draw(seed: int, profile: Profile = EVERYTHING, steps: int = 120) -> Conversation:
    numbers = random.Random(seed)
    children = numbers.choice(CHILDREN)
    flags = numbers.choice([0, 0, *[1] * profile.wide, *[2] * profile.reproducible])
    kinds = numbers.choices(list(KINDS), list(KINDS.values()), k=steps)
    drawn = tuple(Step(kind, numbers.randrange(children), numbers.randrange(4)) for kind in kinds)
    ends = tuple(Step("leave", bit, 0) for bit in range(children))
    return Conversation(seed, children, numbers.choice(LEASES), flags, drawn + ends)


class _Player:
    """The children of a conversation at one device."""

    def __init__(self, target: Target, conversation: Conversation, profile: Profile) -> None:
        self.tester = Tester(target, conversation.seed, profile)
        self.tester.join_fence()
        size = conversation.children
        self.job = Job(self.tester, size, slots=conversation.slots, join=False)
        self.answers: Answers = {}
        for bit in range(size):
            self.job.config(bit, flags=conversation.flags)
        self.collect()
        for bit in range(size):
            self.job.probe(bit, 0)  # after a NEED, a proof of loss, each PROBE of a stored result gets a RESULT
        self.collect()

    @property
    def said(self) -> int:
        """The number of packets in the last collection."""
        return sum(len(each) for each in self.answers.values())

    def collect(self, wanted: int = 0) -> None:
        """Collect the device's packets by address, and wait for so many."""
        self.answers = {}
        for address, packet in self.tester.everything(wanted):
            own = self.answers.setdefault(self.tester.addresses.index(address), [])
            payload = packet.payload[WAIT_BODY.size :] if packet.opcode == Opcode.WAIT else packet.payload
            own.append(packet._replace(bth={}, payload=payload))


class Play:
    """Both devices, and the children's past and results. W is N / 2."""

    def __init__(self, target: Target, reference: Target, conversation: Conversation, profile: Profile) -> None:
        self.conversation, self.profile = conversation, profile
        self.reference = _Player(reference, conversation, profile)
        self.device = _Player(target, conversation, profile)
        self.players = (self.device, self.reference)
        self.sent = [0] * conversation.children
        self.poisoned: set[tuple[int, int]] = set()
        self.left: set[int] = set()

    def take(self, step: Step) -> bool:
        """Take a step. Returns whether both devices have answered the same."""
        position = self.sent[step.bit]
        if step.bit not in self.left and self._is_legal(step, position):
            for player in self.players:
                self._do(player.job, step, position)
            if step.kind in ("contribute", "poison"):
                self.sent[step.bit] += 1
            if step.kind == "leave":
                self.left.add(step.bit)
            self.reference.collect()
            self.device.collect(self.reference.said)
        return self.device.answers == self.reference.answers

    def _is_legal(self, step: Step, position: int) -> bool:
        """A child sends p only if it holds the result of p - W, and leaves only with all results."""
        done = min(self.sent)
        if step.kind in ("contribute", "poison"):
            return not self.left and position - self.conversation.slots // 2 < done
        if step.kind == "again":
            return position - 1 - step.back >= 0 and position - 1 - step.back >= done - self.conversation.slots // 2
        if step.kind == "probe":
            return position - step.back >= max(0, done - self.conversation.slots // 2) and not self.left
        return step.kind == "query" or done == max(self.sent)

    def _do(self, job: Job, step: Step, position: int) -> None:
        if step.kind == "query":
            job.send(Opcode.QUERY, step.bit, token=5)
        elif step.kind == "leave":
            job.send(Opcode.LEAVE, step.bit)
        elif step.kind == "probe":
            job.probe(step.bit, position - step.back, **self._names(position - step.back))
        else:
            if step.kind == "poison":
                self.poisoned.add((position, step.bit))
            self._contribute(job, step.bit, position - 1 - step.back if step.kind == "again" else position)

    def _drawn(self, position: int) -> random.Random:
        return random.Random(self.conversation.seed * 2**32 + position)

    def _names(self, position: int) -> dict[str, Any]:
        return {"mid": self._drawn(position).getrandbits(32), "sid": position}

    def _contribute(self, job: Job, bit: int, position: int) -> None:
        names, numbers = self._names(position), self._drawn(position)
        numbers.getrandbits(32)
        pairs = [(op, each) for op in OPERATIONS for each in DATATYPES if op.takes(each) and self.profile.has(op, each)]
        operation, datatype = numbers.choice(pairs)
        kind = numbers.choice([ALL, ALL, ALL, ONE, NONE])
        root, length = numbers.randrange(self.conversation.children), 16 * numbers.randrange(1, MAX_UNITS)
        wants = WANTS if random.Random(position * 64 + bit).random() < 0.8 else 0
        names |= {"op": int(operation.code), "dtype": int(datatype.code), "flags": kind | wants}
        if kind != ALL:
            names["op"] = int(Op.NONE)
        brings = kind == ALL or (kind == ONE and bit == root)
        if (position, bit) in self.poisoned:
            job.contribute(bit, position, None, **names, status=int(Status.LOCAL_PROTECTION_ERROR))
        elif brings:
            data = np.random.default_rng([self.conversation.seed, position, bit])
            if kind == ALL and operation.widens(datatype) and self.conversation.flags & 1:
                names["flags"] |= 4
            names["flags"] |= DATA
            names["contributions"] = 1 + bit
            job.contribute(bit, position, data.integers(0, 256, length, np.uint8).tobytes(), **names)
        else:
            job.contribute(bit, position, None, **names)

    def close(self) -> None:
        for player in self.players:
            player.tester.close()


def play(target: Target, reference: Target, talk: Conversation, profile: Profile = EVERYTHING) -> Difference | None:
    """Have a conversation with both. Returns the first difference."""
    both = Play(target, reference, talk, profile)
    try:
        for count, step in enumerate(talk.steps):
            try:
                same = both.take(step)
            except Mismatch as wrong:
                both.device.answers, same = {0: [wrong]}, False
            if not same:
                told = talk._replace(steps=talk.steps[: count + 1])
                return Difference(told, tuple(both.device.tester.log), both.device.answers, both.reference.answers)
        return None
    finally:
        both.close()


def shrunk(found: Difference, again: Callable[[Conversation], Difference | None]) -> Difference:
    """Leave steps out of a difference, ever fewer at once, while it stays and time is left."""
    size, end = len(found.conversation.steps) // 2, time.monotonic() + SHRINK_S
    while size:
        start = 0
        while start < len(found.conversation.steps) and time.monotonic() < end:
            steps = found.conversation.steps
            tried = again(found.conversation._replace(steps=steps[:start] + steps[start + size :]))
            if tried:
                found = tried
            else:
                start += size
        size //= 2
    return found


def search(target: Target, reference: Target, seeds: Iterable[int], profile: Profile = EVERYTHING) -> Difference | None:
    """Have the conversations of some seeds. Returns the first difference, shrunk."""
    for seed in seeds:
        if found := play(target, reference, draw(seed, profile), profile):
            return shrunk(found, lambda shorter: play(target, reference, shorter, profile))
    return None
