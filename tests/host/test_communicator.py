"""The Communicator as a program uses it, against a device process."""

import array
import copy
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin_wire.abi import SQ_DEPTH
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, operation_by_name, supports
from tests.waiting import BOUND_S

WHOLE_PROGRAM = """
import cffi.cparser, numpy as np, fanin
def parse(*arguments):
    raise AssertionError("the name of a type is read")
cffi.cparser.Parser._parse = parse
with fanin.Communicator() as communicator:
    for make in (communicator.alloc, np.ones):
        for count in (2, 1000, 1 << 20):
            array = make(count, "f4")
            for _ in range(3):
                communicator.allreduce(array, out=array)
            communicator.iallreduce(array, fence=True).wait()
            request = communicator.allreduce_init(array)
            request.start().wait()
            request.close()
    communicator.allgatherv(array, counts=[len(array)])
    request = communicator.ibarrier()
    request.progress(), request.wait(), communicator.status(), communicator.progress(), communicator.capabilities()
    for other in (communicator.dup(), communicator.split(0), communicator.shrink()):
        other.barrier()
        other.close()
print("done")
"""
RANK_PROGRAM = Path(__file__).with_name("rank_program.py")
COMBINATIONS = [
    (operation, datatype)
    for operation in OPERATIONS
    for datatype in DATATYPES
    if supports(operation.code, datatype.code)
]


def values(rank: int, count: int, dtype: str = "f4") -> np.ndarray:
    return (np.random.default_rng(rank).standard_normal(count) * 1000).astype(dtype)


def elements(rank: int, count: int, datatype: DataType) -> np.ndarray:
    """Any bits are elements of any type; but truth is 0 or 1, and the padding of a pair is 0."""
    random, dtype = np.random.default_rng(rank), datatype.numpy
    if datatype.name == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype.names is None:
        return random.integers(0, 256, count * dtype.itemsize, "u1").view(dtype)
    pairs = np.zeros(count, dtype)
    for name in dtype.names:
        pairs[name] = random.integers(-9, 9, count)
    return pairs


@pytest.mark.parametrize("registered", [False, True], ids=["process", "registered"])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_both_kinds_of_memory(run_ranks, device, dtype, registered):
    def program(communicator):
        data = values(communicator.rank, 1000, dtype)
        if registered:
            source = communicator.alloc(data.shape, dtype)
            source[:] = data
            data = source
        return communicator.allreduce(data)

    expected = operation_by_name("sum").oracle(np.stack([values(rank, 1000, dtype) for rank in range(3)]))
    for result in run_ranks(device, 3, program):
        assert result.tobytes() == expected.tobytes()


def test_path_is_an_attribute_and_in_the_log(run_ranks, device, caplog):
    caplog.set_level(logging.DEBUG, "fanin")
    paths = run_ranks(device, 2, lambda communicator: (communicator.path, communicator.status()["path"]))
    assert len({path for pair in paths for path in pair}) == 1
    assert re.fullmatch(r"route local, NIC [0-9.]+; segments of \d+ bytes(, MTU \d+)?", paths[0][0])
    assert [record.getMessage().endswith(paths[0][0]) for record in caplog.records] == [True, True]


def test_every_combination_equals_its_oracle(run_ranks, device):
    """One communicator for all of them: joining takes longer than computing."""
    count = 1000

    def program(communicator):
        return [
            communicator.allreduce(
                elements(communicator.rank, count, datatype),
                op=operation.name.lower(),
                datatype=datatype.name if datatype.alias else None,
            ).tobytes()
            for operation, datatype in COMBINATIONS
        ]

    results = run_ranks(device, 3, program)
    for number, (operation, datatype) in enumerate(COMBINATIONS):
        contributions = np.stack([elements(rank, count, datatype) for rank in range(3)])
        expected = operation.oracle(contributions, datatype).tobytes()
        assert {result[number] for result in results} == {expected}, f"{operation.name} of {datatype.name}"


def test_result_in_place_and_into_out(run_ranks, device):
    def program(communicator):
        data, out = values(communicator.rank, 10), np.zeros((2, 5), "f4")
        assert communicator.allreduce(data, out=out) is out
        assert communicator.allreduce(data, out=data) is data
        return out.ravel() == data

    assert np.all(run_ranks(device, 2, program))


def test_shapes_and_scalars(run_ranks, device):
    def program(communicator):
        assert communicator.allreduce(np.ones((2, 3, 4), "f8")).shape == (2, 3, 4)
        assert communicator.allreduce(np.float32(1.5)) == 3.0
        return True

    assert run_ranks(device, 2, program) == [True, True]


def test_buffer_protocol(run_ranks, device):
    def program(communicator):
        out = array.array("d", [0.0, 0.0])
        communicator.allreduce(array.array("d", [1.0, communicator.rank]), out=out)
        return list(out)

    assert run_ranks(device, 2, program) == [[2.0, 1.0]] * 2


def test_non_contiguous_input_is_copied(run_ranks, device):
    def program(communicator):
        return communicator.allreduce(np.arange(20, dtype="i4").reshape(4, 5)[:, ::2])

    for result in run_ranks(device, 2, program):
        assert np.array_equal(result, 2 * np.arange(20).reshape(4, 5)[:, ::2])


def test_zero_length_is_posted_as_a_barrier_is(run_ranks, device):
    def program(communicator):
        assert communicator.allreduce(np.empty((0, 3), "f4")).shape == (0, 3)
        assert communicator.alloc(0).size == 0
        assert communicator.status()["posted"] == 1
        return communicator.allreduce(np.ones(1, "f4"))[0]

    assert run_ranks(device, 2, program) == [2.0, 2.0]


def test_more_requests_than_the_queue_holds(run_ranks, device):
    count = 3 * SQ_DEPTH + 7

    def program(communicator):
        requests = [communicator.iallreduce(np.array([i, 1], "i8")) for i in range(count)]
        return [request.wait(BOUND_S)[0] for request in reversed(requests)][::-1]

    for result in run_ranks(device, 2, program):
        assert result == [2 * i for i in range(count)]


def test_two_communicators_in_opposite_order(device, make_job):
    """Each rank first waits for the job that the other waits for last, with more than the queues hold."""
    jobs = [make_job(2), make_job(2)]

    def program(rank):
        with Communicator(jobs[0], rank, device.socket) as a, Communicator(jobs[1], rank, device.socket) as b:
            order = [a, b] if rank == 0 else [b, a]
            count = SQ_DEPTH + 50
            requests = [[one.iallreduce(np.ones(1, "f4")) for _ in range(count)] for one in order]
            return sum(request.wait(BOUND_S)[0] for group in requests for request in group)

    with ThreadPoolExecutor(2) as pool:
        assert [future.result(BOUND_S) for future in [pool.submit(program, rank) for rank in range(2)]] == [
            4.0 * (SQ_DEPTH + 50)
        ] * 2


def test_arrays_live_until_completion(run_ranks, device):
    def program(communicator):
        requests = [communicator.iallreduce(np.full(50_000, i, "f4")) for i in range(20)]
        noise = [np.full(50_000, -1, "f4") for _ in range(20)]
        return all(np.all(request.wait(BOUND_S) == 2 * i) for i, request in enumerate(requests)) and len(noise) == 20

    assert run_ranks(device, 2, program) == [True, True]


def test_test_and_wait(run_ranks, device):
    """test() is False until the other rank posts; a wait that times out leaves the request alive."""
    released = threading.Event()

    def program(communicator):
        if communicator.rank == 1:
            assert released.wait(BOUND_S)
            return communicator.allreduce(np.ones(4, "f4"))[0]
        request = communicator.iallreduce(np.ones(4, "f4"))
        assert request.test() is False
        with pytest.raises(errors.Timeout):
            request.wait(0.05)
        released.set()
        result = request.wait(BOUND_S)
        assert request.test() is True
        return result[0]

    assert run_ranks(device, 2, program) == [2.0, 2.0]


def test_one_communicator_in_several_threads(run_ranks, device):
    def program(communicator):
        requests = [communicator.iallreduce(np.full(8, i, "i4")) for i in range(64)]
        found: list[np.ndarray] = [np.empty(0)] * 64

        def collect(first):
            for i in range(first, 64, 4):
                found[i] = requests[i].wait(BOUND_S)

        threads = [threading.Thread(target=collect, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        return [int(result[0]) for result in found]

    assert run_ranks(device, 2, program) == [[2 * i for i in range(64)]] * 2


def test_allocated_memory_outlives_its_communicator(run_ranks, device):
    def program(communicator):
        memory = communicator.alloc((3, 4), "f8")
        memory[:] = communicator.rank
        return memory

    for rank, memory in enumerate(run_ranks(device, 2, program)):
        assert np.all(memory == rank)


def test_dropped_arrays_free_their_registration(run_ranks, device):
    def program(communicator):
        for _ in range(30):  # the device allows 8 regions
            communicator.alloc(100)[:] = 1
        return communicator.status()["device"]["regions"]

    assert run_ranks(device, 1, program) == [0]


def test_status(run_ranks, device):
    def program(communicator):
        communicator.allreduce(np.ones(1, "f4"))
        return communicator.status()

    status = run_ranks(device, 1, program)[0]
    assert (status["rank"], status["size"], status["route"]) == (0, 1, "local")
    assert (status["posted"], status["outstanding"], status["backlog"]) == (1, 0, 0)
    assert status["device"]["name"] == "model"


def test_rank_processes_from_the_environment(device, make_job, tmp_path):
    """Ranks start as `fanin run` starts them."""
    job_file = tmp_path / "job.txt"
    job_file.write_text(make_job(3).to_text())
    environment = {**os.environ, "FANIN_JOB": str(job_file), "FANIN_SOCKET": str(device.socket), "FANIN_SIZE": "3"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(RANK_PROGRAM)], env={**environment, "FANIN_RANK": str(rank)}, stdout=subprocess.PIPE
        )
        for rank in range(3)
    ]
    outputs = [json.loads(rank.communicate(timeout=BOUND_S)[0]) for rank in ranks]
    assert outputs == [{"rank": rank, "size": 3, "sum": 3.0, "max": 2.0} for rank in range(3)]


def test_no_name_of_a_type_is_read_after_import(tmp_path, make_job, device):
    """cffi would do it under a lock that an exception may leave taken."""
    job_file = tmp_path / "job.txt"
    job_file.write_text(make_job(1).to_text())
    environment = {"FANIN_JOB": str(job_file), "FANIN_SOCKET": str(device.socket), "FANIN_SIZE": "1", "FANIN_RANK": "0"}
    program = [sys.executable, "-c", WHOLE_PROGRAM]
    ended = subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True, timeout=BOUND_S)
    assert (ended.stdout, ended.stderr) == ("done\n", "")


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_is_not_copied(alone, make):
    with pytest.raises(errors.InvalidRequest, match=r"dup\(\) makes another"):
        make(alone)
