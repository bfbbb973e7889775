"""The plan of a schedule: all that its seed decides before the first event."""

import enum
import random
from typing import NamedTuple

from fanin_sim.fuzz.codes import FaultKind
from fanin_wire.abi import Status

SECOND, MILLISECOND = 1_000_000_000, 1_000_000
ALL_PEERS = -1  # target of a partition from all other devices
RANDOM_FAULTS = (
    FaultKind.LOSS,
    FaultKind.CORRUPTION,
    FaultKind.DUPLICATION,
    FaultKind.REORDERING,
    FaultKind.DELAY,
    FaultKind.LATE_RANK,
)
UNLIMITED = 1_000_000
READ_FAILED = {Status.LOCAL_PROTECTION_ERROR}
# Statuses of a job that has lost a member.
LOST = {Status[name] for name in ("PEER_LOST", "ABORTED", "TIMEOUT", "NOT_CONFIGURED")}


class Profile(enum.Enum):
    """The strength of the faults, and the outcome that is required."""

    LOSSY = "lossy"  # heavy faults: all requests succeed, no member is reported as lost
    LIGHT = "light"  # light faults, at times with a short detection time: as LOSSY
    CRASHES = "crashes"  # ranks or devices crash: every request ends, with its result or with an error
    NO_ICRC = "no ICRC"  # corrupted packets reach the engine, which must not write to wrong memory


PROFILES = (Profile.LOSSY,) * 9 + (Profile.LIGHT,) * 3 + (Profile.CRASHES,) * 7 + (Profile.NO_ICRC,)


class Fault(NamedTuple):
    """A fault.

    source, target: devices; for a late rank or a failed read, the rank.
    ordinal: of the packet on its link and of its opcode, of the device's event, or of the rank's step.
    value: a random number that determines the delay, the bit or the duration.
    """

    kind: FaultKind
    source: int
    target: int
    opcode: int
    ordinal: int
    value: int


class Plan(NamedTuple):
    """A plan.

    rates: faults per 65536 packets, by kind.
    budget: limit of the random faults.
    planned: faults at events of devices.
    detection, gap: detection time, and longest time between two requests of a rank; ns.
    incarnations: how often the job is formed.
    messages: limit of the messages that each rank posts.
    """

    seed: int
    workload: int
    profile: Profile
    rates: dict[FaultKind, int]
    budget: int
    most_in_a_row: int
    planned: tuple[Fault, ...]
    first_position: int
    slots: int
    detection: int
    gap: int
    pauses: int
    deadline_ms: int = 0
    incarnations: int = 1
    messages: int = UNLIMITED

    @property
    def tolerated(self) -> set:
        seen = set(READ_FAILED) if self.rates.get(FaultKind.READ_FAILURE) else set()
        if self.profile == Profile.NO_ICRC:
            return set(Status)
        return seen | LOST if self.profile == Profile.CRASHES else seen


class FaultTargets(NamedTuple):
    """The possible targets of planned faults in a workload.

    events: events of each device in a run without faults.
    homes: the device of each rank.
    switches: the devices that are switches.
    reads: whether devices read process memory.
    """

    events: tuple[int, ...]
    homes: tuple[int, ...]
    switches: tuple[int, ...]
    reads: bool

    @property
    def devices(self) -> list[int]:
        """The devices with events: switches that only forward have none."""
        return [device for device, events in enumerate(self.events) if events]

    @property
    def is_alone(self) -> bool:
        """Whether there is only one device, so that no packet is sent."""
        return len(self.events) == 1


def plan_of(seed: int, fault_targets: list[FaultTargets]) -> Plan:
    """The plan of a seed. `fault_targets`: of each workload."""
    rng = random.Random(seed)
    workload = rng.randrange(len(fault_targets))
    profile = rng.choice(PROFILES)
    detection = rng.choice((1, 5)) * SECOND if profile == Profile.LIGHT else 5 * SECOND
    return Plan(
        seed=seed,
        workload=workload,
        profile=profile,
        rates=_rates(rng, profile, fault_targets[workload]),
        budget=rng.choice((4, 8, 16, 32, 64, 128)),
        most_in_a_row=2 if profile == Profile.LOSSY else 1,
        planned=_planned(rng, profile, fault_targets[workload], detection),
        first_position=rng.choice((0, 0, 2**32 - 1, 2**32 - 7, 2**32 - 25, 2**31 - 9, rng.randrange(2**32))),
        slots=rng.choice((4, 8, 8, 16)),
        detection=detection,
        gap=rng.choice((0, 1_000, 50_000, 2 * MILLISECOND)),
        pauses=rng.choice((0, 0, 3_000, 20_000)),
        deadline_ms=rng.choice((0, 0, 0, 20, 300)) if profile == Profile.CRASHES else 0,
        incarnations=rng.choice((1, 1, 2)),
    )


def _rates(rng: random.Random, profile: Profile, targets: FaultTargets) -> dict[FaultKind, int]:
    """Rates of at least three kinds of faults. Where no packet is sent, only ranks can be late; they often are."""
    kinds = [FaultKind.LATE_RANK] if targets.is_alone else rng.sample(RANDOM_FAULTS, rng.randint(3, len(RANDOM_FAULTS)))
    steps = (200, 600, 2_000, 6_000) if profile == Profile.LOSSY else (200, 600, 1_500)
    steps = (2_000, 6_000, 20_000) if targets.is_alone else steps
    rates = {kind: rng.choice(steps) for kind in kinds}
    if profile == Profile.NO_ICRC:
        rates[FaultKind.CORRUPTION] = 3_000
    if targets.reads and rng.random() < 0.3:
        rates[FaultKind.READ_FAILURE] = 400
    return rates


def _planned(rng: random.Random, profile: Profile, targets: FaultTargets, detection: int) -> tuple[Fault, ...]:
    if profile == Profile.CRASHES:
        return tuple(_crash(rng, targets) for _ in range(rng.choice((1, 1, 1, 2))))
    if profile in (Profile.LOSSY, Profile.LIGHT) and rng.random() < 0.4:
        return (rng.choice(_interruptions(targets))(rng, targets, detection // 2),)
    return ()


def _crash(rng: random.Random, targets: FaultTargets) -> Fault:
    kind = rng.choice(
        (
            FaultKind.RANK_CRASH,
            FaultKind.EARLY_LEAVE,
            FaultKind.NIC_CRASH,
            FaultKind.SWITCH_CRASH,
            FaultKind.RESTART,
            FaultKind.PARTITION,
            FaultKind.FREEZE,
        )
    )
    if kind == FaultKind.PARTITION and not targets.is_alone:
        return _partition(rng, targets, 20 * SECOND)
    if kind in (FaultKind.FREEZE, FaultKind.PARTITION):
        return _freeze(rng, targets, 20 * SECOND)
    if kind in (FaultKind.RANK_CRASH, FaultKind.EARLY_LEAVE):
        rank = rng.randrange(len(targets.homes))
        return Fault(kind, targets.homes[rank], rank, 0, _event(rng, targets, targets.homes[rank]), 0)
    device = rng.choice(targets.devices)
    if kind != FaultKind.RESTART:
        kind = FaultKind.SWITCH_CRASH if device in targets.switches else FaultKind.NIC_CRASH
    downtime = rng.choice((0, 1, 10, 300, 3_000, 12_000)) * MILLISECOND if kind == FaultKind.RESTART else 0
    performed = rng.choice((0, 1, 2, 3, 255))
    return Fault(kind, device, device, 0, _event(rng, targets, device), downtime << 8 | performed)


def _interruptions(targets: FaultTargets) -> tuple:
    """Faults that a device survives. A single device has no links that could go down."""
    return (_freeze,) if targets.is_alone else (_partition, _freeze)


def _partition(rng: random.Random, targets: FaultTargets, longest: int) -> Fault:
    device = rng.choice(targets.devices)
    others = [other for other in targets.devices if other != device]
    peer = rng.choice((ALL_PEERS, rng.choice(others)))
    duration = int(longest * rng.random() ** 3)
    return Fault(FaultKind.PARTITION, device, peer, 0, _event(rng, targets, device), duration)


def _freeze(rng: random.Random, targets: FaultTargets, longest: int) -> Fault:
    device = rng.choice(targets.devices)
    return Fault(FaultKind.FREEZE, device, device, 0, _event(rng, targets, device), int(longest * rng.random() ** 2))


def _event(rng: random.Random, targets: FaultTargets, device: int) -> int:
    """The number of any event of a device, or of one soon after its last."""
    return rng.randint(1, targets.events[device] + targets.events[device] // 4)
