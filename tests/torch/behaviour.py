"""What is asked of a group beyond right results: works, groups, messages, refusals, losses."""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import fanin_torch
from fanin.errors import Flushed, InvalidRequest, NoResources, NotSupported, PeerLost, Timeout
from fanin_torch.process_group import FaninProcessGroup
from fanin_torch.registered_memory import LONGEST_SHARING, MOST_FREE, SHARED, RegisteredMemory
from tests.torch.rank import await_test, tell_test

LONG = 60_000  # elements of a message that is fetched
CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group


def works() -> None:
    """Works end without a wait; their futures have the results, and callbacks run."""
    rank, size = dist.get_rank(), dist.get_world_size()
    tensors = [torch.full((100,), float(rank + number)) for number in range(300)]  # more than a send queue holds
    pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = pending[-1].get_future().then(lambda future: future.value()[0] * 2)
    expected = size * (size - 1) / 2
    assert torch.all(doubled.wait() == 2 * (expected + size * 299))
    for number, (work, tensor) in enumerate(zip(pending, tensors, strict=True)):
        assert work.is_completed()  # in order, and the last has ended
        assert work.is_success()
        assert work.exception() is None
        assert torch.all(tensor == expected + size * number)
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors[:3]:
            dist.all_reduce(tensor.fill_(1.0))
    manager.wait()
    assert all(torch.all(tensor == size) for tensor in tensors[:3])
    assert dist.group.WORLD._get_sequence_number_for_group() == 301


def groups() -> None:
    """Groups that overlap, groups of one, and many of them one after the other."""
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
        columns = [torch.zeros(2, 3).t() for _ in range(3)]  # not contiguous: results come by way of other memory
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
    """Groups of Fanin that overlap, of which the second is the first one of a rank."""
    for pair in ([0, 1], [1, 2]):
        group = dist.new_group(pair, backend="fanin")
        if dist.get_rank() in pair:
            tensor = torch.ones(1)
            dist.all_reduce(tensor, group=group)
            assert tensor == 2
    dist.barrier()  # rank 0 has the store, which the others need until here


def coalesced() -> None:
    """Several calls as one work, as DDP, FSDP and functional collectives make them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    total = size * (size - 1) / 2
    counts = (1, 5, 1000)
    mine = [torch.full((count,), float(rank)) for count in counts]
    ranks = torch.arange(float(size))

    tensors = [tensor.clone() for tensor in mine]
    dist.all_reduce_coalesced(tensors)
    assert all(torch.all(tensor == total) for tensor in tensors)
    rows = [[torch.empty(count) for count in counts] for _ in range(size)]
    dist.all_gather_coalesced(rows, mine)
    assert all(torch.all(tensor == number) for number, row in enumerate(rows) for tensor in row)

    wholes = [torch.empty(size * count) for count in counts]
    with dist._coalescing_manager():
        for whole, tensor in zip(wholes, mine, strict=True):
            dist.all_gather_into_tensor(whole, tensor)
    assert all(torch.equal(whole, ranks.repeat_interleave(count)) for whole, count in zip(wholes, counts, strict=True))
    parts = [torch.empty(count) for count in counts]
    with dist._coalescing_manager(async_ops=True) as manager:
        for part, whole in zip(parts, wholes, strict=True):
            dist.reduce_scatter_tensor(part, whole)
    manager.wait()
    assert all(torch.all(part == size * rank) for part in parts)

    world = dist.group.WORLD
    for found in functional.all_reduce_coalesced(mine, "sum", world):
        assert torch.all(found == total)
    for found, whole in zip(functional.all_gather_into_tensor_coalesced(mine, world), wholes, strict=True):
        assert torch.equal(found, whole)
    for found in functional.reduce_scatter_tensor_coalesced(wholes, "avg", [0] * len(wholes), world):
        assert torch.all(found == rank)


def short_forms() -> None:
    """Methods of a group as programs call them that do not go through torch.distributed, such as torchft."""
    group, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    tensor = torch.full((3,), float(rank))
    group.allreduce([tensor], dist.ReduceOp.MAX).wait()
    assert torch.all(tensor == size - 1)
    group.allreduce(tensor.fill_(1.0)).wait()
    assert torch.all(tensor == size)
    group.broadcast(tensor.fill_(rank), 2).wait()
    assert torch.all(tensor == 2)
    rows = [torch.zeros(3) for _ in range(size)]
    group.allgather([rows], [tensor]).wait()  # without options
    assert all(torch.equal(row, tensor) for row in rows)
    group.barrier().wait()


def messages() -> None:
    """send, recv, batches, tags out of order, from anyone, short and long ones."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (0, 1, 1000, LONG, 3_000_000):
        out, into = torch.full((count,), float(rank)), torch.full((count,), -1.0)
        operations = [dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, into, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert torch.all(into == before)
    receive = dist.irecv(into[:1], before)  # of what is sent when the collective that begins later has ended
    dist.all_reduce(out[:1], async_op=True).get_future().wait()
    dist.send(torch.full((1,), float(rank)), after)
    receive.wait()
    assert into[0] == before
    if rank == 0:
        pending = [dist.isend(torch.full((LONG if tag % 2 else 3,), float(tag)), 1, tag=tag) for tag in range(5)]
        for work in pending:
            work.wait()
    elif rank == 1:
        for tag in reversed(range(5)):
            into = torch.zeros(LONG if tag % 2 else 3)
            if tag % 2:
                assert dist.recv(into, 0, tag=tag) == 0
                assert torch.all(into == tag)
            else:
                dist.irecv(into, 0, tag=tag).wait()
                assert torch.all(into == tag)
    dist.barrier()
    if rank == 0:
        found = set()
        for _ in range(size - 1):
            into = torch.zeros(2)
            source = dist.recv(into, tag=9)
            assert torch.all(into == source)
            found.add(source)
        assert found == set(range(1, size))
    else:
        dist.send(torch.full((2,), float(rank)), 0, tag=9)
    matrix = torch.arange(12.0).view(3, 4)
    if rank == 0:
        dist.send(matrix.t(), 1)
    elif rank == 1:
        into = torch.zeros(3, 4).t()
        dist.recv(into, 0)
        assert torch.equal(into, matrix.t())
    if rank == 0:
        dist.send(torch.zeros(5), 1)
    elif rank == 1:
        with pytest.raises(InvalidRequest, match="20 bytes"):
            dist.recv(torch.zeros(6), 0)
    dist.barrier()


def messages_in_any_order() -> None:
    """A message that is complete ends, whatever was begun before it."""
    rank, parts = dist.get_rank(), [torch.zeros(1), torch.zeros(1)]
    if rank == 1:
        first, second = (dist.irecv(part, 0, tag=tag) for tag, part in enumerate(parts))
        second.get_future().wait()
        assert parts[1] == 2
        assert not first.is_completed()
    elif rank == 0:
        dist.send(torch.full((1,), 2.0), 1, tag=1)
    dist.barrier()
    if rank == 1:
        first.wait()
        assert parts[0] == 1
    elif rank == 0:
        dist.send(torch.ones(1), 1, tag=0)


def late_messages() -> None:
    """A rank that does not connect in time costs the messages of that time, and is not lost for those that follow."""
    rank, group = dist.get_rank(), dist.new_group()
    if rank == 0:
        group.set_timeout(timedelta(seconds=0.3))
        short, long = torch.ones(1), torch.ones(LONG)
        unseen = [dist.isend(short, 1, group=group), dist.isend(long, 1, group=group)]
        with pytest.raises(Timeout, match="to or from rank 1"):
            dist.recv(short, 1, group=group)
        for work in unseen:  # nobody waits for them
            with pytest.raises(RuntimeError, match="TIMEOUT"):
                work.get_future().wait()
        group.set_timeout(timedelta(seconds=100))
    dist.barrier()
    for count in (1, LONG):
        tensor = torch.full((count,), 7.0 if rank == 0 else 0.0)
        if rank == 0:
            dist.send(tensor, 1, group=group)
        elif rank == 1:
            dist.recv(tensor, 0, group=group)
            assert torch.all(tensor == 7)
    dist.barrier()


def refusals() -> None:
    """What is wrong is an error by name, and does no harm to what follows."""
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
    """With FANIN_TORCH_STRICT what the devices do not do is an error."""
    with pytest.raises(NotSupported, match="SPARSE"):
        dist.all_reduce(torch.eye(3).to_sparse())
    dist.barrier()


def copies() -> None:
    """For what tensors are copied is counted, once for each call."""
    size, dtype = dist.get_world_size(), torch.float32
    group = dist.group.WORLD
    registered = group.allocate_tensor(12, dtype=dtype, device="cpu")
    dist.all_reduce(registered.fill_(1.0))
    assert torch.all(registered == size)
    assert fanin_torch.copied() == {}
    dist.all_reduce(torch.ones(12))
    assert fanin_torch.copied() == {"ORDINARY_MEMORY": 1}
    group.allreduce([registered.view(3, 4).t()]).wait()  # torch's own function refuses it
    assert fanin_torch.copied() == {"ORDINARY_MEMORY": 2, "NOT_CONTIGUOUS": 1}
    dist.all_gather([torch.empty(12) for _ in range(size)], registered)
    counted = {"ORDINARY_MEMORY": 3, "NOT_CONTIGUOUS": 1, "PARTS": 1}
    assert fanin_torch.copied() == counted
    address = registered.data_ptr()
    registered, other = (group.allocate_tensor(12, dtype=dtype, device="cpu") for _ in range(2))
    own = registered[: 12 // size]
    dist.all_to_all_single(other, registered.fill_(1.0))
    dist.reduce_scatter(own, list(registered.chunk(size)) if dist.get_rank() == 0 else list(other.chunk(size)))
    dist.scatter(own, list(other.chunk(size)) if dist.get_rank() == 0 else None)
    assert fanin_torch.copied() == counted  # parts that lie one after the other
    dist.reduce_scatter(own, list(other.chunk(size))[::-1])
    assert fanin_torch.copied()["PARTS"] == 2
    with pytest.raises(InvalidRequest, match="float64"):
        group.reduce_scatter([own], [[own] * (size - 1) + [own.double()]])
    assert group.allocate_tensor(12, dtype=dtype, device="cpu").data_ptr() == address  # used again
    assert group.allocate_tensor(0, dtype=dtype, device="cpu").numel() == 0


def small_tensors() -> None:
    """Many tensors have few regions, of which a device has 256 for a rank. What has ended is used again."""
    size, group = dist.get_world_size(), dist.group.WORLD
    for _ in range(2):
        tensors = [group.allocate_tensor(length, dtype=torch.int32, device="cpu") for length in range(1, 1001)]
        for tensor in tensors:
            tensor.fill_(len(tensor))
        assert all(torch.all(tensor == len(tensor)) for tensor in tensors)  # none lies over another
        assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)
        dist.all_reduce(tensors[-1])
        assert torch.all(tensors[-1] == 1000 * size)
        assert len(group.memory._blocks) == 1
        del tensor, tensors
    for length in range(300):  # one at a time, each longer than the regions that several share
        group.allocate_tensor(SHARED + length, dtype=torch.uint8, device="cpu")
    assert len(group.memory._blocks) <= MOST_FREE // SHARED
    assert fanin_torch.copied() == {}


def resized_storage() -> None:
    """A tensor that any call has touched may be resized afterwards: FSDP 1 frees its storage."""
    rank, size = dist.get_rank(), dist.get_world_size()
    whole, part, parts = torch.ones(4 * size), torch.ones(4), [torch.ones(4) for _ in range(size)]
    dist.all_reduce(whole)
    dist.broadcast(part, 0)
    dist.all_gather_into_tensor(whole, part)
    dist.reduce_scatter_tensor(part, whole)
    dist.all_to_all(parts, [torch.ones(4) for _ in range(size)])
    message = torch.ones(LONG)
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(message, 1 - rank)
    for tensor in (whole, part, message, *parts):
        tensor.untyped_storage().resize_(0)
        tensor.untyped_storage().resize_(tensor.numel() * 4)
    torch.add(torch.ones(100), 1, out=part)
    assert part.shape == (100,)


def one_element() -> None:
    """With a stride that is not 1, on one rank alone."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def one() -> torch.Tensor:
        return torch.full((1, 5), float(rank))[:, 2] if rank == 0 else torch.full((1,), float(rank))

    total = size * (size - 1) / 2
    tensor = one()
    dist.all_reduce(tensor)
    assert tensor == total
    tensor = one()
    dist.broadcast(tensor, 1)
    assert tensor == 1
    rows = [one() for _ in range(size)]
    dist.all_gather(rows, one())
    assert torch.cat(rows).tolist() == list(range(size))
    dist.all_to_all(rows, [one() for _ in range(size)])
    assert torch.cat(rows).tolist() == list(range(size))
    dist.gather(one(), rows if rank == 0 else None)
    tensor = one()
    dist.scatter(tensor, rows if rank == 0 else None)
    assert tensor == rank
    if rank < 2:
        message = one()
        (dist.send if rank == 0 else dist.recv)(message, 1 - rank)
        assert message == 0
    entries = torch.sparse_coo_tensor(torch.zeros((1, 1 + rank), dtype=torch.int64), torch.ones(1 + rank), (8,))
    dist.all_reduce(entries)
    assert entries.to_dense()[0] == size * (size + 1) / 2


def waiting_callbacks() -> None:
    """A callback waits for other futures of the group, whose callbacks wait as well."""
    size = dist.get_world_size()

    def summed(value: float) -> torch.futures.Future:
        return dist.all_reduce(torch.full((4,), value), async_op=True).get_future()

    def deeper(depth: int) -> torch.futures.Future:
        return summed(1.0).then(lambda future: deeper(depth - 1).wait() if depth else future.value()[0])

    for _ in range(20):
        twice = summed(1.0).then(lambda future: summed(float(future.value()[0][0])).wait()[0])
        assert torch.all(twice.wait() == size**2)
    assert torch.all(deeper(5).wait() == size)
    works = [dist.all_reduce(torch.full((4,), 1.0), async_op=True) for _ in range(8)]
    futures = [work.get_future() for work in works]  # each callback waits for all works that began later, too
    sums = [future.then(lambda _: sum(other.wait()[0][0] for other in futures)) for future in futures]
    assert [float(found.wait()) for found in sums] == [8.0 * size] * 8


def order_of_callbacks() -> None:
    """Callbacks run in the order of the calls, also if one of them takes long on some rank."""
    seen: list[int] = []

    def busy(number: int) -> None:
        end = time.monotonic() + (1.5 if number == 0 and dist.get_rank() == 0 else 0)
        while time.monotonic() < end:
            pass
        seen.append(number)

    works = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(4)]
    ends = [work.get_future().then(lambda _, number=number: busy(number)) for number, work in enumerate(works)]
    for end in ends:
        end.wait()
    assert seen == [0, 1, 2, 3]


def functional_results() -> None:
    """The result of a functional collective stands for a tensor that is not there yet; a tensor may get other memory
    while a work uses the memory that it had."""
    size = dist.get_world_size()
    for _ in range(10):
        tensor = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
        dist.all_reduce(tensor)
        assert torch.all(tensor == size * size)
        tensor = torch.ones(1 << 20)
        work = dist.all_reduce(tensor, async_op=True)
        tensor.data = torch.zeros(1)
        work.wait()


def forked_child() -> None:
    """A child of a rank gets none of the rank's memory from `allocate_tensor`, though there is some that is free."""
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


def too_many_regions() -> None:
    """The tensor that needs one region more than a device has for a rank is refused, until another one has ended."""
    group = dist.group.WORLD

    def long() -> torch.Tensor:
        return group.allocate_tensor(LONGEST_SHARING + 1, dtype=torch.uint8, device="cpu")

    if dist.get_rank() == 0:
        tensors = [long() for _ in range(200)]
        with pytest.raises(NoResources, match="let go of arrays and tensors") as raised:
            tensors.extend(iter(long, None))
        assert isinstance(raised.value, dist.DistBackendError)
        del tensors[0]
        long()
    dist.barrier()


def overlaps() -> None:
    """Outputs that lie over inputs, in place and otherwise, on one rank or on all."""
    rank, size = dist.get_rank(), dist.get_world_size()
    ranks = torch.arange(float(size)).repeat_interleave(3)
    for block in range(size):  # that of the root, and others
        whole = torch.full((size * 3,), float(rank))
        parts = list(whole.chunk(size))
        dist.gather(parts[block], parts if rank == 1 else None, 1)
        assert rank != 1 or torch.equal(whole, ranks)
        whole.fill_(rank)
        dist.all_gather(parts, parts[block])
        assert torch.equal(whole, ranks)
        dist.scatter(parts[block], parts if rank == 1 else None, 1)
        assert torch.all(parts[block] == rank)
        whole.copy_(ranks)
        dist.reduce_scatter(parts[block], parts)
        assert torch.all(parts[block] == size * rank)
        whole.copy_(ranks)
        dist.reduce_scatter_tensor(parts[block], whole)
        assert torch.all(parts[block] == size * rank)
    assert fanin_torch.copied()["OVERLAP"] == (5 if rank == 1 else 3) * (size - 1)
    whole.copy_(ranks)
    dist.all_to_all_single(whole, whole)
    assert torch.all(whole == rank)


def absent() -> None:
    """A rank that does not come to a new group is named, and the group that is not made releases the device."""
    connection = dist.group.WORLD._device.connection
    users, store = connection._users, dist.HashStore()
    store.set_timeout(timedelta(seconds=0.2))
    with pytest.raises(Timeout, match=r"of the 3 ranks of a group 0, 2 did not come in 0\.2 s") as raised:
        FaninProcessGroup(store, 1, 3, timedelta(seconds=60))
    assert raised.value.missing_ranks == (0, 2)
    assert connection._users == users
    dist.barrier()


def threads() -> None:
    """Ranks that are threads of one process, in groups that they make themselves and make again at different times."""
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


def memory_of_threads() -> None:
    """A thread asks whether memory is registered while another one registers some."""
    memory, outside = dist.group.WORLD.memory, torch.ones(1).numpy()
    kept = [memory.empty(SHARED + number, torch.uint8) for number in range(50)]  # a region each

    def ask() -> bool:
        return any(memory.holds(outside) for _ in range(3000))

    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        turn = 0
        while not asking.done():  # a region each, which displaces an older one
            memory.empty(8 * SHARED + turn, torch.uint8)
            memory.take_in(torch.ones(1))
            turn += 1
        assert not asking.result()
    assert all(memory.holds(tensor.numpy()) for tensor in kept)


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
        with pytest.raises(InvalidRequest, match="group that has been left"):
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
    """Ranks that call different things are told so, all of them."""
    with pytest.raises(RuntimeError, match="OP_MISMATCH"):
        dist.all_reduce(torch.ones(3 if dist.get_rank() else 4))


def survivor() -> None:
    """A rank is killed in mid-step. All others get PeerLost, in works, in DDP's C++ and in messages; they agree on who
    is left, and go on."""
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
    """Of the ranks of one machine none has a device: a NIC was brought up for them. Its program has this many ranks.
    Rank 0 notes for the test which process will end the NIC."""
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert torch.all(tensor == dist.get_world_size())
    assert "FANIN_SOCKET" not in os.environ
    if dist.get_rank() == 0:
        fabric = dist.group.WORLD._device.fabric
        peer = fabric._membership.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        Path(os.environ["TMPDIR"], "guard.pid").write_text(str(CREDENTIALS.unpack(peer)[0]))
