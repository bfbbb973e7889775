"""Wrong use of the Communicator: each mistake has a named exception with a remedy, and harms nobody."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from fanin import Communicator, FaninError, Job, JobNode, device_status, errors
from fanin_wire.abi import Status
from fanin_wire.status import status_entry
from tests.waiting import BOUND_S


@pytest.fixture
def alone(device, make_job):
    """The only rank of a job."""
    with Communicator(make_job(1), 0, device.socket) as communicator:
        yield communicator


def read_only(array):
    array.flags.writeable = False
    return array


ONES = np.ones(8, "f4")
OUT_MISTAKES = [
    (read_only(np.zeros(8, "f4")), "read-only"),
    (np.zeros(16, "f4")[::2], "not C-contiguous"),
    (np.zeros(7, "f4"), "out has 7 elements of float32, but the result has 8"),
    (np.zeros(8, "f8"), "float64"),
    (np.zeros(4, "f8"), "float64"),
    ([0.0] * 8, "no buffer"),
    (bytes(32), "read-only"),
]


@pytest.mark.parametrize(("out", "text"), OUT_MISTAKES, ids=[text for _, text in OUT_MISTAKES])
def test_wrong_out(alone, out, text):
    with pytest.raises(errors.InvalidRequest, match=text):
        alone.allreduce(ONES, out=out)
    assert np.array_equal(alone.allreduce(ONES), ONES)


def test_out_that_overlaps_in_part(alone):
    memory = np.zeros(12, "f4")
    with pytest.raises(errors.InvalidRequest, match="overlaps"):
        alone.allreduce(memory[:8], out=memory[4:])


@pytest.mark.parametrize("value", [3.0, [1.0, 2.0], "text", None, object()])
def test_input_without_a_buffer(alone, value):
    with pytest.raises(errors.InvalidRequest, match="numpy"):
        alone.allreduce(value)


def test_python_objects_stay_in_their_process(alone):
    objects = np.array([[], {}], object)
    for use in (
        lambda: alone.allreduce(objects),
        lambda: alone.broadcast(objects),
        lambda: alone.allgather(np.zeros(3, [("a", "f4"), ("b", "O")])),
        lambda: alone.alloc(3, object),
        lambda: alone.scatter(objects),
    ):
        with pytest.raises(errors.NotSupported, match="Python objects"):
            use()


def test_shapes_as_numpy_takes_them(alone):
    assert alone.alloc([2, 3]).shape == (2, 3)
    assert alone.alloc(np.int64(4)).shape == (4,)
    assert alone.alloc(()).shape == ()
    for wrong in (-1, (2, -3), 2.5, "ab", None):
        with pytest.raises(errors.InvalidRequest, match="not a shape"):
            alone.alloc(wrong)


@pytest.mark.parametrize("shape", [np.int64(2), [2], (2,)], ids=str)
def test_shape_of_a_part(run_ranks, device, shape):
    def program(communicator):
        return communicator.scatter(np.arange(4) if communicator.rank == 0 else None, shape=shape, dtype=int).tolist()

    assert run_ranks(device, 2, program) == [[0, 1], [2, 3]]


def test_scalar_as_out(alone):
    with pytest.raises(errors.InvalidRequest, match="read-only"):
        alone.allreduce(np.float32(1), out=np.float32(2))


TIMES = [-1, -0.5, float("inf"), float("nan"), "x", "3", [1], 10**400]


@pytest.mark.parametrize("timeout", TIMES, ids=lambda value: str(value)[:20])
def test_invalid_timeout(alone, device, make_job, timeout):
    for use in (
        lambda: alone.allreduce(ONES, timeout=timeout),
        lambda: alone.iallreduce(ONES, timeout=timeout),
        lambda: alone.allreduce_init(ONES, timeout=timeout, ordered=True),
        lambda: alone.allgatherv(ONES, timeout=timeout),
        lambda: alone.barrier(timeout=timeout),
        lambda: alone.iallreduce(ONES).wait(timeout),
        lambda: alone.split(0, timeout=timeout),
        lambda: alone.dup(timeout=timeout),
        lambda: Communicator(make_job(1), 0, device.socket, timeout=timeout),
    ):
        with pytest.raises(errors.InvalidRequest, match="is not a time to wait"):
            use()
    assert np.array_equal(alone.allreduce(ONES, timeout=np.float32(9)), ONES)


def test_types_that_there_are_none_of(alone):
    for use in (
        lambda: alone.alloc(4, "zz"),
        lambda: alone.alloc(4, 3),
        lambda: alone.alloc(2, {"names": 3}),
        lambda: alone.allreduce(ONES, datatype=3),
    ):
        with pytest.raises(errors.InvalidRequest, match="type") as caught:
            use()
        assert "Give" in caught.value.remedy


def test_types_of_parts_that_there_are_none_of(run_ranks, device):
    def program(communicator):
        if communicator.rank == 0:
            for use in (
                lambda: communicator.scatter(root=1, shape=2, dtype="nosuch"),
                lambda: communicator.scatterv(root=1, counts=[1, 1], dtype="nosuch", agreed=True),
            ):
                with pytest.raises(errors.InvalidRequest, match="'nosuch' is not a type of numpy"):
                    use()
        return True

    assert run_ranks(device, 2, program) == [True, True]


@pytest.mark.parametrize("length", [2**50, 2**62, 2**70])
def test_more_memory_than_there_is(alone, length):
    with pytest.raises(errors.FaninError) as caught:
        alone.alloc(length, "f4")
    assert "memory" in caught.value.remedy
    assert "slots" not in caught.value.remedy


def test_wrong_broadcast_is_refused_on_every_rank(run_ranks, device):
    """Even on the root, which only reads: else it would go on, and the others not."""

    def program(communicator):
        for root in range(2):
            for wrong, text in ((np.zeros(8)[::2], "not C-contiguous"), (read_only(np.zeros(4)), "read-only")):
                with pytest.raises(errors.InvalidRequest, match=text) as caught:
                    communicator.broadcast(wrong, root=root)
                assert "on every rank" in caught.value.remedy
        return communicator.allreduce(ONES).tolist()

    assert run_ranks(device, 2, program) == [[2.0] * 8] * 2


def test_joining_twice(device, make_job):
    job = make_job(1)
    with Communicator(job, 0, device.socket) as first:
        with pytest.raises(errors.InvalidRequest, match=r"rank 0 has joined job \d+ already.*dup\(\)"):
            Communicator(job, 0, device.socket)
        assert np.array_equal(first.allreduce(ONES), ONES)
    with Communicator(job, 0, device.socket) as again:
        assert np.array_equal(again.allreduce(ONES), ONES)


def test_more_queues_than_there_are(device, make_job):
    with Communicator(make_job(1), 0, device.socket) as first:
        made = []
        with pytest.raises(errors.NoResources) as caught:
            made.extend(first.dup() for _ in range(1000))
        assert "Close communicators" in caught.value.remedy
        made.pop().close()
        first.dup().close()
        for other in made:
            other.close()


def test_use_after_close(device, make_job):
    communicator = Communicator(make_job(1), 0, device.socket)
    communicator.close()
    communicator.close()
    for use in (lambda: communicator.allreduce(ONES), lambda: communicator.alloc(4), communicator.status):
        with pytest.raises(errors.InvalidRequest, match="closed"):
            use()


def test_requests_under_way_are_flushed_by_close(device, make_job):
    job = make_job(2)
    others: list[Communicator] = []
    thread = threading.Thread(target=lambda: others.append(Communicator(job, 1, device.socket)))
    thread.start()
    communicator = Communicator(job, 0, device.socket)
    thread.join(BOUND_S)
    request = communicator.iallreduce(ONES)
    communicator.close()
    with pytest.raises(errors.Flushed):
        request.wait(BOUND_S)
    others[0].close()


def test_no_device(make_job, tmp_path):
    with pytest.raises(errors.NoDevice, match="nothing-here"):
        Communicator(make_job(1), 0, tmp_path / "nothing-here")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.NoDevice):
        Communicator(make_job(1), 0, tmp_path / "file")
    with pytest.raises(errors.InvalidRequest):
        Communicator(make_job(1), 0, "/" + "x" * 200)


def test_environment_missing(monkeypatch):
    for name in ("FANIN_JOB", "FANIN_RANK", "FANIN_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.InvalidRequest, match=r"FANIN_JOB.*fanin run"):
        Communicator()


def test_job_that_is_none(device):
    with pytest.raises(errors.InvalidRequest, match=r"job is 'job\.txt', not a Job.*Job\.from_file"):
        Communicator("job.txt", 0, device.socket)


def test_rank_outside_the_job(device, make_job):
    with pytest.raises(errors.InvalidRequest, match="rank 2"):
        Communicator(make_job(2), 2, device.socket)


def test_member_that_does_not_come_is_named(device, make_job):
    with pytest.raises(errors.Timeout, match=r"missing: rank 1 \(node .*\), rank 2"):
        Communicator(make_job(3), 0, device.socket, timeout=0.2)


def test_members_that_disagree(device, make_job):
    job = make_job(2)
    other = Job(job.jid, job.key, job.nodes, slots=64)

    def join_first():
        with pytest.raises(errors.Timeout):
            Communicator(job, 0, device.socket, timeout=1.0)

    thread = threading.Thread(target=join_first)
    thread.start()
    while not any(entry["jid"] == job.jid for entry in device_status(device.socket)["jobs"]):
        assert thread.is_alive()
    with pytest.raises(errors.MembersMismatch):
        Communicator(other, 1, device.socket)
    with pytest.raises(errors.JidInUse):
        Communicator(Job(job.jid, 8, job.nodes), 1, device.socket)
    thread.join(BOUND_S)


def test_chunk_that_the_device_has_not(device, make_job):
    with pytest.raises(errors.NoResources):
        Communicator(make_job(1, chunk=1 << 20), 0, device.socket)


@pytest.mark.parametrize(
    "parts",
    [
        {"chunk": 3000},
        {"slots": 2},
        {"route": "star"},
        {"reproducible": "always"},
        {"nodes": ()},
        {"nodes": (JobNode("127.0.0.1", (0, 2)),)},
        {"nodes": (JobNode("127.0.0.1", (0,)), JobNode("127.0.0.2", (0,)))},
        {"nodes": (JobNode("nowhere", (0,)),)},
        {"nodes": (JobNode("127.0.0.1", (0,)), JobNode("127.0.0.2", (1,))), "route": "local"},
        {"jid": -1},
        {"jid": 0},
        {"key": 1 << 32},
    ],
    ids=str,
)
def test_job_that_contradicts_itself(parts):
    whole = {"jid": 1, "key": 1, "nodes": (JobNode("127.0.0.1", (0,)),), **parts}
    with pytest.raises(errors.InvalidRequest):
        Job(**whole)


def test_every_status_has_an_exception_that_explains_itself():
    for status in Status:
        if status == Status.SUCCESS:
            continue
        error = FaninError.of(status, "something happened")
        assert type(error) is not FaninError
        assert error.status == status
        assert str(error) == f"{status.name}: something happened. {error.remedy}"
        assert str(FaninError.of(status)) == str(status_entry(status))
        own = type(error)("it broke", remedy="Mend it.")
        assert str(own) == f"{status.name}: it broke. Mend it."


def test_import_is_light():
    """No compiler, no device code: `import fanin` must stay cheap."""
    code = "import sys, fanin, fanin.verbs; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numba", "llvmlite", "scapy", "fanin_nic", "fanin_tools", "rich", "typer"}
    assert not heavy & {name.partition(".")[0] for name in modules}


def test_missing_extension():
    code = "import sys; sys.modules['fanin._binding'] = None\nimport fanin"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert "DriverMissing: NOT_SUPPORTED: the extension of this package can not be loaded" in result.stderr
    assert "pip install" in result.stderr


def test_missing_driver_core():
    """What needs it raises, not the import."""
    code = (
        "import pathlib; path = pathlib.Path.with_name\n"
        "pathlib.Path.with_name = lambda self, name: path(self, 'missing.so' if name == 'libfanin.so' else name)\n"
        "import fanin\n"
        "try: fanin.device_status('/nowhere')\n"
        "except fanin.errors.DriverMissing as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert "pip install" in result.stdout
