"""What comes with time where nothing else can apply_event any more: jobs age_job, neighbours are missed, some give up.

Time itself stands still in an exploration, so these are events, each possible as soon as nothing speaks against it.
"""

from __future__ import annotations

from fanin_nic.engine.tables import JobState
from fanin_sim.fabric.neighbours import neighbours
from fanin_sim.fabric.placement import Placement
from fanin_sim.model_check.device_model import AGEING, SILENCE, UNANSWERED, DeviceModel, DeviceSummary
from fanin_sim.model_check.instances import Instance

FREE, JOINING, CONFIGURING = JobState.FREE, JobState.JOINING, JobState.CONFIGURING
ACTIVE, LEAVING, ABORTED = JobState.ACTIVE, JobState.LEAVING, JobState.ABORTED


class Timeouts:
    """Finds such events in the summaries of all devices."""

    def __init__(self, instance: Instance, models: list[DeviceModel], placement: Placement) -> None:
        found = neighbours(placement)
        self._instance, self._models = instance, models
        self._neighbours = [found.get(number, {}) for number in range(len(models))]

    def events(self, seen: list[DeviceSummary], *, quiet: bool) -> list[tuple[int, int]]:
        """(device, event) of all that can come. quiet: no packet is on its path."""
        late = [*self._ageing_jobs(seen), *self._silent_neighbours(seen), *self._unanswered(seen)] if quiet else []
        return [*late, *self._join_timeouts(seen)]

    def _ageing_jobs(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """Jobs may age_job where nobody speaks for their incarnation any more: on switches, on NICs that wait for others to
        leave, and as tombstones that have nothing more to say. Where requests must end with PEER_LOST, no rank is so
        slow that the tombstone has aged before it looks."""
        if not self._instance.ages:
            return []
        speakers = [n for n, model in enumerate(self._models) if model.is_nic and seen[n].job[0] != FREE]
        aged = []
        for number, (model, one) in enumerate(zip(self._models, seen, strict=True)):
            state, key = one.job
            spoken = any(seen[n].job[1] == key for n in speakers if n != number)
            waits = state == LEAVING if model.is_nic else state not in (FREE, ABORTED)
            is_looking = bool(self._instance.crashes and one.ready)
            if (state == ABORTED or (waits and not spoken)) and not one.leaving and not is_looking:
                aged.append((number, AGEING))
        return aged

    def _silent_neighbours(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """Neighbours that are gone are silent; and those that have gone on to another incarnation, or were restarted,
        have nothing to say to a device where the job runs: a late CONFIG can form one. The packets of those that live
        are not timed here, so they are never silent."""
        if not self._instance.may_fall_silent:
            return []
        silent = []
        for number, one in enumerate(seen):
            gone = 0
            for bit, other in self._neighbours[number].items():
                forgot = one.job[0] == ACTIVE and has_forgotten(seen[other], one.job[1])
                gone |= (seen[other].is_gone or forgot) << bit
            if gone & one.heard:
                silent.append((number, SILENCE - (gone & one.heard)))
        return silent

    def _unanswered(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """Devices whose LEAVE reaches nobody: those that should answer are gone."""
        given_up = []
        for number, one in enumerate(seen):
            gone = (bit for bit, other in self._neighbours[number].items() if seen[other].is_gone)
            if one.leaving and not one.leaving & ~sum(1 << bit for bit in gone):
                given_up.append((number, UNANSWERED))
        return given_up

    def _join_timeouts(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """Ranks may give up waiting to join: others are dead or further. Ranks agree on incarnations among themselves,
        and their host does not wait for ever."""
        latest_incarnation = max(one.latest_incarnation for one in seen)
        waiting = [(number, *rank) for number, one in enumerate(seen) for rank in one.waiting]
        return [(number, event) for number, event, incarnation in waiting if incarnation < latest_incarnation]


def has_forgotten(device: DeviceSummary, key: int) -> bool:
    """Whether a device does not know a running job; one that came back may wait for its members to join."""
    state, known = device.job
    return state == FREE or known != key or (device.crashes > 0 and state in (JOINING, CONFIGURING))


def describe_event(event: int) -> str:
    """Such an event in words."""
    if event in (AGEING, UNANSWERED):
        return "the job ages" if event == AGEING else "LEAVE is given up"
    return f"neighbours {SILENCE - event:#b} have been silent" if event <= SILENCE else "a rank gives up joining"
