"""Time-outs in the model checker: jobs age, silent neighbours are noticed, ranks stop waiting.

Time stands still during a search: a time-out is an event, possible when no packet could prevent it.
"""

from fanin_nic.engine.records.tables import JobState
from fanin_sim.fabric.placement import Placement, neighbours
from fanin_sim.model_check.device_model import AGEING, SILENCE, UNANSWERED, DeviceModel, DeviceSummary
from fanin_sim.model_check.instances import Instance


class Timeouts:
    def __init__(self, instance: Instance, models: list[DeviceModel], placement: Placement) -> None:
        found = neighbours(placement)
        self._instance, self._models = instance, models
        self._neighbours = [found.get(number, {}) for number in range(len(models))]

    def events(self, seen: list[DeviceSummary], *, quiet: bool) -> list[tuple[int, int]]:
        """(device, event) of all possible time-outs. `quiet`: no packet is under way."""
        late = [*self._ageing_jobs(seen), *self._silent_neighbours(seen), *self._unanswered(seen)] if quiet else []
        return [*late, *self._join_timeouts(seen)]

    def _ageing_jobs(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """A job may age where no other device sends packets of its incarnation: on a switch, on a NIC that waits for
        others to leave, and as a tombstone that has nothing more to send. Where requests must end with PEER_LOST, a
        tombstone ages only after all ranks have read their status."""
        if not self._instance.ages:
            return []
        speakers = [n for n, model in enumerate(self._models) if model.is_nic and seen[n].job[0] != JobState.FREE]
        aged = []
        for number, (model, one) in enumerate(zip(self._models, seen, strict=True)):
            state, key = one.job
            spoken = any(seen[n].job[1] == key for n in speakers if n != number)
            waits = state == JobState.LEAVING if model.is_nic else state not in (JobState.FREE, JobState.ABORTED)
            is_looking = bool(self._instance.crashes and one.ready)
            if (state == JobState.ABORTED or (waits and not spoken)) and not one.leaving and not is_looking:
                aged.append((number, AGEING))
        return aged

    def _silent_neighbours(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """A neighbour is silent if it has crashed. It also is if it has restarted or reached another incarnation while
        this device runs the job, as after a late CONFIG. Live neighbours are never silent: their packets are not timed
        here."""
        if not self._instance.may_fall_silent:
            return []
        silent = []
        for number, one in enumerate(seen):
            gone = 0
            for bit, other in self._neighbours[number].items():
                forgot = one.job[0] == JobState.ACTIVE and has_forgotten(seen[other], one.job[1])
                gone |= (seen[other].is_gone or forgot) << bit
            if gone & one.heard:
                silent.append((number, SILENCE - (gone & one.heard)))
        return silent

    def _unanswered(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """Devices that repeat LEAVE to neighbours that have all crashed."""
        given_up = []
        for number, one in enumerate(seen):
            gone = (bit for bit, other in self._neighbours[number].items() if seen[other].is_gone)
            if one.leaving and not one.leaving & ~sum(1 << bit for bit in gone):
                given_up.append((number, UNANSWERED))
        return given_up

    def _join_timeouts(self, seen: list[DeviceSummary]) -> list[tuple[int, int]]:
        """A rank may stop waiting for the answer to a JOIN if others have died or reached a later incarnation."""
        latest_incarnation = max(one.latest_incarnation for one in seen)
        waiting = [(number, *rank) for number, one in enumerate(seen) for rank in one.waiting]
        return [(number, event) for number, event, incarnation in waiting if incarnation < latest_incarnation]


def has_forgotten(device: DeviceSummary, key: int) -> bool:
    """Whether a device has no record of a running job. A restarted device may be waiting for its members to join."""
    state, known = device.job
    return (
        state == JobState.FREE
        or known != key
        or (device.crashes > 0 and state in (JobState.JOINING, JobState.CONFIGURING))
    )


def describe_event(event: int) -> str:
    if event in (AGEING, UNANSWERED):
        return "the job ages" if event == AGEING else "LEAVE is repeated no more"
    return (
        f"neighbours {SILENCE - event:#b} have been silent" if event <= SILENCE else "a rank stops waiting for its JOIN"
    )
