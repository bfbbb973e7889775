"""Programs about tensors and their memory: copies, sharing, strides, storage that changes."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

import fanin_torch
from fanin.errors import InvalidRequest, NoResources
from fanin_torch.registered_memory import MAX_FREE, MAX_SHARED_TENSOR, SHARED

LONG = 60_000  # elements of a message that is fetched


def copies() -> None:
    """Reasons for copies are counted, once for each call."""
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
    """Many tensors share few regions, of which a device has 256 for a rank. Memory is reused."""
    size, group = dist.get_world_size(), dist.group.WORLD
    for _ in range(2):
        tensors = [group.allocate_tensor(length, dtype=torch.int32, device="cpu") for length in range(1, 1001)]
        for tensor in tensors:
            tensor.fill_(len(tensor))
        assert all(torch.all(tensor == len(tensor)) for tensor in tensors)  # none overlaps another
        assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)
        dist.all_reduce(tensors[-1])
        assert torch.all(tensors[-1] == 1000 * size)
        assert len(group.memory._blocks) == 1
        del tensor, tensors
    for length in range(300):  # one at a time, each longer than the regions that several share
        group.allocate_tensor(SHARED + length, dtype=torch.uint8, device="cpu")
    assert len(group.memory._blocks) <= MAX_FREE // SHARED
    assert fanin_torch.copied() == {}


def resized_storage() -> None:
    """Any call leaves a tensor resizable: FSDP 1 frees its storage."""
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
    """Its stride is not 1, on one rank only."""
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


def too_many_regions() -> None:
    """A tensor that needs one region too many is refused, until another has ended."""
    group = dist.group.WORLD

    def long() -> torch.Tensor:
        return group.allocate_tensor(MAX_SHARED_TENSOR + 1, dtype=torch.uint8, device="cpu")

    if dist.get_rank() == 0:
        tensors = [long() for _ in range(200)]
        with pytest.raises(NoResources, match="drop arrays and tensors") as raised:
            tensors.extend(iter(long, None))
        assert isinstance(raised.value, dist.DistBackendError)
        del tensors[0]
        long()
    dist.barrier()


def memory_of_threads() -> None:
    """A thread asks whether memory is registered while another registers some."""
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
