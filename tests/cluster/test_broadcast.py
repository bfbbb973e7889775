"""A hand-off by broadcasts: 8 processes of node 2 have the data, one copy crosses the network, links may fail."""

import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest

from fanin import Communicator
from fanin.errors import NoResources
from fanin.membership.member import DeviceConnection
from fanin_cluster.handoff.broadcast import CHUNK, Streams, chunks_of, jobs_of, rest_of
from fanin_cluster.handoff.plan import HandoffInvalid, Link, build
from fanin_cluster.handoff.rehearsal import Rehearsal
from fanin_cluster.handoff.stage import HEADER
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.limits import MAX_JOB_CHUNK
from tests.cluster.sending_node import GPUS, plan_of
from tests.cluster.test_handoff import PLANS, data_of, random_failures, random_plan
from tests.e2e.fabrics import Bench, Statuses, held, statuses, undisturbed
from tests.ordinary.sides import sockets
from tests.waiting import BOUND_S, DETECTION_S, eventually

pytestmark = pytest.mark.process
LINKS = 2
SIZE = (6 << 20) + 12_345
DEFAULTS = {"kill": 0, "senders": 1, "tensors": 0}
MESSAGES = [  # several tensors in one message, also one without an element; one in registered memory
    [["<i2", [2, 3], [[0, 1, 2], [3, 4, 5]]], ["<f8", [], 0.5], ["<f4", [0, 4], []]],
    [["<f4", [3], [7.0, 7.0, 7.0]]],
]
AGREEMENTS = 2048  # bytes at most, on a link, beside the CONFIGs, which are full packets


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(2 * LINKS, GPUS, direct=True, detection=DETECTION_S))


def carried(running: Running, sizes: list[int], second: tuple[int, ...] = (2, 3), **options: int) -> list[Any]:
    """The output of the processes after transfers of these sizes. second: the NICs of node 2."""
    ends = list(zip(sockets(running), (nic.address for nic in running.fabric.nics), strict=True))
    told = {"first": ends[:LINKS], "second": [ends[each] for each in second], "sizes": sizes}
    command = [sys.executable, "-m", "tests.cluster.broadcast_ranks", json.dumps({**told, **DEFAULTS, **options})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def payload(found: Statuses) -> list[int]:
    """Bytes of data that each NIC of node 1 has sent, in packets of collectives."""
    return [sum(link["tx_payload_bytes"] for link in found[f"nic{nic}"]["links"].values()) for nic in range(LINKS)]


def test_one_copy_for_all_processes(running: Running) -> None:
    """Each NIC carries its stripe once, and not eight times; beside it the agreements. Data of any length, tensors."""
    sizes = [SIZE, 0, 1, 4099]

    def measure() -> tuple[Statuses, Statuses]:
        before = statuses(running)
        said = carried(running, sizes, tensors=1)
        assert len(said) == GPUS + 1
        assert [each["error"] for each in said if "error" in each] == []
        assert {json.dumps(each["failed"]) for each in said} == {json.dumps([[]] * len(sizes))}
        assert [each["tensors"] for each in said if "second_gpu" in each] == [MESSAGES] * GPUS
        return before, statuses(running)

    before, after = undisturbed(measure)
    for link, (count, start) in enumerate(zip(payload(after), payload(before), strict=True)):
        stripes = sum(plan_of(size, LINKS).stripes[link].length for size in sizes)
        sent = [found[f"nic{link}"]["counters"].get("tx_CONFIG", 0) for found in (before, after)]
        configs = (sent[1] - sent[0]) * MAX_JOB_CHUNK  # one is sent again when its answer is late
        assert 0 <= count - start - stripes < AGREEMENTS + configs + HEADER * 2 // LINKS


@pytest.mark.parametrize(("victim", "second", "senders"), [(LINKS, (2, 3), 2), (0, (3, 3), 1)])
def test_a_nic_dies_on_the_way(victim: int, second: tuple[int, ...], senders: int, running: Running) -> None:
    """When a chunk of link 0 has arrived: the rest goes over link 1, and so do the next data. Nothing is lost.

    First the NIC of link 0 in node 2, then that in node 1; by then both links have one NIC in node 2. With a sending
    process for each link, that of link 0 can not know whether the others have sent the rest.
    """
    pid = running.state.processes()[running.fabric.nics[victim].name].pid
    said = carried(running, [SIZE, 4099], second, kill=pid, senders=senders)
    lost = [each["error"] for each in said if "error" in each]
    assert len(lost) == senders - 1, lost
    assert all(each.startswith("HandoffFailed: all links of this process have failed") for each in lost)
    whole = [each for each in said if "error" not in each]
    assert len(whole) == GPUS + 1
    assert {json.dumps(each["failed"]) for each in whole} == {"[[0], [0]]"}
    agreed = {json.dumps(each["arrived"]) for each in whole}
    assert agreed in ({json.dumps([[CHUNK], []])}, {"[[], []]"}), (
        "a process may not have seen the end of the first chunk"
    )


def test_chunks_cover_the_stripes() -> None:
    plan = plan_of(SIZE, LINKS)
    for stripe, chunks in zip(plan.stripes, chunks_of(plan), strict=True):
        assert sum(length for _, length in chunks) == stripe.length
        assert [offset for offset, _ in chunks] == list(range(stripe.offset, stripe.end, CHUNK))


def test_wrong_arguments(running: Running) -> None:
    plan = plan_of(64, LINKS)
    addresses = {f"second{each}": "127.0.0.1" for each in range(LINKS)}
    with pytest.raises(HandoffInvalid, match="the address of first0 is missing"):
        jobs_of(plan, {}, addresses, 1, 1)
    jobs = jobs_of(plan, {f"first{each}": "127.0.0.2" for each in range(LINKS)}, addresses, 1, 1)
    with pytest.raises(HandoffInvalid, match="give first_gpus, or second_gpu"):
        Streams(plan, jobs, {})
    with pytest.raises(HandoffInvalid, match=r"the GPUs \[7\] are at no link"):
        Streams(plan, jobs, {}, first_gpus=[7])
    with pytest.raises(HandoffInvalid, match="the device of second0 is missing"):
        Streams(plan, jobs, {}, second_gpu=0)


def test_random_plans() -> None:
    """Every GPU has the data and each byte crosses the network once, whatever each received over a failing link."""
    chance = random.Random(1)
    for number in range(PLANS):
        plan = random_plan(chance)
        data = data_of(plan.size)
        rehearsal = Rehearsal(plan, data)
        rehearsal.spread()
        chunk = chance.choice((1, 7, 64, 4096))
        for together in random_failures(chance, plan):
            work = chunks_of(plan, chunk)
            seen = {link: [chance.randint(0, len(work[link])) for _ in plan.second_gpus] for link in together}
            rehearsal.broadcast(work, seen)
            counts = [min(seen[link]) if link in seen else len(each) for link, each in enumerate(work)]
            plan = rehearsal.plan = rest_of(plan, work, counts, [link not in seen for link in range(len(work))])
            rehearsal.spread()
        work = chunks_of(plan, chunk)
        rehearsal.broadcast(work, {})
        assert rest_of(plan, work, [len(each) for each in work], [True] * len(work)) is plan
        assert (rehearsal.second.bytes == data).all(), f"plan {number}: {plan}"
        assert rehearsal.second.valid.all(), f"plan {number}: {plan}"


def test_tables_that_can_not_be_had(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """All have joined: they end with the error, and leave the jobs. Two links of a NIC have one connection to it."""
    links = [Link(each, each, "first", "second", 1e9) for each in range(LINKS)]
    groups = [[each] for each in range(LINKS)]
    names = [f"gpu{each}" for each in range(LINKS)]
    plan = build(64, links, groups, first_gpus=names, second_gpus=names)
    nics = running.fabric.nics
    jobs = jobs_of(plan, {"first": nics[1].address}, {"second": nics[3].address}, 16 * os.getpid(), 1)
    devices = {"first": sockets(running)[1], "second": sockets(running)[3]}
    connected: list[str] = []
    connect = DeviceConnection.__init__

    def counting(self: DeviceConnection, socket: str) -> None:
        connected.append(socket)
        connect(self, socket)

    def none(self: Communicator, *shape: object) -> NoReturn:
        raise NoResources("no memory", remedy="Ask for less.")

    monkeypatch.setattr(DeviceConnection, "__init__", counting)
    monkeypatch.setattr(Communicator, "alloc", none)
    places: list[dict[str, Any]] = [{"first_gpus": range(LINKS)}, *({"second_gpu": each} for each in range(LINKS))]
    with ThreadPoolExecutor() as threads:
        ends = [threads.submit(Streams, plan, jobs, devices, **place) for place in places]
    assert {type(each.exception()) for each in ends} == {NoResources}
    assert len(connected) == len(places)

    def left() -> set[int]:
        return {job["jid"] for device in held(statuses(running)).values() for job in device["jobs"]}

    eventually(left, {job.jid for job in jobs}.isdisjoint)  # while the errors still hold what they came from
