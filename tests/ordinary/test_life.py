"""Queue pairs whose process or device ends, clients that write garbage, and collectives at the same time."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from fanin import Communicator, device_status
from fanin.driver import ffi, library
from fanin.errors import DeviceLost, QueueFull
from fanin.verbs import GID, SRQ, AHAttr, GlobalRoute, SendWR
from fanin.verbs.enums import (
    IBV_QPS_ERR,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
    IBV_WR_RDMA_READ,
    IBV_WR_RDMA_WRITE,
    IBV_WR_SEND,
)
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire import abi
from tests.e2e.fabrics import Bench, eventually, pid_of
from tests.e2e.members import placed
from tests.host.conftest import BOUND_S
from tests.ordinary import endless_sender, written_to
from tests.ordinary.conftest import Connected
from tests.ordinary.sides import MEMORY, Side, attributes, connect, sockets

FAST = {"timeout": 10, "retry_cnt": 3}  # 4 ms each


def holdings(socket: str) -> dict[str, int]:
    """The clients' objects of ordinary traffic on a device."""
    return device_status(socket)["ordinary"]


@contextmanager
def sending(socket: str, other: Side) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that writes into the memory of `other` for ever, and the number of its queue pair."""
    arguments = [socket, other.gid.gid, other.qp.qp_num, other.mr.rkey, other.mr.address]
    command = [sys.executable, "-m", endless_sender.__name__, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            qpn = int(process.stdout.readline())
            other.qp.to_rts(attributes(other, qpn, ah_attr=route_to(socket), **FAST))
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "one is done\n"
            yield process, qpn
        finally:
            process.kill()


def route_to(socket: str) -> AHAttr:
    return AHAttr(GlobalRoute(GID(device_status(socket)["address"])))


def test_a_process_that_is_killed(running: Running) -> None:
    """Its queue pairs, shared receive queue and regions go with it. The other side notices when it sends."""
    first, second = sockets(running)
    before = holdings(first)
    with closing(Side(second)) as other, sending(first, other) as (process, _):
        assert holdings(first) == {
            "queue_pairs": before["queue_pairs"] + 2,
            "shared_queues": before["shared_queues"] + 1,
            "regions": before["regions"] + 1,
        }
        process.kill()
        process.wait()
        assert eventually(lambda: holdings(first), lambda now: now == before)
        other.send(IBV_WR_SEND, other.piece(8))
        assert other.statuses(1) == ["RETRY_EXC_ERR"]
        assert other.qp.qp_state == IBV_QPS_ERR
    assert device_status(first)["counters"]["ordinary_drop_unknown_queue_pair"] > 0


@contextmanager
def reached(socket: str, other: Side, kind: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process with memory for `other` to write: it, and the key and the address of its memory."""
    command = [sys.executable, "-m", written_to.__name__, socket, other.gid.gid, str(other.qp.qp_num), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            qpn, rkey, address = map(int, process.stdout.readline().split())
            other.qp.to_rts(attributes(other, qpn, ah_attr=route_to(socket), **FAST))
            yield process, rkey, address
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["mapped", "process"])
def test_a_process_whose_memory_is_written_is_killed(running: Running, kind: str) -> None:
    """While the writes arrive. The writer hears of it, the objects of the process are gone, and its device lives."""
    first, second = sockets(running)
    before = holdings(first)
    with closing(Side(second)) as other, reached(first, other, kind) as (process, rkey, address):
        statuses: list[str] = []
        for number in range(5000):
            request = SendWR(number, IBV_WR_RDMA_WRITE, sg=[other.piece(written_to.LENGTH)])
            request.set_wr_rdma(rkey, address)
            other.qp.post_send(request)
            if number == 50:
                assert set(statuses) == {"SUCCESS"}
                process.kill()
            if number >= 16:
                statuses += other.statuses(1)
            if statuses and statuses[-1] != "SUCCESS":
                break
        assert len(statuses) > 50 - 16
        assert statuses[-1] == "RETRY_EXC_ERR"
        assert eventually(lambda: holdings(first), lambda now: now == before)
    with closing(Side(first)) as one, closing(Side(second)) as other:
        connect(one, other)
        for writer, target in ((one, other), (other, one)):
            writer.send(IBV_WR_RDMA_WRITE, writer.piece(1000), remote=(target, 0))
            writer.completion()


def test_a_device_that_is_killed(bench: Bench) -> None:
    running = bench.up(Shape(2, 2))
    first, second = sockets(running)
    with closing(Side(first)) as one, closing(Side(second)) as other:
        connect(one, other, **FAST)
        one.send(IBV_WR_RDMA_WRITE, one.piece(1000), remote=(other, 0))
        one.completion()
        os.kill(pid_of(running, running.fabric.nics[1].name), 9)
        one.send(IBV_WR_RDMA_WRITE, one.piece(1000), remote=(other, 0))
        one.send(IBV_WR_RDMA_READ, one.piece(1000), remote=(other, 0))
        assert one.statuses(2) == ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]
        with pytest.raises(DeviceLost):
            other.completions(1)
        other.context.abandon()


def test_rings_full_of_rubbish(running: Running, connected: Connected) -> None:
    """A client that overwrites its own rings harms only itself. Requests of random bits reach the transport, and likely
    ones the queue pair that the victim is connected to."""
    one, other = connected()
    target = Side(sockets(running)[1])
    known = control_regions()
    victim = Side(sockets(running)[0])
    (start,) = control_regions() - known
    rng = np.random.default_rng(5)
    for number in range(30):
        for side in (victim, target):
            side.qp.close()
            side.qp = side.make_qp((IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD)[number % 3])
        connect(victim, target, **FAST)
        scribble(start, victim, rng, is_likely=number % 2 == 0)
        with suppress(QueueFull):  # by the counters of the ring
            victim.receive(victim.piece(8))  # rings the doorbell
        victim.cq.wait(0.02)
        while victim.cq.poll(64)[0]:
            pass
    one.fill()
    one.send(IBV_WR_RDMA_WRITE, one.piece(5000), remote=(other, 0))
    one.completion()
    assert np.array_equal(one.data[:5000], other.data[:5000])
    assert target.context.status()["counters"]["ordinary_rx_packets"] > 10
    victim.close()
    target.close()


def control_regions() -> set[int]:
    """The addresses of the control regions of this process's contexts."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {int(line.partition("-")[0], 16) for line in lines if "fanin-control" in line}


def scribble(start: int, side: Side, rng: np.random.Generator, *, is_likely: bool) -> None:
    limits = library().fanin_limits(side.context.handle)
    ring = start + limits.oq_offset + side.qp.index * limits.oq_stride
    fill_ring(ring, abi.SEND_WQE, abi.ORDINARY_DEPTH, side, rng, is_likely=is_likely)
    fill_ring(ring + limits.oq_receive, abi.RECEIVE_WQE, abi.ORDINARY_DEPTH, side, rng, is_likely=is_likely)


def fill_ring(
    place: int, entry: np.dtype, depth: int, side: Side, rng: np.random.Generator, *, is_likely: bool
) -> None:
    """Random requests into a ring, with counters that count them, or with any. is_likely: opcodes and keys are often
    right, so that requests pass more checks."""
    entries = rng.integers(0, 256, depth * entry.itemsize, np.uint8).view(entry)
    head = np.zeros(1, abi.RING)
    head["producer"] = 200 if is_likely else rng.integers(0, 1 << 32)
    if is_likely:
        entries["sge_count"] %= 3
        entries["sge"]["lkey"] = side.mr.lkey
        entries["sge"]["address"] = side.mr.address + entries["sge"]["address"] % MEMORY
        entries["sge"]["length"] %= 5000
    if is_likely and entry is abi.SEND_WQE:
        entries["opcode"] %= 8
    for data, offset in ((entries, abi.RING.itemsize), (head, 0)):
        ffi.memmove(ffi.cast("char *", place + offset), data.tobytes(), data.nbytes)


def test_rings_of_shared_queues_full_of_rubbish(running: Running, connected: Connected) -> None:
    """Messages arrive for requests of random bits; queues with absurd counters count as empty."""
    one, other = connected()
    known = control_regions()
    victim = Side(sockets(running)[0])
    (start,) = control_regions() - known
    target, limits = Side(sockets(running)[1]), library().fanin_limits(victim.context.handle)
    rng, ends = np.random.default_rng(6), set()
    for number in range(20):
        srq = SRQ(victim.pd)
        kind = (IBV_QPT_RC, IBV_QPT_UC)[number // 2 % 2]
        victim.qp, target.qp = victim.make_qp(kind, srq=srq), target.make_qp(kind)
        connect(target, victim, rnr_retry=0)
        ring = start + limits.srq_offset + srq.index * limits.srq_stride
        is_likely = number % 2 == 0
        fill_ring(ring, abi.RECEIVE_WQE, abi.SHARED_DEPTH, victim, rng, is_likely=is_likely)
        for _ in range(3):
            target.send(IBV_WR_SEND, target.piece(1000))
        ends |= {(kind, is_likely, status) for status in target.statuses(3)}
        while victim.cq.poll(64)[0]:
            pass
        srq.close()
        target.qp.close()
    assert ends >= {(IBV_QPT_RC, True, "SUCCESS"), (IBV_QPT_RC, False, "RNR_RETRY_EXC_ERR")}
    one.fill()
    one.send(IBV_WR_RDMA_WRITE, one.piece(5000), remote=(other, 0))
    one.completion()
    assert np.array_equal(one.data[:5000], other.data[:5000])
    victim.close()
    target.close()


def test_beside_an_allreduce(running: Running, connected: Connected) -> None:
    """Both have right results at the same time."""
    one, other = connected()
    job, job_sockets = placed(running, 4, "tree", 64)
    stop = threading.Event()

    def reduce(rank: int) -> int:
        with Communicator(job, rank, job_sockets[rank], timeout=BOUND_S) as member:
            rounds = 0
            array = member.alloc(1 << 18)
            while True:
                array[:] = rank + rounds
                flag = np.array([1.0 if stop.is_set() else 0.0])
                result = member.allreduce(array)
                assert result[0] == result[-1] == 6 + 4 * rounds
                rounds += 1
                if member.allreduce(flag)[0]:
                    return rounds

    with ThreadPoolExecutor(4) as pool:
        ranks = [pool.submit(reduce, rank) for rank in range(4)]
        try:
            for number in range(100):
                one.fill()
                one.send(IBV_WR_RDMA_WRITE, one.piece(1 << 20), remote=(other, number % 3), wr_id=number)
                assert one.completion().wr_id == number
                assert np.array_equal(other.data[number % 3 :][: 1 << 20], one.data[: 1 << 20])
        finally:
            stop.set()
        assert all(rank.result(BOUND_S) > 1 for rank in ranks)
