"""Quotas: no client can take all jobs, slots, queues or regions of a device. Refusals have a name."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fanin import errors
from fanin.verbs import CQ, PD, CollectiveQP, Context, Membership
from fanin_nic.daemon.lanes.host_port import HostPort
from fanin_nic.daemon.lanes.ordinary_host import OrdinaryHost
from fanin_nic.engine.engine import Engine
from fanin_nic.engine.jobs.lease import SHARE_FACTOR, share
from fanin_nic.hostif.ports import NoResources, OrdinaryQueuePair, OrdinaryRegion
from fanin_nic.hostif.server import MAX_CLIENTS
from fanin_nic.transport.transport import Limits
from fanin_tools.fabric import device_query
from fanin_wire.abi import Service, Status
from fanin_wire.fields import Opcode
from tests.engine.rig import LIMITS, STRANGER, Rig, SwitchRig, child_address, config
from tests.robustness.test_clients import works
from tests.waiting import BOUND_S

SHARED = LIMITS._replace(jobs=8, slots=64, max_lease=64, shared=1)


@pytest.mark.parametrize(
    ("held", "free", "more"), [(0, 64, 48), (48, 16, 0), (0, 16, 12), (12, 4, 0), (0, 1, 1), (5, 0, 0)]
)
def test_share(held: int, free: int, more: int) -> None:
    assert share(held, free) == more
    assert held + more <= SHARE_FACTOR * (free - more) or more == 0 or held == 0


@pytest.mark.parametrize("total", [4, 64, 4096])
def test_the_greedy_leave_something(total: int) -> None:
    """Each takes all it may, and the next one still finds a quarter of the rest."""
    free = total
    while free >= 4:
        assert free // 4 <= free - share(0, free) <= free // 2
        free -= share(0, free)


def request_of(rig: Rig, jid: int, source: int, slots: int = 4) -> list:
    """CONFIG of the only child of a job."""
    return rig.receive(Opcode.CONFIG, source, config(0, 1, slots=slots), jid=jid, key=1, source=0)


def test_one_device_below_does_not_take_all_jobs_of_a_switch() -> None:
    rig = SwitchRig(join=False, limits=SHARED._replace(slots=1024))
    answers = [request_of(rig, jid, STRANGER)[0].ceth["status"] for jid in range(1, 9)]
    assert answers == [Status.SUCCESS] * 6 + [Status.NO_RESOURCES] * 2
    assert request_of(rig, 20, child_address(0))[0].ceth["status"] == Status.SUCCESS


def test_one_device_below_does_not_take_all_slots_of_a_switch() -> None:
    rig = SwitchRig(join=False, limits=SHARED)
    granted = []
    for jid in range(1, 6):
        (answer,) = request_of(rig, jid, STRANGER, slots=64)
        if answer.ceth["status"] == Status.SUCCESS:
            granted.append(int.from_bytes(answer.payload[:4]))
    assert granted == [32, 16]
    (answer,) = request_of(rig, 20, child_address(0), slots=64)
    assert (answer.ceth["status"], int.from_bytes(answer.payload[:4])) == (Status.SUCCESS, 8)


def test_hearsay_gives_way_to_a_job() -> None:
    """Any sender can report the failure of an unknown job: that must not take the records of later jobs."""
    rig = SwitchRig(join=False)
    for jid in range(100, 120):
        rig.receive(Opcode.LEAVE, STRANGER, jid=jid, key=1, status=Status.ABORTED)
    assert np.all(rig.engine.tables["jobs"]["state"][:-1] > 0)
    for jid in (1, 2):  # also to a holder of others
        assert request_of(rig, jid, child_address(0))[0].ceth["status"] == Status.SUCCESS


def test_slots_of_ended_jobs_do_not_stand_in_the_way() -> None:
    """A tombstone without slots holds no place in the pool."""
    rig = SwitchRig(children=2, join=False, limits=LIMITS._replace(slots=16))
    rig.join(0)
    rig.receive(Opcode.LEAVE, child_address(0), source=0, status=Status.ABORTED)
    assert rig.job["slots"] == 0
    (answer,) = request_of(rig, 9, STRANGER, slots=16)
    assert int.from_bytes(answer.payload[:4]) == 16


def test_process_memory_counts_toward_no_quota() -> None:
    """Room for it is kept: clients that attach do not take what others may register."""
    places = 8
    host = HostPort(Engine("127.0.0.1", limits=LIMITS._replace(regions=MAX_CLIENTS + places, shared=1)))
    for client in range(20):
        host.attach(client, memory_fd=0)
    for number in range(6):
        host.register(0, number, 0, 1, 1, 4096)
    with pytest.raises(NoResources, match="2 are left for the others"):
        host.register(0, 6, 0, 1, 1, 4096)
    host.register(1, 0, 0, 1, 1, 4096)


def take(host: OrdinaryHost, what: str, client: int) -> int:
    """Take one of a kind; returns its number or key."""
    if what == "regions":
        return host.register(client, OrdinaryRegion(0, 1, 0, 0, 0))
    if what == "shared queues":
        return host.create_shared(client, 0, 4096)
    return host.create(client, OrdinaryQueuePair(Service.RC, 0, 0, 0, False, 4096, 4096))[0]


def give_back(host: OrdinaryHost, what: str) -> Callable[[int], None]:
    """The function that gives one of a kind back."""
    return {"regions": host.deregister, "shared queues": host.destroy_shared, "queue pairs": host.destroy}[what]


@pytest.mark.parametrize("what", ["queue pairs", "shared queues", "regions"])
def test_shares_of_ordinary_traffic(what: str) -> None:
    """Of 8 rows the first client gets 6, the others one each. Returned ones can be taken again."""
    limits = Limits(queue_pairs=8, shared_queues=8, regions=8, send_depth=32, receive_depth=32, actions=128)
    host = OrdinaryHost("127.0.0.1", 1500, limits)

    taken = [take(host, what, 0) for _ in range(6)]
    with pytest.raises(NoResources, match=f"{what} of ordinary traffic: .* 2 are left for the others"):
        take(host, what, 0)
    for client in (1, 63):
        take(host, what, client)
        with pytest.raises(NoResources):
            take(host, what, client)
    give_back(host, what)(taken[0])
    take(host, what, 7)


@pytest.mark.parametrize("what", ["queue pairs", "shared queues", "regions"])
def test_five_greedy_clients_of_ordinary_traffic(what: str) -> None:
    """Each takes its limit: three quarters of the rest, so that the fifth finds nothing. The first can not retake all
    that it gives back: the others, who have less, find their shares of it."""
    limits = Limits(queue_pairs=64, shared_queues=64, regions=64, send_depth=32, receive_depth=32, actions=128)
    host = OrdinaryHost("127.0.0.1", 1500, limits)

    def take_all(client: int) -> list[int]:
        taken = []
        with contextlib.suppress(NoResources):
            while True:
                taken.append(take(host, what, client))
        return taken

    held = [take_all(client) for client in range(5)]
    assert [len(rows) for rows in held] == [48, 12, 3, 1, 0]
    assert len(set().union(*held)) == 64
    for row in held[0][:16]:
        give_back(host, what)(row)
    assert [len(take_all(client)) for client in range(5)] == [4, 6, 3, 2, 1]


def test_one_client_leaves_queues_regions_and_slots_of_a_device_to_others(nic: Path) -> None:
    with contextlib.ExitStack() as stack:
        refused = []
        for _ in range(2):
            context = stack.enter_context(contextlib.closing(Context(nic)))
            refused.append(take_all(context))
        assert all(refused)
        assert works(nic)


def take_all(context: Context) -> bool:
    """Take queues, jobs and slots until the device refuses. Returns whether it did so by name."""
    cq, pd = CQ(context), PD(context)
    try:
        for number in range(100):
            queue = CollectiveQP(pd, cq)
            queue.join(Membership(jid=id(context) % 2**31 + number, key=1, slots=4096), BOUND_S)
    except errors.NoResources as error:
        return str(error).startswith("NO_RESOURCES")
    return False


def test_largest_fitting_lease_is_granted(nic: Path) -> None:
    """A single client gets at most three quarters, without refusal: the reply has the number."""
    total = device_query.query_status(nic)["slots"]["total"]
    with contextlib.closing(Context(nic)) as context:
        lease = CollectiveQP(PD(context), CQ(context)).join(Membership(jid=31, key=1, slots=total), BOUND_S)
    assert lease.slots == total // 2  # the largest power of two within three quarters
