"""A training that goes on when nodes fail: a few lines around a loop.

    with fanin.Communicator() as pool:
        training = Training(pool, workers=4, state={"model": model, "optimizer": optimizer, "random": random})
        training.run(step, steps=1000)

All processes are ranks of one job, the pool. The first `workers` of them train in their own job, the group; the others
are spares. After a loss the survivors agree on the members (shrink), exchange their progress, choose a spare by the
same rule from the same records, and form a new group, where the spare has the lost position. A member that completed
the last step sends the state to those that did not.
Record 0098 (docs/decisions) says why a pool, and why the end takes two agreements.
"""

import contextlib
import copy
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from fanin import Communicator
from fanin.errors import Aborted, FaninError, PeerLost, Timeout
from fanin_train import transfer
from fanin_train.errors import TrainingError
from fanin_train.packing import WrongState, unpack
from fanin_train.replacement.choice import Choice, Options, RingLost, neighbours_of, replace_all
from fanin_train.replacement.measurement import measure
from fanin_train.replacement.records import Bandwidths, Monitor, Node, Task, pairs_after_failure

ROW_BYTES = 4096
LOST = (PeerLost, Timeout, Aborted)
TASK = "task"
KEPT_TIMES = 16  # steps whose times are remembered
SPARE_PATIENCE = 86400.0  # s that a spare waits for the workers after another spare was lost
REVOKE = 0.5  # s for telling the spares, whose pool has lost no process, to agree anew
FINISHED, AGREE_ANEW = 1, 2


# What the processes exchange when they agree


class RowTooLong(TrainingError):
    """Names or rings that exceed a row."""

    def __init__(self, length: int) -> None:
        super().__init__(
            f"ROW_TOO_LONG: a row has {length} bytes, and room for {ROW_BYTES}", "use shorter names, or fewer workers"
        )


class Row(msgspec.Struct, frozen=True):
    """A process.

    member: its number, fixed: its rank in the first pool
    kind, peak: type of its node, and FLOP/s
    epoch, ring: number of changes of the ring, as far as it knows, and the ring: members by position
    done: steps that it has completed; -1: it has no state yet
    finished: whether it has heard that all steps of all workers are done
    step_times, compute_times: seconds of its last steps, and of them without communication
    """

    member: int
    kind: str
    peak: float
    epoch: int
    ring: tuple[int, ...]
    done: int = -1
    finished: bool = False
    step_times: tuple[float, ...] = ()
    compute_times: tuple[float, ...] = ()


def exchange(pool: Communicator, row: Row, timeout: float) -> list[Row]:
    """The rows of all, by their rank in `pool`."""
    text = msgspec.json.encode(row)
    if len(text) > ROW_BYTES:
        raise RowTooLong(len(text))
    rows = pool.allgather(np.frombuffer(text.ljust(ROW_BYTES), np.uint8), timeout=timeout)
    return [msgspec.json.decode(each.tobytes(), type=Row) for each in rows]


# The state of a training


class State:
    """Parts by name: model, optimiser, random numbers, the place in the data.

    steady: names of parts that a step changes only after its last collective, as an optimiser does. The others are
    copied before each step, so that a step that fails half-way can be repeated; a large model should be steady.
    """

    def __init__(self, parts: Mapping[str, Any], steady: Iterable[str] = ()) -> None:
        self.parts, self.steady = dict(parts), frozenset(steady)
        if unknown := self.steady - self.parts.keys():
            raise WrongState(f"no part is named {', '.join(sorted(unknown))}")
        for name, part in self.parts.items():
            if not isinstance(part, np.ndarray | np.random.Generator) and not (
                hasattr(part, "state_dict") and hasattr(part, "load_state_dict")
            ):
                raise WrongState(f"part {name} is a {type(part).__name__}, without state_dict and load_state_dict")

    def copies(self) -> dict[str, Any]:
        """Copies for the case that the step fails."""
        return {name: copy.deepcopy(_content_of(part)) for name, part in self.parts.items() if name not in self.steady}

    def put_back(self, contents: Mapping[str, Any]) -> None:
        for name, content in contents.items():
            _restore(self.parts[name], content)

    def send(self, group: Communicator, timeout: float) -> None:
        """Send all parts to the others, which receive them from this rank."""
        transfer.send(group, {name: _content_of(part) for name, part in self.parts.items()}, timeout)

    def receive(self, group: Communicator, root: int, timeout: float, load: bool = True) -> None:
        """Receive the parts of `root`. load: False if this rank has them already, to drop them."""
        blocks = transfer.receive(group, root, timeout)
        if load:
            self.put_back(unpack(blocks))


def _content_of(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        return part
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    return part.state_dict()


def _restore(part: Any, content: Any) -> None:
    if isinstance(part, np.ndarray):
        part[...] = content
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = content
    else:
        part.load_state_dict(content)


# The training


class Fenced(TrainingError):
    """The others have lost this process and go on without it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"FENCED: {why}", "end this process; start it again as a spare")


class NoReplacement(TrainingError):
    """A position without a spare, under a policy that demands one."""

    def __init__(self, member: int) -> None:
        super().__init__(
            f"NO_REPLACEMENT: no spare can take the place of member {member}",
            'start more spares, or use Options(without_candidate="rebuild")',
        )


class WrongWorkers(TrainingError):
    """A number of workers that exceeds the pool."""

    def __init__(self, workers: int, size: int) -> None:
        super().__init__(f"WRONG_WORKERS: {workers} workers in a pool of {size}", f"use 1 to {size}")


@dataclass(frozen=True)
class Work:
    """Data for the choice of a replacement.

    kind, peak: type of this process's node, and FLOP/s, from its manual
    parameters, element_bytes, flop: of the model, and of an iteration on a node (Task)
    """

    kind: str = "node"
    peak: float = 1.0
    parameters: int = 0
    element_bytes: int = 4
    flop: float = 0.0


@dataclass(frozen=True)
class Recovery:
    """A handled failure: lost members, the choices, the step that is repeated, and the seconds it took."""

    lost: tuple[int, ...]
    choices: tuple[Choice, ...]
    step: int
    seconds: float


@dataclass
class Training:
    """The place of this process in a training.

    pool: all processes; its creator closes it. After a failure `self.pool` is another one
    workers: how many of its ranks train; the others are spares
    state: what a spare needs to go on: objects with state_dict and load_state_dict, arrays, generators of numpy
    steady: names of parts that a step changes only after its last collective (State)
    work, options: data and rules of the choice
    measured: bytes of a measurement of bandwidth before the first step, when the network is idle, and of the pairs of
        candidates after a failure; 0: none, and all links count as equal
    patience: seconds that a member may take to answer while all agree; then it is lost
    """

    pool: Communicator
    workers: int
    state: Mapping[str, Any]
    steady: Iterable[str] = ()
    work: Work = field(default_factory=Work)
    options: Options = field(default_factory=Options)
    measured: int = 0
    patience: float = 10.0
    recoveries: list[Recovery] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= self.pool.size:
            raise WrongWorkers(self.workers, self.pool.size)
        self.member = self.pool.rank
        self.done = -1  # steps completed; a spare has none
        self._is_finished = False  # all have agreed that all steps of all workers are done
        self._state = State(self.state, self.steady)
        self._epoch, self._ring = 0, tuple(range(self.workers))
        self._members = list(range(self.pool.size))  # by rank in the pool
        self._own: list[Communicator] = []  # for this object to close
        self._bandwidths = Bandwidths()
        self._step_times: list[float] = []
        self._compute_times: list[float] = []
        self.group: Communicator | None = None
        if self.is_worker:
            self.done = 0

    @property
    def is_worker(self) -> bool:
        """Whether this process trains now."""
        return self.member in self._ring

    @property
    def position(self) -> int:
        """Its rank in the group, the ring of workers. A spare takes the lost position."""
        return self._ring.index(self.member)

    def run(self, step: Callable[[Communicator, int], object], steps: int) -> None:
        """Call step(group, number) for each step that is not done. Returns on all processes when all steps are.

        The step communicates by `group` only, with time-outs if a process that stands still shall be replaced. An
        interrupted step is called again, with the state from before.
        Raises Fenced, NoReplacement, RingLost; DeviceLost if the NIC of this process is gone.
        """
        self._is_finished = False
        has_ended = False
        try:
            self._go_on_to_the_end(step, steps)
            has_ended = True
        except Fenced:
            has_ended = self._is_finished  # then the others have heard so, too, and have ended
            if not has_ended:
                raise
        finally:
            self._leave(has_ended)

    def _go_on_to_the_end(self, step: Callable[[Communicator, int], object], steps: int) -> None:
        is_begun = False
        while not self._is_finished:
            failure: BaseException | None = None
            try:
                if not is_begun:
                    self._measure_all()
                    self._regroup(self.pool, self._members)
                    is_begun = True
                if self._work_on(step, steps):
                    return
            except LOST as error:
                is_begun, failure = True, error
            self._recover(failure)

    # ---- Steps ----

    def _work_on(self, step: Callable[[Communicator, int], object], steps: int) -> bool:
        """Do steps, or wait as a spare. Returns whether all is done, and all know it."""
        while self.group is not None and self.done < steps:
            copies = self._state.copies()
            begin = time.perf_counter()
            try:
                step(self.group, self.done)
            except LOST:
                self._state.put_back(copies)
                raise
            self.done += 1
            self._step_times = [*self._step_times[1 - KEPT_TIMES :], time.perf_counter() - begin]
        return self._end()

    def _end(self) -> bool:
        self._is_finished = self._say(0 if self.group is None else FINISHED) == FINISHED
        if self._is_finished:
            self._stay_until_all_have_heard()
        return self._is_finished

    def _stay_until_all_have_heard(self) -> None:
        """Else the last ones could take the departure of the others for a failure."""
        self._say(FINISHED, self.patience)

    def note_compute_time(self, seconds: float) -> None:
        """Note the seconds of a step without communication, for the choice of a replacement."""
        self._compute_times = [*self._compute_times[1 - KEPT_TIMES :], seconds]

    def _say(self, word: int, timeout: float | None = None) -> int:
        """The greatest word of all processes; a spare waits in this call."""
        return int(self.pool.allreduce(np.array([word]), op="max", timeout=timeout)[0])

    # ---- After a failure ----

    def _recover(self, error: BaseException | None) -> None:
        """Agree, until no further failure interrupts it."""
        begin = time.perf_counter()
        if self.group is not None:
            self.group.abort()
            self.group = None
            with contextlib.suppress(*LOST):
                self._say(AGREE_ANEW, REVOKE)
        before, patience = self._members, self._patience_after(error)
        while True:
            pool = self._shrink(patience)
            patience = self.patience
            try:
                self._agree(pool, before, begin)
                return
            except LOST:
                continue

    def _patience_after(self, error: BaseException | None) -> float:
        """How long to wait: if only spares are lost, a spare waits for the workers to notice, at the end at once."""
        if self._is_finished:
            return self.patience
        named = {self._members[rank] for rank in getattr(error, "missing_ranks", ())}
        is_of_spares = isinstance(error, PeerLost) and named and not named & set(self._ring)
        return SPARE_PATIENCE if is_of_spares and not self.is_worker else self.patience

    def _shrink(self, patience: float) -> Communicator:
        """The survivors as a pool; closes the old one. Fenced if they have gone on without this process."""
        attempts = 0
        while True:
            try:
                left = self.pool.shrink(patience)
                break
            except LOST as error:
                attempts += 1
                if attempts > len(self._members):
                    raise Fenced(f"no agreement with the others: {error}") from error
        if self.pool in self._own:
            self.pool.abort()
            self._own.remove(self.pool)
        self._own.append(left)
        self.pool = left
        return left

    def _agree(self, pool: Communicator, before: list[int], begin: float) -> None:
        """The same ring, group and step on all."""
        rows = exchange(pool, self._row(), self.patience)
        self._members = [row.member for row in rows]
        self._is_finished = any(row.finished for row in rows)
        if self._is_finished:
            self._stay_until_all_have_heard()  # only some may have the rows
            return
        self._require_quorum(before)
        newest = max(rows, key=lambda row: row.epoch)
        lost = tuple(member for member in newest.ring if member not in self._members)
        choices = self._choose(pool, rows, newest.ring, lost)
        ring = newest.ring
        for choice in choices:
            taken = () if choice.replacement is None else (int(choice.replacement),)
            at = ring.index(int(choice.failed))
            ring = (*ring[:at], *taken, *ring[at + 1 :])
        self._epoch, self._ring = newest.epoch + bool(choices), ring
        self._regroup(pool, self._members)
        last = self._level(rows)
        gone = tuple(member for member in before if member not in self._members)
        self.recoveries.append(Recovery(gone, tuple(choices), last, time.perf_counter() - begin))

    def _require_quorum(self, before: list[int]) -> None:
        """Only one part of a divided network may go on: that with more members, or with the lowest of two halves."""
        twice = 2 * len(self._members)
        if twice < len(before) or (twice == len(before) and min(before) not in self._members):
            raise Fenced(f"only {len(self._members)} of {len(before)} members can reach each other")

    def _row(self) -> Row:
        times = tuple(self._step_times), tuple(self._compute_times)
        place = self._epoch, self._ring, self.done, self._is_finished
        return Row(self.member, self.work.kind, self.work.peak, *place, *times)

    def _regroup(self, pool: Communicator, members: list[int]) -> None:
        """Form the group of the ring."""
        if self.group is not None:
            self.group.abort()
            self.group = None
        color, key = (0, self.position) if self.is_worker else (None, None)
        self.group = pool.split(color, key, self.patience)

    def _level(self, rows: list[Row]) -> int:
        """Give all workers the state after the last step that anybody has completed. Returns that step."""
        done = {row.member: row.done for row in rows}
        last = max(done[member] for member in self._ring)
        if last < 0:
            raise RingLost(TASK)
        if self.group is None:
            self.done = -1
            return last
        if all(done[member] == last for member in self._ring):
            return last
        source = next(place for place, member in enumerate(self._ring) if done[member] == last)
        if source == self.position:
            self._state.send(self.group, self.patience)
        else:
            self._state.receive(self.group, source, self.patience, load=self.done != last)
        self.done = last
        self.group.barrier(timeout=self.patience)
        return last

    # ---- The choice ----

    def _measure_all(self) -> None:
        if self.measured:
            names = [str(member) for member in self._members]
            pairs = [(one, other) for one in names for other in names if one != other]
            self._bandwidths = measure(self.pool, self._ranks(), pairs, self.measured, self.patience)

    def _ranks(self) -> dict[str, int]:
        return {str(member): rank for rank, member in enumerate(self._members)}

    def _choose(
        self, pool: Communicator, rows: list[Row], ring: tuple[int, ...], lost: tuple[int, ...]
    ) -> list[Choice]:
        """The choices, equal on all: they follow from the rows and from shared measurements."""
        if not lost:
            return []
        monitor = self._monitor(rows, ring, lost)
        self._measure_anew(pool, monitor, lost)
        choices = replace_all(monitor, self._bandwidths, map(str, lost), self.options)
        if self.options.without_candidate == "null":
            for choice in choices:
                if choice.replacement is None:
                    raise NoReplacement(int(choice.failed))
        return choices

    def _monitor(self, rows: list[Row], ring: tuple[int, ...], lost: tuple[int, ...]) -> Monitor:
        """The records of document 004, with members as addresses."""
        monitor = Monitor()
        for row in rows:
            kept = row.step_times or ((float("inf"),) if row.member in ring else ())
            monitor.add_node(Node(str(row.member), row.kind, row.peak, step_times=kept))
        for member in lost:
            monitor.add_node(Node(str(member), "lost", 1.0, alive=False))
        work = self.work
        monitor.add_task(Task(TASK, tuple(map(str, ring)), work.parameters, work.flop, work.element_bytes))
        for row in rows:
            for seconds in row.compute_times:
                monitor.note_compute_time(TASK, row.kind, seconds)
        return monitor

    def _measure_anew(self, pool: Communicator, monitor: Monitor, lost: tuple[int, ...]) -> None:
        """Measure the pairs that the choice looks at. A single candidate needs none."""
        candidates = [node.address for node in monitor.candidates()]
        for member in lost:
            previous, following = neighbours_of(monitor, TASK, str(member))
            pairs = pairs_after_failure(previous, following, candidates)
            if self.measured and len(candidates) > 1:
                anew = measure(pool, self._ranks(), pairs, self.measured, self.patience)
                self._bandwidths.of_pairs.update(anew.of_pairs)
        members = [*candidates, *monitor.task(TASK).ring]
        for sender in members:
            for receiver in members:
                self._bandwidths.of_pairs.setdefault((sender, receiver), float("inf"))

    def _leave(self, has_ended: bool) -> None:
        """Close the pools and the group that were made here, but not the program's `pool`. Without `has_ended`, the
        others shall miss this process."""
        for made in (*([self.group] if self.group is not None else []), *self._own):
            if has_ended:
                with contextlib.suppress(FaninError):  # all steps are done: failures no longer matter
                    made.flush(self.patience)
            made.end(leave=has_ended)
        self.group = None
        self._own.clear()
