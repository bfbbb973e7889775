"""Communicators made from a communicator have the right ranks, and do not wait for each other."""

import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fanin import Communicator, device_status, errors
from fanin_wire.abi import SQ_DEPTH
from tests.waiting import BOUND_S

SIZE = 4


def test_split_by_color_and_key(run_ranks, device):
    def program(communicator):
        with communicator.split(color=communicator.rank % 2, key=-communicator.rank) as half:
            members = half.allgather(np.array(communicator.rank)).tolist()
            return half.rank, half.size, members, half.job.jid

    results = run_ranks(device, SIZE, program)
    assert [result[:3] for result in results] == [(1, 2, [2, 0]), (1, 2, [3, 1]), (0, 2, [2, 0]), (0, 2, [3, 1])]
    assert results[0][3] == results[2][3] != results[1][3]


def test_each_job_has_its_own_identity(run_ranks, device):
    """The same on all its ranks, different for every call, color and parent."""

    def program(communicator):
        with contextlib.ExitStack() as stack:
            first, second = (stack.enter_context(communicator.dup()) for _ in range(2))
            half = stack.enter_context(communicator.split(communicator.rank % 2))
            same_half = stack.enter_context(communicator.split(communicator.rank % 2))
            of_first, of_second = (stack.enter_context(parent.dup()) for parent in (first, second))
            jobs = [part.job for part in (communicator, first, second, of_first, of_second, half, same_half)]
            return [(job.jid, job.key) for job in jobs]

    results = run_ranks(device, SIZE, program)
    assert results[0] == results[2]
    assert results[1] == results[3]
    assert results[0][:5] == results[1][:5]
    every = results[0] + results[1][5:]
    assert len({jid for jid, _ in every}) == len({key for _, key in every}) == len(every)
    assert all(0 < jid < 1 << 32 and 0 <= key < 1 << 32 for jid, key in every)


def test_split_without_some(run_ranks, device):
    def program(communicator):
        part = communicator.split(None if communicator.rank == 1 else 7)
        if part is None:
            return None
        with part:
            return part.allreduce(np.array(communicator.rank)).item()

    assert run_ranks(device, SIZE, program) == [5, None, 5, 5]


def test_split_of_a_split(run_ranks, device):
    def program(communicator):
        with (
            communicator.split(communicator.rank // 2) as pair,
            pair.split(pair.rank) as alone,
            communicator.split(communicator.rank // 2) as same_pair,
        ):
            groups = (alone, pair, same_pair, communicator)
            sums = [group.allreduce(np.array(communicator.rank)).item() for group in groups]
            return [*sums, len({group.job.jid for group in groups})]

    assert run_ranks(device, SIZE, program) == [[rank, rank // 2 * 4 + 1, rank // 2 * 4 + 1, 6, 4] for rank in range(4)]


def test_one_attachment_for_all(run_ranks, device):
    before = device_status(device.socket)["clients"]

    def program(communicator):
        with communicator.dup() as dup, communicator.split(0) as part:
            communicator.barrier()
            clients = device_status(device.socket)["clients"]
            communicator.barrier()
            return clients - before, [dup.size, part.size]

    assert run_ranks(device, 2, program) == [(2, [2, 2])] * 2


def test_child_outlives_its_parent(device, make_job):
    job = make_job(2)

    def program(rank):
        with Communicator(job, rank, device.socket) as parent:
            child = parent.split(0)
            memory = parent.alloc(4)
        for use in (lambda: parent.allreduce(np.ones(1)), lambda: parent.alloc(1), parent.status, parent.dup):
            with pytest.raises(errors.InvalidRequest, match="closed"):
                use()
        memory[:] = 1
        total = child.allreduce(memory)[0]
        child.close()
        with pytest.raises(errors.InvalidRequest, match="closed"):
            child.alloc(4)
        return total

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(program, range(2))) == [2.0, 2.0]


def test_queues_are_given_back(run_ranks, device):
    """The device allows a client 8 queues; more are made here, one after the other."""

    def program(communicator):
        for _ in range(12):
            communicator.dup().close()
        return True

    assert run_ranks(device, 2, program) == [True, True]


def test_more_than_the_device_allows(run_ranks, device):
    def program(communicator):
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(communicator.dup()) for _ in range(7)]
            with pytest.raises(errors.NoResources):
                communicator.dup()
            return sum(part.allreduce(np.ones(1))[0] for part in parts)

    assert run_ranks(device, 2, program) == [14.0, 14.0]


def test_overlapping_groups_in_opposite_order(run_ranks, device):
    """Each rank is in two overlapping groups, first waits for the one that its neighbour waits for last, and has more
    under way than the queues hold."""
    count = SQ_DEPTH + 50

    def program(communicator):
        rank = communicator.rank
        with communicator.split(rank // 2) as first, communicator.split((rank + 1) % SIZE // 2) as second:
            order = (first, second) if rank % 2 else (second, first)
            requests = [[pair.iallreduce(np.array([rank, number])) for number in range(count)] for pair in order]
            found = [[request.wait(BOUND_S).tolist() for request in group] for group in requests]
            return found if rank % 2 else found[::-1]

    for rank, groups in enumerate(run_ranks(device, SIZE, program)):
        for shift, group in enumerate(groups):
            place = (rank + shift) % SIZE // 2 * 2
            total = sum((member - shift) % SIZE for member in (place, place + 1))
            assert group == [[total, 2 * number] for number in range(count)]


def test_blocking_calls_on_overlapping_groups(run_ranks, device):
    """A chain of pairs: 0-1, 1-2, 2-3. Each rank finishes one pair before it begins the next."""

    def program(communicator):
        rank = communicator.rank
        with contextlib.ExitStack() as stack:
            pairs = [communicator.split(0 if rank in (low, low + 1) else None) for low in range(SIZE - 1)]
            mine = [stack.enter_context(pair) for pair in pairs if pair is not None]
            return [pair.allreduce(np.array(rank)).item() for _ in range(20) for pair in mine]

    results = run_ranks(device, SIZE, program)
    assert [result[:2] for result in results] == [[1, 1], [1, 3], [3, 5], [5, 5]]


def test_joining_lets_others_go_on(device, make_job):
    """One process has more under way than its queue holds when it joins; the other joins when all of that is done."""
    job, count = make_job(2), SQ_DEPTH + 50
    code = (
        "import sys, json, fanin, numpy as np\n"
        "job = fanin.Job.from_dict(json.loads(sys.argv[1]))\n"
        "communicator = fanin.Communicator(job, 0, sys.argv[2])\n"
        f"requests = [communicator.iallreduce(np.array(number)) for number in range({count})]\n"
        "communicator.dup().barrier()\n"
    )
    arguments = [sys.executable, "-c", code, json.dumps(job.to_dict()), str(device.socket)]
    with subprocess.Popen(arguments) as other, Communicator(job, 1, device.socket) as communicator:
        requests = [communicator.iallreduce(np.array(number)) for number in range(count)]
        assert [request.wait(BOUND_S).item() for request in requests] == [2 * number for number in range(count)]
        with communicator.dup() as group:
            group.barrier()
        assert other.wait(BOUND_S) == 0


@pytest.mark.parametrize("color", [1.5, "red"])
def test_invalid_color(run_ranks, device, color):
    def program(communicator):
        with pytest.raises(errors.InvalidRequest, match="color"):
            communicator.split(color)
        return True

    assert run_ranks(device, 1, program) == [True]
