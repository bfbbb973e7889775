"""The plan of a schedule: all that its seed decides before the first event."""

import enum
import itertools
import random
from typing import NamedTuple

from fanin_sim.rdma.codes import FaultKind, WrongRequest
from fanin_sim.rdma.tables import GENERATIONS, REQUESTS
from fanin_sim.rdma.world import TOPOLOGIES

MICROSECOND, MILLISECOND = 1_000, 1_000_000
NOBODY = -1
SHARED = 0.4  # of the schedules have shared receive queues
PACKET_FAULTS = (
    FaultKind.LOSS,
    FaultKind.CORRUPTION,
    FaultKind.DUPLICATION,
    FaultKind.REORDERING,
    FaultKind.DELAY,
    FaultKind.LATE_PROGRAM,
)


class Profile(enum.Enum):
    """Its faults, and the outcome that is required."""

    LOSSY = "lossy"  # faults of packets: every request succeeds
    WRONG = "wrong requests"  # one request is wrong: it fails with its status, or its connection does
    CALM = "wrong requests, no loss"  # likewise, and its status is exactly that of verbs
    CRASHES = "crashes"  # a device starts anew, or a program ends its connection: every request ends
    NO_ICRC = "no ICRC"  # corrupted packets reach the transport: no stray write, every request ends


SHARES = {Profile.LOSSY: 10, Profile.WRONG: 2, Profile.CALM: 2, Profile.CRASHES: 5, Profile.NO_ICRC: 1}
PROFILES = tuple(profile for profile, share in SHARES.items() for _ in range(share))


class Plan(NamedTuple):
    """A plan: members of the WORLD record. rates: faults per 65536 packets or steps, by kind."""

    seed: int
    topology: int
    profile: Profile
    rates: dict[FaultKind, int]
    budget: int
    most_in_a_row: int
    gap: int
    pause: int
    mtu: int
    retry_count: int
    rnr_retry: int
    reads: int
    timeout: int
    psn_base: int
    is_shared: int
    restart_device: int = NOBODY
    restart_at: int = 0
    wrong_side: int = NOBODY
    wrong_generation: int = 0
    wrong_request: int = 0
    wrong_kind: WrongRequest = WrongRequest.NONE
    abandon_connection: int = NOBODY
    abandon_at: int = 0


def plan_of(seed: int) -> Plan:
    rng = random.Random(seed)
    topology = rng.randrange(len(TOPOLOGIES))
    profile = rng.choice(PROFILES)
    plan = Plan(
        seed=seed,
        topology=topology,
        profile=profile,
        rates=_rates(rng, profile),
        budget=rng.choice((2, 4, 8, 16, 32, 64)),
        most_in_a_row=1 if profile == Profile.NO_ICRC else 2,
        gap=rng.choice((0, 1, 10, 100, 1000)) * MICROSECOND,
        pause=rng.choice((0, 1, 5, 50)) * MICROSECOND,
        mtu=rng.choice((256, 256, 256, 512, 1024, 4096)),
        retry_count=7,
        rnr_retry=rng.choice((7, 7, 2)) if profile == Profile.CRASHES else 7,
        reads=rng.choice((1, 2, 4, 16)),
        timeout=4096 << rng.choice((7, 8, 9)),
        psn_base=rng.choice((0, 1 << 23, 1 << 24, rng.randrange(1 << 24))),
        is_shared=int(random.Random(f"shared {seed}").random() < SHARED),  # apart: other members stay what they were
    )
    if profile in (Profile.WRONG, Profile.CALM):
        return _with_wrong_request(rng, plan)
    return _with_crash(rng, plan) if profile == Profile.CRASHES else plan


def first_plan_of(topology: int) -> Plan:
    return next(plan for plan in map(plan_of, itertools.count()) if plan.topology == topology)


def names_only_its_own(plan: Plan) -> bool:
    """Whether side, device and connection of a plan exist in its topology."""
    topology = TOPOLOGIES[plan.topology]
    connections = len(topology.connections)
    return (
        plan.wrong_side < 2 * connections
        and plan.restart_device < topology.devices
        and plan.abandon_connection < connections
    )


def _rates(rng: random.Random, profile: Profile) -> dict[FaultKind, int]:
    if profile == Profile.CALM:
        return {FaultKind.LATE_PROGRAM: rng.choice((0, 2_000)), FaultKind.DUPLICATION: rng.choice((0, 2_000))}
    kinds = rng.sample(PACKET_FAULTS, rng.randint(3, len(PACKET_FAULTS)))
    rates = {kind: rng.choice((300, 1_000, 3_000, 8_000, 16_000)) for kind in kinds}
    if profile == Profile.NO_ICRC:
        rates[FaultKind.CORRUPTION] = 6_000
    return rates


def _with_wrong_request(rng: random.Random, plan: Plan) -> Plan:
    return plan._replace(
        wrong_side=rng.randrange(2 * len(TOPOLOGIES[plan.topology].connections)),
        wrong_generation=rng.randrange(GENERATIONS),
        wrong_request=rng.randrange(REQUESTS),
        wrong_kind=rng.choice(list(WrongRequest)[1:]),
    )


def _with_crash(rng: random.Random, plan: Plan) -> Plan:
    topology, at = TOPOLOGIES[plan.topology], rng.choice((5, 20, 50, 100, 200, 300, 500))
    if rng.random() < 0.6:
        return plan._replace(restart_device=rng.randrange(topology.devices), restart_at=at)
    return plan._replace(abandon_connection=rng.randrange(len(topology.connections)), abandon_at=at)
