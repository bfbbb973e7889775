"""Every operation of RC, UC and UD between two NICs: data, completions, sizes from nothing to 1 MiB."""

import itertools

import numpy as np
import pytest

from fanin.verbs import AH, MR, SGE, AHAttr, GlobalRoute, RecvWR, SendWR
from fanin.verbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_INVALIDATE,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
    IBV_SEND_INLINE,
    IBV_SEND_SIGNALED,
    IBV_WC_COMP_SWAP,
    IBV_WC_FETCH_ADD,
    IBV_WC_GRH,
    IBV_WC_RDMA_READ,
    IBV_WC_RDMA_WRITE,
    IBV_WC_RECV,
    IBV_WC_RECV_RDMA_WITH_IMM,
    IBV_WC_SEND,
    IBV_WC_WITH_IMM,
    IBV_WC_WITH_INV,
    IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_WR_ATOMIC_FETCH_AND_ADD,
    IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND,
    IBV_WR_SEND_WITH_IMM,
    IBV_WR_SEND_WITH_INV,
)
from tests.ordinary.conftest import Connected
from tests.ordinary.sides import ALL_RIGHTS, MEMORY, QKEY, SIZES, Side, attributes

GRH = 40
CONNECTIONS = pytest.mark.parametrize("kind", [IBV_QPT_RC, IBV_QPT_UC], ids=["rc", "uc"])
MTUS = pytest.mark.parametrize("mtu", [1, 3], ids=["mtu256", "mtu1024"])


@CONNECTIONS
@MTUS
def test_send(connected: Connected, kind: int, mtu: int) -> None:
    one, other = connected(kind, path_mtu=mtu)
    for number, (size, opcode) in enumerate(itertools.product(SIZES, (IBV_WR_SEND, IBV_WR_SEND_WITH_IMM))):
        one.fill()
        other.data[:] = 0
        other.receive(other.piece(size + 8), wr_id=number)
        one.send(opcode, one.piece(size), wr_id=1000 + number, imm_data=0x01020304)
        sent, received = one.completion(), other.completion()
        assert (sent.wr_id, sent.opcode, sent.qp_num) == (1000 + number, IBV_WC_SEND, one.qp.qp_num)
        assert (received.wr_id, received.opcode, received.byte_len) == (number, IBV_WC_RECV, size)
        has_immediate = opcode == IBV_WR_SEND_WITH_IMM
        assert (received.wc_flags, received.imm_data) == ((IBV_WC_WITH_IMM, 0x01020304) if has_immediate else (0, 0))
        assert np.array_equal(other.data[:size], one.data[:size])
        assert not other.data[size : size + 8].any()


@CONNECTIONS
@MTUS
def test_write(connected: Connected, kind: int, mtu: int) -> None:
    one, other = connected(kind, path_mtu=mtu)
    for size in SIZES:
        one.fill()
        other.data[:] = 0
        one.send(IBV_WR_RDMA_WRITE, one.piece(size, 3), remote=(other, 5))
        assert one.completion().opcode == IBV_WC_RDMA_WRITE
        other.receive(wr_id=9)  # its completion comes behind all data
        one.send(IBV_WR_RDMA_WRITE_WITH_IMM, one.piece(size, 3), remote=(other, MEMORY // 2), imm_data=size)
        assert one.completion().opcode == IBV_WC_RDMA_WRITE
        told = other.completion()
        assert (told.wr_id, told.opcode, told.byte_len) == (9, IBV_WC_RECV_RDMA_WITH_IMM, size)
        assert (told.wc_flags, told.imm_data) == (IBV_WC_WITH_IMM, size)
        for place in (5, MEMORY // 2):
            assert np.array_equal(other.data[place : place + size], one.data[3 : 3 + size])
        assert not other.data[:5].any()
        assert not other.data[5 + size : MEMORY // 2].any()


@MTUS
def test_read(connected: Connected, mtu: int) -> None:
    one, other = connected(path_mtu=mtu, max_rd_atomic=4, max_dest_rd_atomic=4)
    for size in SIZES:
        other.fill()
        one.data[:] = 0
        one.send(IBV_WR_RDMA_READ, one.piece(size, 1), remote=(other, 7))
        done = one.completion()
        assert done.opcode == IBV_WC_RDMA_READ
        assert np.array_equal(one.data[1 : 1 + size], other.data[7 : 7 + size])
        assert not one.data[1 + size :].any()


def test_atomics(connected: Connected) -> None:
    one, other = connected(max_rd_atomic=4, max_dest_rd_atomic=4)
    word, found = other.data[:8].view(np.uint64), one.data[:8].view(np.uint64)
    word[0] = 2**63 + 5
    request = SendWR(1, IBV_WR_ATOMIC_FETCH_AND_ADD, sg=[one.piece(8)])
    request.set_wr_atomic(other.mr.rkey, other.mr.address, 2**63)
    one.qp.post_send(request)
    assert one.completion().opcode == IBV_WC_FETCH_ADD
    assert (int(found[0]), int(word[0])) == (2**63 + 5, 5)
    for compared, after in ((4, 5), (5, 77)):
        before = int(word[0])
        request = SendWR(2, IBV_WR_ATOMIC_CMP_AND_SWP, sg=[one.piece(8)])
        request.set_wr_atomic(other.mr.rkey, other.mr.address, compared, 77)
        one.qp.post_send(request)
        assert one.completion().opcode == IBV_WC_COMP_SWAP
        assert (int(found[0]), int(word[0])) == (before, after)


def test_memory_of_the_process(connected: Connected) -> None:
    """Memory other than memfd: the devices reach it through the process."""
    one, other = connected(max_rd_atomic=4, max_dest_rd_atomic=4)
    size = 300_001
    source, target = np.random.default_rng(4).integers(0, 256, size, np.uint8), np.zeros(size, np.uint8)
    ours = MR(one.pd, size, IBV_ACCESS_LOCAL_WRITE, address=source.ctypes.data)
    theirs = MR(other.pd, size, ALL_RIGHTS, address=target.ctypes.data)
    write = SendWR(1, IBV_WR_RDMA_WRITE, sg=[one.piece(size, mr=ours)])
    write.set_wr_rdma(theirs.rkey, theirs.address)
    one.qp.post_send(write)
    one.completion()
    assert np.array_equal(target, source)
    source[:] = 0
    read = SendWR(2, IBV_WR_RDMA_READ, sg=[one.piece(size, mr=ours)])
    read.set_wr_rdma(theirs.rkey, theirs.address)
    one.qp.post_send(read)
    one.completion()
    assert np.array_equal(target, source)
    word = target[:8].view(np.uint64) if target.ctypes.data % 8 == 0 else None
    assert word is not None, "numpy aligns"
    before = int(word[0])
    add = SendWR(3, IBV_WR_ATOMIC_FETCH_AND_ADD, sg=[one.piece(8)])
    add.set_wr_atomic(theirs.rkey, theirs.address, 9)
    one.qp.post_send(add)
    one.completion()
    assert int(word[0]) == (before + 9) % 2**64
    assert int(one.data[:8].view(np.uint64)[0]) == before


def test_pieces_and_inline_data(connected: Connected) -> None:
    one, other = connected()
    one.fill()
    gathered = [one.piece(length, offset) for offset, length in ((0, 1), (10, 0), (100, 700), (5000, 3000))]
    scattered = [other.piece(length, offset) for offset, length in ((0, 1000), (2000, 1), (3000, 4000))]
    other.receive(*scattered)
    one.send(IBV_WR_SEND, *gathered)
    one.completion()
    assert other.completion().byte_len == 3701
    sent = np.concatenate([one.data[0:1], one.data[100:800], one.data[5000:8000]])
    got = np.concatenate([other.data[0:1000], other.data[2000:2001], other.data[3000:7000]])
    assert np.array_equal(got[:3701], sent)
    text = np.frombuffer(b"not registered, and changed at once", np.uint8).copy()
    before = text.tobytes()
    other.receive(other.piece(100))
    one.send(IBV_WR_SEND, SGE(text.ctypes.data, len(text), 0), send_flags=IBV_SEND_SIGNALED | IBV_SEND_INLINE)
    text[:] = 0
    one.completion()
    assert other.completion().byte_len == len(before)
    assert other.data[: len(before)].tobytes() == before


def test_send_with_invalidate(connected: Connected) -> None:
    one, other = connected()
    rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_INVALIDATE
    region = MR(other.pd, 64, rights)
    write = SendWR(1, IBV_WR_RDMA_WRITE, sg=[one.piece(64)])
    write.set_wr_rdma(region.rkey, region.address)
    one.qp.post_send(write)
    one.completion()
    other.receive(other.piece(8))
    one.send(IBV_WR_SEND_WITH_INV, one.piece(8), imm_data=region.rkey)
    one.completion()
    told = other.completion()
    assert (told.wc_flags, told.imm_data) == (IBV_WC_WITH_INV, region.rkey)
    one.qp.post_send(write)
    assert one.statuses(1) == ["REM_ACCESS_ERR"]


def datagram(one: Side, other: Side, size: int, qkey: int = QKEY, opcode: int = IBV_WR_SEND) -> None:
    request = SendWR(1, opcode, sg=[one.piece(size)], imm_data=size)
    request.set_wr_ud(AH(one.pd, AHAttr(GlobalRoute(other.gid))), other.qp.qp_num, qkey)
    one.qp.post_send(request)


def test_datagrams(connected: Connected) -> None:
    one, other = connected(IBV_QPT_UD)
    longest = one.context.query_device().path_mtu
    for size in (0, 1, 3, 4, 255, 256, 257, 1000, longest):
        one.fill()
        other.data[:] = 0
        other.receive(other.piece(GRH + size))
        datagram(one, other, size, opcode=IBV_WR_SEND_WITH_IMM)
        one.completion()
        told = other.completion()
        assert (told.byte_len, told.imm_data) == (GRH + size, size)
        assert told.wc_flags == IBV_WC_GRH | IBV_WC_WITH_IMM
        assert (told.src_qp, told.source) == (one.qp.qp_num, one.gid.ipv4)
        assert np.array_equal(other.data[GRH : GRH + size], one.data[:size])


def test_a_datagram_with_another_key_is_dropped(connected: Connected) -> None:
    one, other = connected(IBV_QPT_UD)
    other.receive(other.piece(1000))
    before = other.context.status()["counters"]["ordinary_drop_qkey"]
    datagram(one, other, 10, qkey=QKEY + 1)
    one.completion()
    assert not other.cq.wait(0.2)
    assert other.context.status()["counters"]["ordinary_drop_qkey"] == before + 1
    datagram(one, other, 11)
    assert other.completion().byte_len == GRH + 11


def test_many_requests_in_order(connected: Connected) -> None:
    """More than the queues hold, unsignaled but for each 16th; a queue pair of the other side sends as well."""
    one, other = connected()
    count, size = 1024, 3000
    one.fill()
    for number in range(200):
        other.receive(other.piece(size, size * (number % 200)), wr_id=number)
    received = []
    posted = 0
    while len(received) < count:
        while posted < count and posted - len(received) < 200:
            one.qp.post_send(SendWR(posted, IBV_WR_SEND, sg=[one.piece(size, posted % 200 * size)]))
            posted += 1
        for done in other.completions(1):
            assert done.status == 0
            received.append(done.wr_id)
            other.qp.post_recv(RecvWR(done.wr_id, sg=[other.piece(size, size * done.wr_id)]))
        one.cq.poll(64)
    assert received == [number % 200 for number in range(count)]
    assert np.array_equal(other.data[: 200 * size], one.data[: 200 * size])


def test_queue_pairs_of_one_device_reach_each_other(connected: Connected) -> None:
    one, _ = connected()
    mate = one.make_qp()
    first = one.make_qp()
    first.to_rts(attributes(one, mate.qp_num))
    mate.to_rts(attributes(one, first.qp_num))
    one.fill()
    mate.post_recv(RecvWR(5, sg=[one.piece(1000, 100_000)]))
    first.post_send(SendWR(6, IBV_WR_SEND, sg=[one.piece(1000)]))
    assert sorted(done.wr_id for done in one.completions(2)) == [5, 6]
    assert np.array_equal(one.data[:1000], one.data[100_000:101_000])
