"""Work requests as the device takes them: segments, ranges of blocks, inline data, lists, flags, full queues."""

import dataclasses
import signal
import time

import numpy as np
import pytest

from fanin import device_status, errors
from fanin.verbs import CQ, MR, Address, CollectiveQP, CollectiveWR, packed
from fanin_wire.abi import CQ_DEPTH, SQ_DEPTH, ContributorClass, DType, Op, Status, WqeFlag, WqeOpcode
from tests.host.work_requests import F32, SUM, one_completion, post_patiently, request_over
from tests.waiting import BOUND_S


def test_full_send_queue(pd, joined, device):
    """Posts beyond the ring are refused, not lost: a stopped device takes none."""
    qp, cq = joined
    memory = np.ones(1, "f4")
    device.process.send_signal(signal.SIGSTOP)
    try:
        for i in range(SQ_DEPTH):
            qp.post_send(request_over(memory.ctypes.data, memory.ctypes.data, 4, wr_id=i))
        with pytest.raises(errors.QueueFull):
            qp.post_send(request_over(memory.ctypes.data, memory.ctypes.data, 4))
        assert qp.mid == SQ_DEPTH
    finally:
        device.process.send_signal(signal.SIGCONT)
    found: list[int] = []
    while len(found) < SQ_DEPTH:
        assert cq.wait(BOUND_S)
        found += [completion.wr_id for completion in cq.poll(64)[1]]
    assert found == list(range(SQ_DEPTH))


def test_overrun_of_a_completion_queue(joined, pd, make_job, device):
    """One completion too many ends the job. What was stored is delivered; then the queue only reports the overrun."""
    qp, cq = joined
    memory, overruns = np.ones(1, "f4"), device_status(device.socket)["overruns"]
    for i in range(CQ_DEPTH + 1):
        post_patiently(qp, request_over(memory.ctypes.data, memory.ctypes.data, 4, wr_id=i))
    deadline = time.monotonic() + 20
    while device_status(device.socket)["overruns"] == overruns:
        assert time.monotonic() < deadline
    found: list[int] = []
    while len(found) < CQ_DEPTH:
        assert cq.wait(BOUND_S)
        found += [completion.wr_id for completion in cq.poll(64)[1]]
    assert found == list(range(CQ_DEPTH))
    for look in (cq.poll, cq.wait):
        with pytest.raises(errors.CqOverrun, match=f"of {CQ_DEPTH} entries was full"):
            look()
    qp.close()
    cq.close()
    with CQ(pd.context) as fresh, CollectiveQP(pd, fresh) as other:  # the ring begins anew
        other.join(make_job(1).membership(0), BOUND_S)
        other.post_send(request_over(memory.ctypes.data, memory.ctypes.data, 4, wr_id=1))
        assert one_completion(fresh).wr_id == 1


def test_silent_requests_fill_no_queue(joined):
    """Not signaled, they complete silently; a failed one has a completion."""
    qp, cq = joined
    memory = np.ones(1, "f4")
    silent = request_over(memory.ctypes.data, memory.ctypes.data, 4, flags=0)
    for _ in range(CQ_DEPTH + 10):
        post_patiently(qp, silent)
    post_patiently(qp, request_over(memory.ctypes.data, memory.ctypes.data, 4, wr_id=5))
    assert one_completion(cq).wr_id == 5
    qp.post_send(request_over(0, 0, 4, wr_id=6, flags=0))
    completion = one_completion(cq)
    assert (completion.wr_id, completion.status) == (6, Status.LOCAL_PROTECTION_ERROR)


def test_positions_follow_the_chunks(joined):
    qp, cq = joined
    memory = np.zeros(10_000, "f4")
    for length, position in [(4, 1), (4096, 2), (4100, 4), (40_000, 14)]:
        qp.post_send(request_over(memory.ctypes.data, memory.ctypes.data, length))
        assert one_completion(cq).status == Status.SUCCESS
        assert qp.position == position
    assert qp.mid == 4


def test_positions_follow_the_blocks(joined):
    """A segment never crosses the end of a block; the device counts as the driver does, or it would refuse the next."""
    qp, cq = joined
    memory = np.zeros(60_000, "u1")
    place = memory.ctypes.data
    for block, positions in [(4096, 3), (4000, 3), (5000, 4), (100, 100), (9999, 4)]:
        before = qp.position
        blocks = -(-10_000 // block)
        address = Address(place, place + 30_000, 0, blocks, 0, blocks)
        one = ContributorClass.ONE
        qp.post_send(CollectiveWR(Op.NONE, DType.U8, 10_000, [address], block=block, contributors=one))
        assert one_completion(cq).status == Status.SUCCESS
        assert qp.position - before == positions


def test_ranges_of_blocks(joined):
    """Wanted blocks lie at the destination from the first one on."""
    qp, cq = joined
    source, destination = np.arange(10, dtype="u1"), np.zeros(10, "u1")
    address = Address(source.ctypes.data, destination.ctypes.data, 0, 4, 2, 2)
    qp.post_send(CollectiveWR(Op.NONE, DType.U8, 10, [address], block=3, contributors=ContributorClass.ONE))
    assert one_completion(cq).status == Status.SUCCESS
    assert destination.tolist() == [6, 7, 8, 9, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("length", [4, 8, 12, 16])
def test_inline_data_is_taken_when_it_is_posted(joined, length):
    """The source can be reused at once, and needs no region."""
    qp, cq = joined
    source, destination = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    wr = request_over(source.ctypes.data, destination.ctypes.data, length, inline=True, source_lkey=77)
    qp.post_send(wr)
    source[:] = -1
    assert one_completion(cq).status == Status.SUCCESS
    assert destination.tobytes() == np.arange(4, dtype="f4").tobytes()[:length].ljust(16, b"\0")


def test_too_much_inline(joined):
    data = np.zeros(5, "f4")
    with pytest.raises(errors.InvalidRequest, match="20 bytes of 1 ranks do not fit inline"):
        joined[0].post_send(request_over(data.ctypes.data, data.ctypes.data, 20, inline=True))


def test_one_queue_pair_for_two_ranks(pd, make_job):
    """A leader posts for both, with a list of addresses in registered memory."""
    cq = CQ(pd.context)
    qp = CollectiveQP(pd, cq)
    qp.join(dataclasses.replace(make_job(2).membership(0), rank_bitmap=0b11), BOUND_S)
    mr = MR(pd, 4096)
    data = np.frombuffer(mr.buf, "f4")
    data[:4] = [1, 2, 10, 20]
    addresses = [Address(mr.address + 8 * rank, mr.address + 64 + 8 * rank) for rank in range(2)]
    mr.write(packed(addresses), 64, 128)
    keys = {"source_lkey": mr.lkey, "destination_lkey": mr.lkey}
    qp.post_send(CollectiveWR(SUM, F32, 8, addresses, list_address=mr.address + 128, **keys))
    assert one_completion(cq).status == Status.SUCCESS
    assert data[16:20].tolist() == [11, 22, 11, 22]


def test_long_address_list_lies_in_the_source_region():
    """More addresses than fit into the request: it points to a list in registered memory."""
    addresses = [Address(16 * i, 16 * i + 8) for i in range(5)]
    defaults = {"jid": 1, "mid": 2, "segments": 1, "node": 1, "rank": 31, "seg": 3, "chunk_length": 4096, "route": 0}
    wqe = CollectiveWR(SUM, F32, 4, addresses, source_lkey=5, list_address=0x7000).to_c(defaults)
    assert (wqe.address_count, wqe.rank_bitmap, wqe.flags & 2, wqe.address.source) == (5, 31, 2, 0x7000)
    for missing in ({"source_lkey": 5}, {"list_address": 0x7000}):
        with pytest.raises(errors.InvalidRequest, match="list_address"):
            CollectiveWR(SUM, F32, 4, addresses, **missing).to_c(defaults)


def test_flags_of_a_request():
    defaults = {"jid": 1, "mid": 2, "segments": 1, "node": 1, "rank": 1, "seg": 3, "chunk_length": 4096, "route": 0}
    wqe = request_over(1, 2, 4, flags=WqeFlag.FENCE | WqeFlag.SIGNALED).to_c(defaults)
    assert (wqe.flags, wqe.block, wqe.segments) == (WqeFlag.FENCE | WqeFlag.SIGNALED, 4, 1)
    assert (wqe.address.source_blocks, wqe.address.destination_blocks) == (1, 1)


def test_field_that_does_not_fit(joined):
    with pytest.raises(errors.InvalidRequest, match="fit"):
        joined[0].post_send(request_over(0, 0, 4, deadline_ms=1 << 32))
    with pytest.raises(errors.InvalidRequest):
        joined[0].post_send(CollectiveWR(SUM, F32, 4, [Address(0, 0), Address(0, 0)]))


def test_query_of_a_message(joined):
    """Answered at once; a message that is not under way is done."""
    qp, cq = joined
    memory = np.zeros(1, "f4")
    qp.post_send(request_over(memory.ctypes.data, memory.ctypes.data, 4))
    one_completion(cq)
    qp.post_query(0, wr_id=9)
    completion = one_completion(cq)
    assert (completion.wr_id, completion.mid, completion.opcode) == (9, 0, WqeOpcode.QUERY)
    assert completion.status == Status.SUCCESS
    assert (qp.position, qp.mid) == (1, 1)
