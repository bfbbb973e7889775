"""The verbs interface: objects, refusals, full queues, forbidden memory."""

import contextlib
import fcntl
import mmap
import os
import resource

import numpy as np
import pytest

from fanin import Communicator, errors
from fanin.driver import ffi, library
from fanin.verbs import CQ, MR, PD, QP, SGE, WC, CollectiveQP, Context, Membership, QPInitAttr, SharedMemory
from fanin_wire.abi import LKEY_PROCESS, Access, DType, Op, Status
from tests.host.work_requests import one_completion, request_over
from tests.waiting import BOUND_S

READ_WRITE = Access.READ | Access.WRITE


def test_a_collective_over_registered_memory(pd, joined):
    qp, cq = joined
    mr = MR(pd, 8192)
    data = np.frombuffer(mr.buf, "f4")
    data[:1024] = np.arange(1024)
    wr = request_over(mr.address, mr.address + 4096, 4096, wr_id=77, source_lkey=mr.lkey, destination_lkey=mr.lkey)
    qp.post_send(wr)
    completion = one_completion(cq)
    assert (completion.wr_id, completion.status, completion.byte_len) == (77, Status.SUCCESS, 4096)
    assert (completion.qp_num, completion.mid) == (qp.qp_num, 0)
    assert np.array_equal(data[1024:], np.arange(1024))
    assert (qp.position, qp.mid) == (1, 1)


@pytest.mark.parametrize(
    ("op", "dtype", "text"), [("LAND", "F32", "LAND of type F32"), ("NONE", "U8", "NONE of type U8")]
)
def test_unsupported_operation_is_refused_before_posting(joined, op, dtype, text):
    qp, cq = joined
    data = np.ones(8, "f4")
    wr = request_over(data.ctypes.data, data.ctypes.data, 32)
    wr.op, wr.dtype = int(Op[op]), int(DType[dtype])
    for _ in range(2):
        with pytest.raises(errors.NotSupported, match=text):
            qp.post_send(wr)
    wr.op = 200
    with pytest.raises(errors.NotSupported, match="operation 200"):
        qp.post_send(wr)
    assert (qp.position, qp.mid) == (0, 0)
    qp.post_send(request_over(data.ctypes.data, data.ctypes.data, 32))
    assert one_completion(cq).status == Status.SUCCESS


@pytest.mark.parametrize(
    ("shift", "length"), [(0, 8196), (8188, 8), (-4, 8), (1 << 40, 8)], ids=["long", "end", "before", "far"]
)
def test_outside_the_region(pd, joined, shift, length):
    qp, cq = joined
    mr = MR(pd, 8192)
    qp.post_send(request_over(mr.address + shift, mr.address, length, source_lkey=mr.lkey, destination_lkey=mr.lkey))
    assert one_completion(cq).status == Status.LOCAL_PROTECTION_ERROR


def test_rights_of_a_region(pd, joined):
    qp, cq = joined
    memory, lkey = ffi.new("void **"), ffi.new("uint32_t *")
    assert library().fanin_allocate(pd.context.handle, 64, Access.READ, memory, lkey) == Status.SUCCESS
    place = int(ffi.cast("uintptr_t", memory[0]))
    qp.post_send(request_over(place, place, 64, source_lkey=lkey[0], destination_lkey=lkey[0]))
    assert one_completion(cq).status == Status.LOCAL_PROTECTION_ERROR
    assert library().fanin_deregister(pd.context.handle, lkey[0]) == Status.SUCCESS
    library().fanin_unmap(memory[0], 64)


def test_closed_region_is_gone_from_the_device(pd, joined):
    qp, cq = joined
    mr = MR(pd, 64)
    view = np.frombuffer(mr.buf, "f4")
    mr.close()
    mr.close()
    qp.post_send(request_over(mr.address, mr.address, 64, source_lkey=mr.lkey, destination_lkey=mr.lkey))
    assert one_completion(cq).status == Status.LOCAL_PROTECTION_ERROR
    assert np.all(view == 0)


def test_unmapped_process_memory(joined):
    qp, cq = joined
    memory = mmap.mmap(-1, 8192)
    address = np.frombuffer(memory, "u1").ctypes.data
    memory.close()
    qp.post_send(request_over(address, address, 8192))
    assert one_completion(cq).status == Status.LOCAL_PROTECTION_ERROR


def test_wait_times_out(joined):
    assert joined[1].wait(0) is False
    assert joined[1].wait(0.05) is False


@pytest.mark.parametrize("end", ["leave", "close"])
def test_outstanding_requests_are_flushed_at_the_end(pd, make_job, end):
    """The job's other rank has joined, and posts nothing."""
    job, queues = make_job(2), [CQ(pd.context), CQ(pd.context)]
    first, other = (CollectiveQP(pd, cq) for cq in queues)
    for rank, qp in enumerate((first, other)):
        qp.start_join(job.membership(rank))
    for qp in (first, other):
        qp.finish_join(10)
    data = np.ones(8, "f4")
    for wr_id in range(100):
        first.post_send(request_over(data.ctypes.data, data.ctypes.data, 32, wr_id=wr_id))
    getattr(first, end)()
    completions = [completion for _ in range(3) for completion in queues[0].poll(64)[1]]
    assert [(each.wr_id, each.status) for each in completions] == [(n, Status.FLUSHED) for n in range(100)]


def test_post_before_join(pd):
    qp = CollectiveQP(pd, CQ(pd.context))
    with pytest.raises(errors.NotConfigured):
        qp.post_send(request_over(0, 0, 4))
    with pytest.raises(errors.NotConfigured):
        qp.leave()


def test_join_twice(joined, make_job):
    with pytest.raises(errors.InvalidRequest):
        joined[0].join(make_job(1).membership(0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rank_bitmap": 0},
        {"rank_bitmap": 2},
        {"slots": 0},
        {"slots": 3},
        {"chunk": 128},
        {"chunk": 5000},
        {"node_count": 0},
        {"route": 1},
        {"route": 2},
        {"node_count": 2},
    ],
    ids=str,
)
def test_join_that_contradicts_itself(pd, wrong):
    qp = CollectiveQP(pd, CQ(pd.context))
    with pytest.raises(errors.InvalidRequest):
        qp.join(Membership(**{"jid": 1, "key": 1, **wrong}), BOUND_S)


def register(context, descriptor, length, offset=0, access=READ_WRITE, address=0x10000):
    lkey = ffi.new("uint32_t *")
    pointer = ffi.cast("void *", address)
    return library().fanin_register(context.handle, descriptor, offset, pointer, length, access, lkey)


@pytest.fixture
def sealed():
    """A memfd of 8192 bytes that can not shrink."""
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 8192)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    yield descriptor
    os.close(descriptor)


def test_memfd_that_may_shrink_is_refused(context):
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 8192)
    assert register(context, descriptor, 8192) == Status.LOCAL_PROTECTION_ERROR
    os.close(descriptor)


def test_ordinary_file_is_refused(context, tmp_path):
    with open(tmp_path / "file", "w+b") as file:
        file.truncate(8192)
        assert register(context, file.fileno(), 8192) == Status.LOCAL_PROTECTION_ERROR


@pytest.mark.parametrize(
    ("bounds", "status"),
    [
        ({"length": 8192}, "SUCCESS"),
        ({"length": 100, "offset": 4000}, "SUCCESS"),
        ({"length": 0}, "INVALID_REQUEST"),
        ({"length": 8193}, "LOCAL_PROTECTION_ERROR"),
        ({"length": 1, "offset": 8192}, "LOCAL_PROTECTION_ERROR"),
        ({"length": 8192, "offset": 1}, "LOCAL_PROTECTION_ERROR"),
        ({"length": 8192, "offset": (1 << 64) - 1}, "LOCAL_PROTECTION_ERROR"),
        ({"length": (1 << 64) - 1}, "INVALID_REQUEST"),
        ({"length": 8192, "address": (1 << 63) - 100}, "INVALID_REQUEST"),
        ({"length": 8192, "access": 0}, "INVALID_REQUEST"),
        ({"length": 8192, "access": 128}, "INVALID_REQUEST"),
        ({"length": 8192, "access": 2 | 8}, "INVALID_REQUEST"),  # a right of ordinary traffic only
    ],
    ids=str,
)
def test_bounds_of_a_region(context, sealed, bounds, status):
    assert register(context, sealed, **bounds) == Status[status]


def test_sealed_against_writing(context, sealed):
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert register(context, sealed, 8192) == Status.LOCAL_PROTECTION_ERROR
    assert register(context, sealed, 8192, access=int(Access.READ)) == Status.SUCCESS


def test_quotas_of_a_client(context, sealed):
    limits = context.query_device()
    queues = [CQ(context) for _ in range(limits.max_cq)]
    with pytest.raises(errors.NoResources):
        CQ(context)
    queues[2].close()
    assert CQ(context).index == 2
    assert [register(context, sealed, 64) for _ in range(9)] == [0] * 8 + [Status.NO_RESOURCES]


@contextlib.contextmanager
def file_limit(pid, length):
    """Like `ulimit -f` for a process."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (length, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_file_limit_of_a_program_is_named(pd):
    """Registered memory is a file in memory."""
    with file_limit(0, 1 << 20), pytest.raises(errors.NoResources, match=r"limit of file sizes .ulimit -f.") as caught:
        MR(pd, 2 << 20)
    assert caught.value.remedy.startswith("Raise the limit")
    MR(pd, 2 << 20).close()


def test_file_limit_of_a_device_is_named(device):
    """Fewer slots would not help."""
    with (
        file_limit(device.process.pid, 4096),
        pytest.raises(errors.NoResources, match=r"its log .*ulimit -f") as caught,
    ):
        Context(device.socket)
    assert "slots" not in caught.value.remedy
    Context(device.socket).close()


def test_completion_queue_in_use_is_closed_after_its_queue_pairs(pd):
    cq = CQ(pd.context)
    qp = CollectiveQP(pd, cq)
    cq.close()
    assert qp.closed
    with pytest.raises(errors.InvalidRequest, match="closed"):
        CollectiveQP(pd, cq)


def test_close_order_and_context_managers(device):
    with Context(device.socket) as context, PD(context) as pd, CQ(context) as cq:
        qp, mr = CollectiveQP(pd, cq), MR(pd, 100)
    assert all(thing.closed for thing in (context, pd, cq, qp, mr))
    with pytest.raises(errors.InvalidRequest, match="closed"):
        cq.poll()
    with pytest.raises(errors.InvalidRequest, match="closed"):
        context.status()


def test_read_and_write_of_a_region(pd):
    mr = MR(pd, 10)
    mr.write(b"abcdef", 3, 2)
    assert mr.read(5, 1) == b"\0abc\0"
    with pytest.raises(errors.InvalidRequest):
        mr.read(5, 6)
    with pytest.raises(errors.InvalidRequest):
        MR(pd, 0)


def test_a_device_without_ordinary_traffic_refuses_it(pd, joined):
    _, cq = joined
    with pytest.raises(errors.NotSupported):
        QP(pd, QPInitAttr(scq=cq))
    with pytest.raises(errors.NotSupported):
        MR(pd, 64, 1)


def test_objects_print_as_columns(pd, joined):
    qp, cq = joined
    mr = MR(pd, 64)
    wr = request_over(1, 2, 3)
    for thing in (pd.context, pd, cq, qp, mr, wr, SGE(1, 2, LKEY_PROCESS)):
        lines = str(thing).splitlines()
        assert len({line.index(":") for line in lines}) == 1


def test_completion_names_the_lost_device():
    lost = WC(1, Status.PEER_LOST, 1, 0, 0, 7, 0, 0, 0b11, 1, 0x0A4D00FE)
    assert "10.77.0.254" in str(lost)
    assert "none" in str(lost._replace(lost_device=0))


def test_one_memory_with_several_devices(device, own_device, make_job):
    """A communicator over each of two NICs works on the same bytes, without a copy."""
    with SharedMemory(4096) as memory:
        array = np.frombuffer(memory.buf, "f4")
        for number, each in enumerate((device, own_device)):
            with Communicator(make_job(1), 0, each.socket) as communicator:
                MR(communicator.connection.pd, memory.length, memory=memory)
                array[:] = number
                address = array.ctypes.data
                key = library().fanin_lkey_of(communicator.connection.context.handle, ffi.cast("void *", address), 4096)
                assert key != LKEY_PROCESS
                communicator.broadcast(array)
                communicator.allreduce(array, out=array)
                assert (array == number).all()


def test_memory_of_another_process():
    with SharedMemory(64) as memory, SharedMemory.of(os.dup(memory.fd)) as other:
        memory.buf[3] = 7
        assert (other.buf[3], other.length) == (7, 64)


def test_shared_memory_that_can_not_be_had(pd):
    for length in (0, -1):
        with pytest.raises(errors.InvalidRequest, match="Ask for a byte or more"):
            SharedMemory(length)
    with pytest.raises(errors.NoResources, match="Ask for less memory"):
        SharedMemory(1 << 62)
    unsealed = os.memfd_create("test")
    os.ftruncate(unsealed, 64)
    for fd in (unsealed, os.open("/dev/null", os.O_RDONLY)):
        with pytest.raises(errors.InvalidRequest, match="not of sealed shared memory"):
            SharedMemory.of(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    with SharedMemory(64) as memory:
        for wrong in ({"length": 65}, {"length": 64, "address": memory.address}):
            with pytest.raises(errors.InvalidRequest, match="long enough, and no address"):
                MR(pd, memory=memory, **wrong)
    with pytest.raises(errors.InvalidRequest, match="Give an open SharedMemory"):
        MR(pd, 64, memory=memory)
