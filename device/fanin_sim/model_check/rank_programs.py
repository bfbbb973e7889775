"""The programs of a device's ranks in the model checker, and the checks of their completions and notices.

In each incarnation a rank joins, posts each message, and leaves when all are complete or the job has failed. If its
JOIN is refused because the previous incarnation still exists, it joins again.
"""

from collections.abc import Iterator

import numpy as np

from fanin_nic.engine.records.tables import JobState
from fanin_sim.fabric.device import Device, Packet
from fanin_sim.fabric.placement import scopes_of
from fanin_sim.jobs.job import LEAVE_TAG, Member
from fanin_sim.model_check.instances import World
from fanin_wire import abi

# The progress of a rank. incarnation: of the job; a rank of the last incarnation + 1 has gone. step, completed: steps
# and completions in this incarnation; step 0 is the JOIN. failed: the status of the failure. lost: bitmap of vertices
# that were reported as lost. after_restart: the process was started after a restart of its device.
PROGRESS = np.dtype([(name, "u1") for name in ("incarnation", "step", "completed", "failed", "lost", "after_restart")])


class Violation(AssertionError):
    """A violation of an invariant; the message says which."""


class RankPrograms:
    """The ranks of one device. `progress` is part of the device's state."""

    def __init__(self, world: World, device: Device) -> None:
        self.world, self.device, self.job = world, device, world.job
        self.members = [member for member in world.job.members if world.job.device(member) is device]
        self.node = self.members[0].node if self.members else 0
        self.progress = np.zeros(len(self.members), PROGRESS)
        self.messages = len(world.instance.messages)
        self.scopes = scopes_of(world.job.placement, self.node) if self.members else []

    # Steps

    def advance(self, index: int, now: int) -> list[Packet]:
        """A rank takes its next step. Returns the packets sent."""
        member, progress = self.members[index], self.progress[index]
        step = int(progress["step"])
        progress["step"] += 1
        if step == 0:
            self.job.join_rank(member, key=self.job.key + int(progress["incarnation"]))
        elif step <= self.messages and not progress["failed"]:
            self.job.post(member, self.world.requests[member][self._number_of_message(progress, step - 1)])
        else:
            self._begin(index, int(progress["incarnation"]) + 1)
            self.device.engine.leave(self.job.queue(member), LEAVE_TAG, now)
        return self.device.perform()

    def give_up(self, index: int, now: int) -> list[Packet]:
        """A rank stops waiting for the answer to its JOIN, and leaves. Returns the packets sent."""
        self._begin(index, int(self.progress[index]["incarnation"]) + 1)
        self.device.engine.leave(self.job.queue(self.members[index]), LEAVE_TAG, now)
        return self.device.perform()

    def die(self, index: int, now: int) -> list[Packet]:
        """The process of a rank dies. Returns the packets sent."""
        self._begin(index, self.world.instance.incarnations)
        self.device.engine.lose(self.job.queue(self.members[index]), now)
        return self.device.perform()

    def remove_ranks(self) -> None:
        """Removes all ranks, because their device has crashed."""
        for index in range(len(self.members)):
            self._begin(index, self.world.instance.incarnations)

    def restart_ranks(self, incarnation: int) -> None:
        """Starts new processes in place of the ranks, in the incarnation in which they were."""
        for index in range(len(self.members)):
            self.progress[index]["after_restart"] = 1
            self._begin(index, incarnation)

    def _begin(self, index: int, incarnation: int) -> None:
        self.progress[index] = (incarnation, 0, 0, 0, 0, self.progress[index]["after_restart"])

    def _number_of_message(self, progress: np.void, place: int) -> int:
        return int(progress["incarnation"]) * self.messages + place

    # Possible steps

    def may_advance(self, index: int) -> bool:
        incarnation, step, completed, failed = (int(value) for value in list(self.progress[index])[:4])
        if self.has_gone(index):
            return False
        if step == 0:  # the device must have forgotten the previous incarnation
            return not incarnation or self.device.engine.tables["jobs"][0]["state"] == JobState.FREE
        if failed:
            return completed == step - 1
        joined = self._queue(index)["joined"]
        return bool(joined) if step <= self.messages else completed == self.messages

    def has_gone(self, index: int) -> bool:
        return bool(self.progress[index]["incarnation"] == self.world.instance.incarnations)

    def may_die(self, index: int) -> bool:
        """Whether the death of a rank would have an effect."""
        return self.progress[index]["step"] > 0 and not self.has_gone(index)

    def waiting(self) -> Iterator[tuple[int, int]]:
        """(index, incarnation) of each rank whose JOIN is not answered."""
        for index in range(len(self.members)):
            queue = self._queue(index)
            if self.progress[index]["step"] == 1 and queue["job"] and not queue["joined"]:
                yield index, int(self.progress[index]["incarnation"])

    def _queue(self, index: int) -> np.void:
        return self.device.engine.tables["queues"][self.job.queue(self.members[index])]

    # Checks

    def collect(self) -> None:
        """Checks all notices, completions and results that the device has produced."""
        for notice in self.device.notices:
            self._check_notice(notice)
        for completion in self.device.completions:
            self._check_completion(completion)
        self.device.notices.clear()
        self.device.completions.clear()
        for member in self.members:
            self._check_results(member)

    def _check_results(self, member: Member) -> None:
        for result, reference in zip(self.world.results[member], self.world.references[member], strict=True):
            if not ((result == 0) | (result == reference)).all():
                raise Violation(f"a wrong result: {result.tolist()} instead of {reference.tolist()}")

    def _index_of(self, queue: int) -> int:
        return next(index for index, member in enumerate(self.members) if self.job.queue(member) == queue)

    def _check_notice(self, notice: np.void) -> None:
        status = int(notice["status"])
        if status and status not in self.world.instance.failures:
            raise Violation(f"a rank is told {abi.Status(status).name}")
        progress = self.progress[self._index_of(notice["queue"])]
        if status and progress["step"]:
            progress["failed"] = status
            self._record_loss(progress, notice)

    def _check_completion(self, completion: np.void) -> None:
        index = self._index_of(completion["queue"])
        if self.has_gone(index):  # the rank has left
            return
        member, progress, status = self.members[index], self.progress[index], int(completion["status"])
        number = self._number_of_message(progress, int(progress["completed"]))
        progress["completed"] += 1
        instance = self.world.instance
        if status and status not in (instance.failures if progress["after_restart"] else instance.failures_of_requests):
            raise Violation(f"a completion with {abi.Status(status).name}")
        if completion["wr_id"] != number:
            raise Violation(f"completion {number} is of request {completion['wr_id']}")
        if status:
            progress["failed"] = status
            self._record_loss(progress, completion)
        elif (self.world.results[member][number] != self.world.references[member][number]).any():
            raise Violation(f"request {number} is complete without its result")

    def _record_loss(self, progress: np.void, report: np.void) -> None:
        """Records the devices that a PEER_LOST reports to a rank: also one all of whose children are reported."""
        if report["status"] != abi.Status.PEER_LOST or not self.world.instance.crashes or progress["after_restart"]:
            return
        kind, bitmap = int(report["missing_kind"]), int(report["missing"])
        if not bitmap:
            raise Violation("PEER_LOST reports no member")
        if kind == 0:
            progress["lost"] |= 1 << self.node
        elif kind <= len(self.scopes):
            progress["lost"] |= self._vertices(kind, bitmap)
        else:
            raise Violation(f"PEER_LOST reports {bitmap:#b} of scope {kind}, which does not exist")

    def _vertices(self, kind: int, bitmap: int) -> int:
        scope = self.scopes[kind - 1]
        if bitmap == (1 << len(scope.children)) - 1 and scope.parent >= 0:
            return 1 << scope.parent
        named = (child for bit, child in enumerate(scope.children) if bitmap >> bit & 1)
        return sum(1 << vertex for vertex in frozenset().union(*named))
