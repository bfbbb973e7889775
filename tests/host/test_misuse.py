"""Wrong use of the Communicator: each mistake has a named exception that says what to do, and harms nobody."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from fanin import Communicator, FaninError, Job, JobNode, device_status, errors
from fanin_wire.abi import Status
from fanin_wire.status import status_entry


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
    (np.zeros(7, "f4"), "out has 7 elements of float32, the result 8"),
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
    thread.join(20)
    request = communicator.iallreduce(ONES)
    communicator.close()
    with pytest.raises(errors.Flushed):
        request.wait(5)
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


def test_rank_outside_the_job(device, make_job):
    with pytest.raises(errors.InvalidRequest, match="rank 2"):
        Communicator(make_job(2), 2, device.socket)


def test_member_that_does_not_come_is_named(device, make_job):
    with pytest.raises(errors.Timeout, match=r"\[1, 2\]"):
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
    thread.join(20)


def test_chunk_that_the_device_has_not(device, make_job):
    with pytest.raises(errors.NoResources):
        Communicator(make_job(1, chunk=1 << 20), 0, device.socket)


@pytest.mark.parametrize(
    "parts",
    [
        {"chunk": 3000},
        {"slots": 0},
        {"route": "star"},
        {"reproducible": "always"},
        {"nodes": ()},
        {"nodes": (JobNode("127.0.0.1", (0, 2)),)},
        {"nodes": (JobNode("127.0.0.1", (0,)), JobNode("127.0.0.2", (0,)))},
        {"nodes": (JobNode("nowhere", (0,)),)},
        {"nodes": (JobNode("127.0.0.1", (0,)), JobNode("127.0.0.2", (1,))), "route": "local"},
        {"jid": -1},
        {"key": 1 << 32},
    ],
    ids=str,
)
def test_job_that_contradicts_itself(parts):
    whole = {"jid": 1, "key": 1, "nodes": (JobNode("127.0.0.1", (0,)),), **parts}
    with pytest.raises(errors.InvalidRequest):
        Job(**whole)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"jid": 1, "key": 1, "nodes": [{}]}', '{"jid": "x"}'])
def test_job_file_that_is_garbage(tmp_path, text):
    path = tmp_path / "job.json"
    path.write_text(text)
    with pytest.raises(errors.InvalidRequest, match="job description"):
        Job.from_file(path)


def test_every_status_has_an_exception_that_explains_itself():
    for status in Status:
        if status == Status["SUCCESS"]:
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


def test_missing_driver_core(tmp_path):
    code = (
        "import fanin.driver as driver, pathlib, fanin\n"
        "driver.LIBRARY_PATH = pathlib.Path('/nonexistent/libfanin.so')\n"
        "try: fanin.device_status('/nowhere')\n"
        "except fanin.errors.DriverMissing as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert "pip install" in result.stdout
