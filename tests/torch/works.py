"""Programs about works: waiting, futures and their callbacks, batches, the short forms of calls."""

import time

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import fanin_torch


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
    """Methods of a group as called without torch.distributed, for example by torchft."""
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


def overlaps() -> None:
    """Outputs that overlap inputs, in place and otherwise, on one rank or on all."""
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
    futures = [work.get_future() for work in works]  # each callback also waits for all works that began later
    sums = [future.then(lambda _: sum(other.wait()[0][0] for other in futures)) for future in futures]
    assert [float(found.wait()) for found in sums] == [8.0 * size] * 8


def order_of_callbacks() -> None:
    """Callbacks run in the order of the calls, even if one of them takes long on some rank."""
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
    """The result of a functional collective stands for a tensor that does not exist yet; a tensor may get other memory
    while a work uses its old memory."""
    size = dist.get_world_size()
    for _ in range(10):
        tensor = functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD)
        dist.all_reduce(tensor)
        assert torch.all(tensor == size * size)
        tensor = torch.ones(1 << 20)
        work = dist.all_reduce(tensor, async_op=True)
        tensor.data = torch.zeros(1)
        work.wait()
