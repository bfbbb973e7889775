"""Programs about groups: several of them, refusals, losses."""

import gc
import os
import signal
import socket
import struct
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import fanin_torch
from fanin.errors import Flushed, InvalidRequest, NotSupported, PeerLost, Timeout
from fanin_torch.process_group import FaninProcessGroup
from fanin_torch.registered_memory import SHARED, RegisteredMemory
from tests.torch.rank import await_test, tell_test

CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group


def groups() -> None:
    """Groups that overlap, groups of one, and many one after the other."""
    rank, size = dist.get_rank(), dist.get_world_size()
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    odd = dist.new_group([1, 3])
    alone = [dist.new_group([other]) for other in range(size)][rank]
    for _ in range(3):
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=halves[rank // 2])
        assert tensor == (1 if rank < 2 else 5)
        if rank % 2:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=odd)
            assert tensor == 4
        tensor = torch.tensor([float(rank)])
        for call in (dist.all_reduce, dist.barrier, dist.all_gather_into_tensor):
            if call is dist.barrier:
                dist.barrier(group=alone)
            elif call is dist.all_reduce:
                dist.all_reduce(tensor, group=alone)
            else:
                output = torch.zeros(1)
                dist.all_gather_into_tensor(output, tensor, group=alone)
                assert output == rank
        rows = [torch.zeros(1)]
        dist.all_gather(rows, tensor, group=alone)
        dist.reduce_scatter_tensor(tensor, rows[0], group=alone)
        dist.broadcast(tensor, rank, group=alone)
        dist.all_to_all_single(tensor, rows[0], group=alone)
        assert tensor == rank
        columns = [torch.zeros(2, 3).t() for _ in range(3)]  # not contiguous: results come through other memory
        dist.scatter(columns[0], [torch.ones(3, 2)], rank, group=alone)
        dist.reduce_scatter(columns[1], [torch.ones(3, 2)], group=alone)
        dist.all_to_all([columns[2]], [torch.ones(3, 2)], group=alone)
        assert all(torch.all(column == 1) for column in columns)
    assert fanin_torch.not_offloaded(alone)["ONE_RANK"] > 0
    for _ in range(20):
        group = dist.new_group(list(range(size)))
        dist.barrier(group=group)
        dist.destroy_process_group(group)


def groups_in_a_world_of_gloo() -> None:
    """Groups of Fanin that overlap, of which the second is a rank's first."""
    for pair in ([0, 1], [1, 2]):
        group = dist.new_group(pair, backend="fanin")
        if dist.get_rank() in pair:
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor == 2
    dist.barrier()  # rank 0 has the store, which the others need so far


def refusals() -> None:
    """Errors are named, and do not harm later calls."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with pytest.raises(NotSupported, match="band of"):
        dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND)
    with pytest.raises(RuntimeError, match="INVALID_REQUEST"):
        dist.all_gather_into_tensor(torch.ones(3), torch.ones(7))
    with pytest.raises(InvalidRequest, match="sizes"):
        dist.all_to_all_single(torch.ones(size), torch.ones(size), [1] * size, [2] * size)
    with pytest.raises(InvalidRequest, match="meta"):
        dist.all_reduce(torch.ones(3, device="meta"))
    with pytest.raises(InvalidRequest, match="layout"):
        dist.broadcast(torch.eye(3).to_sparse(), 0)
    with pytest.raises(NotSupported, match="prod of"):
        dist.reduce(torch.ones(3, dtype=torch.complex64), 0, dist.ReduceOp.PRODUCT)
    sparse = torch.sparse_coo_tensor([[rank]], [2.0], (size,), check_invariants=True)
    dist.all_reduce(sparse)
    assert torch.all(sparse.to_dense() == 2)
    assert fanin_torch.not_offloaded() == {"SPARSE": 1}
    group = dist.group.WORLD
    group.monitored_barrier(timedelta(seconds=60))
    if rank != 3:  # which does not come
        with pytest.raises(Timeout, match="Ranks 3 failed to pass"):
            group.monitored_barrier(timedelta(seconds=5 if rank else 0.5), wait_all_ranks=True)
    dist.barrier()  # the group goes on


def strict() -> None:
    """With FANIN_TORCH_STRICT a call that is not offloaded is an error."""
    with pytest.raises(NotSupported, match="SPARSE"):
        dist.all_reduce(torch.eye(3).to_sparse())
    dist.barrier()


def forked_child() -> None:
    """A rank's child gets none of its memory from `allocate_tensor`, though some is free."""
    group, dtype = dist.group.WORLD, torch.uint8
    kept = group.allocate_tensor(3, dtype=dtype, device="cpu").fill_(1)  # its region has room for others
    group.allocate_tensor(SHARED, dtype=dtype, device="cpu")  # has ended; its region is free
    for length in (3, SHARED):
        child = os.fork()
        if child == 0:
            try:
                group.allocate_tensor(length, dtype=dtype, device="cpu")
            except InvalidRequest as error:
                os._exit(0 if "forked child" in str(error) and isinstance(error, RuntimeError) else 2)
            except BaseException:
                os._exit(3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.all(kept == 1)
    dist.all_reduce(kept)
    assert torch.all(kept == dist.get_world_size())


def absent() -> None:
    """A rank that does not come to a new group is named, and the group that fails releases the device."""
    connection = dist.group.WORLD._device.connection
    users, store = connection._users, dist.HashStore()
    store.set_timeout(timedelta(seconds=0.2))
    with pytest.raises(Timeout, match=r"ranks 0, 2 of a group of 3 did not arrive within 0\.2 s") as raised:
        FaninProcessGroup(store, 1, 3, timedelta(seconds=60))
    assert raised.value.missing_ranks == (0, 2)
    assert connection._users == users
    dist.barrier()


def threads() -> None:
    """Ranks that are threads of one process, in groups that they make, and make again at different times."""
    store, size = dist.HashStore(), 3
    rounds = 10 if "FANIN_SOCKET" in os.environ else 2  # else each starts a NIC

    def act(rank: int) -> weakref.ref[RegisteredMemory]:
        for number in range(rounds):
            group = FaninProcessGroup(dist.PrefixStore(str(number), store), rank, size, timedelta(seconds=60))
            tensor = torch.tensor([float(rank)])
            group.allreduce([tensor]).wait()
            assert tensor == 3
            to, source = (rank + 1) % size, (rank - 1) % size
            received = torch.empty(1)
            receive = group.recv([received], source)
            group.send([torch.tensor([float(rank)])], to).wait()
            receive.wait()
            assert received == source
            memory = weakref.ref(group.memory)
            group.allocate_tensor(3, dtype=torch.float32, device="cpu")  # kept for the next one
            (group.abort if number % 2 else group.shutdown)()
        return memory

    with ThreadPoolExecutor(size) as pool:
        memories = [ended.result() for ended in [pool.submit(act, rank) for rank in range(size)]]
    gc.collect()
    assert [memory() for memory in memories] == [None] * size  # nothing is kept after the last group


def late_rank() -> None:
    """A rank that does not come in time is named, by the group's own time-out."""
    rank = dist.get_rank()
    group = dist.new_group(timeout=timedelta(seconds=1))
    if rank == 1:
        dist.barrier()
        return
    with pytest.raises(Timeout, match="rank 1"):
        dist.all_reduce(torch.ones(3), group=group)
    dist.barrier()


def abort() -> None:
    """A rank that aborts a group fails what is under way there on all ranks, and nothing in other groups."""
    rank, size = dist.get_rank(), dist.get_world_size()
    group, mine = dist.new_group(), dist.new_group()
    tensor = torch.ones(3)
    pending = dist.all_reduce(tensor, group=mine if rank == 1 else group, async_op=True)
    receive = dist.irecv(torch.ones(3), (rank + 1) % size, group=group)
    dist.barrier()
    if rank == 1:
        group.abort()
        with pytest.raises(Flushed):
            receive.wait()
        with pytest.raises(InvalidRequest, match="group that this process has left"):
            dist.all_reduce(tensor, group=group)
        mine.abort()
        with pytest.raises(Flushed):
            pending.wait()
    else:
        with pytest.raises(PeerLost):
            pending.wait()
        group.abort()
    dist.barrier()


def mismatch() -> None:
    """Ranks with different calls all get an error."""
    rank = dist.get_rank()
    kind = torch.int32 if rank == 2 else torch.float32  # of as many bytes
    calls: list[Callable[[Any], object]] = [
        lambda group: dist.all_reduce(torch.ones(3 if rank else 4), group=group),
        lambda group: dist.broadcast(torch.ones(3, dtype=kind), 0, group=group),
        lambda group: dist.all_gather_into_tensor(torch.ones(8, dtype=kind), torch.ones(2, dtype=kind), group),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="OP_MISMATCH"):
            call(dist.new_group())


def survivor() -> None:
    """A rank is killed in mid-step. The others get PeerLost in works, DDP's C++ and messages, agree, and go on."""
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.all_reduce(torch.ones(3))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    if rank in (0, 3):
        dist.send(torch.ones(1), 2, tag=1)  # a connection
    elif rank == 2:
        dist.recv(torch.ones(1), 0, tag=1)
        dist.recv(torch.ones(1), 3, tag=1)
    pending = dist.all_reduce(torch.ones(3), async_op=True) if rank != 2 else None
    tell_test("ready")
    if rank == 2:
        signal.pause()
    assert pending is not None
    await_test()
    unanswered = dist.isend(torch.ones(1), 2) if rank == 3 else None
    with pytest.raises(PeerLost):
        pending.wait()
    assert isinstance(pending.exception(), dist.DistBackendError)
    with pytest.raises(RuntimeError, match="PEER_LOST"):
        pending.get_future().wait()
    with pytest.raises(RuntimeError, match="PEER_LOST"):
        model(torch.ones(2, 4)).sum().backward()
    if rank == 0:
        with pytest.raises(PeerLost):
            dist.recv(torch.ones(1), 2)
    left = fanin_torch.survivors()
    assert left == [0, 1, 3], left
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    if unanswered is not None:
        with pytest.raises((PeerLost, Flushed)):
            unanswered.wait()
    again = dist.PrefixStore("again", store)
    dist.init_process_group("fanin", store=again, rank=left.index(rank), world_size=len(left))
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert torch.all(tensor == size - 1)


def no_device() -> None:
    """Ranks of one machine without devices get a NIC of their own, of a program with this many ranks. Rank 0 tells the
    test which process will end the NIC."""
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert torch.all(tensor == dist.get_world_size())
    assert "FANIN_SOCKET" not in os.environ
    if dist.get_rank() == 0:
        fabric = dist.group.WORLD._device.fabric
        peer = fabric._membership.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        Path(os.environ["TMPDIR"], "guard.pid").write_text(str(CREDENTIALS.unpack(peer)[0]))
