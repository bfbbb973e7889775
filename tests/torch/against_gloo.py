"""Every collective of torch on Fanin beside the same on Gloo, over types, operations and shapes."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
ALL = (*FLOATS, *INTEGERS, *COMPLEX, torch.bool, torch.int16, torch.uint16, torch.float8_e4m3fn)
NUMBERS = (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX)
BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
SIZES = (0, 1, 7, 1000)
LARGE = 3_000_001  # elements: more than a job's segment buffers hold

Make = Callable[[int, torch.dtype, int], torch.Tensor]


def values(size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """This rank's data: small whole numbers, whose sums and products are exact in every type."""
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    numbers = torch.randint(0, 3, (size,), generator=generator)
    if dtype.is_complex:
        return torch.complex(numbers.double(), torch.randint(0, 3, (size,), generator=generator).double()).to(dtype)
    return numbers.to(dtype)


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Bit for bit."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if found.numel():
        found, wanted = (each.contiguous().view(torch.uint8) for each in (found, wanted))
        assert torch.equal(found, wanted)


def everyone(tensor: torch.Tensor, gloo: dist.ProcessGroup) -> list[torch.Tensor]:
    """All ranks' tensors, by Gloo: as bytes, since torch can not pickle tensors of all types."""
    rows: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(rows, tensor.view(torch.uint8), group=gloo)
    return [row.view(tensor.dtype) for row in rows]


def cases() -> Iterator[tuple[torch.dtype, int]]:
    return itertools.product(ALL, SIZES)


def reductions() -> None:
    """allreduce, reduce, reduce_scatter by all operations, against the fold of what Gloo has gathered."""
    gloo, rank, size = dist.new_group(backend="gloo"), dist.get_rank(), dist.get_world_size()
    steps = {
        ReduceOp.SUM: torch.add,
        ReduceOp.PRODUCT: torch.mul,
        ReduceOp.MIN: torch.minimum,
        ReduceOp.MAX: torch.maximum,
        ReduceOp.BAND: torch.bitwise_and,
        ReduceOp.BOR: torch.bitwise_or,
        ReduceOp.BXOR: torch.bitwise_xor,
    }
    combinations = [
        *itertools.product(FLOATS, NUMBERS),
        *itertools.product(INTEGERS, (*NUMBERS, *BITS)),
        *itertools.product(COMPLEX, (ReduceOp.SUM,)),
        *itertools.product((torch.bool,), BITS),
    ]
    for (dtype, op), count in itertools.product(combinations, SIZES):
        mine = values(count * size, dtype)
        rows = everyone(mine, gloo)
        wanted = rows[0]
        for row in rows[1:]:
            wanted = steps[op](wanted, row)
        found = mine.clone()
        dist.all_reduce(found, op)
        same(found, wanted)
        found = mine.clone()
        dist.reduce(found, size - 1, op)
        if rank == size - 1:
            same(found, wanted)
        part = torch.empty(count, dtype=dtype)
        dist.reduce_scatter_tensor(part, mine, op)
        same(part, wanted[rank * count : (rank + 1) * count])
        dist.reduce_scatter(part.zero_(), list(mine.chunk(size)) if count else [part.clone()] * size, op)
        same(part, wanted[rank * count : (rank + 1) * count])
    averages(gloo)


def averages(gloo: dist.ProcessGroup) -> None:
    """AVG, which the device divides."""
    size = dist.get_world_size()
    for dtype in (*FLOATS, *COMPLEX):
        mine = values(100, dtype) * size
        wanted = torch.stack(everyone(mine, gloo)).sum(0) / size
        dist.all_reduce(mine, ReduceOp.AVG)
        same(mine, wanted.to(dtype))


def movements() -> None:
    """What only moves data, for all types."""
    gloo, rank, size = dist.new_group(backend="gloo"), dist.get_rank(), dist.get_world_size()
    for dtype, count in cases():
        mine = values(count, dtype)
        rows = everyone(mine, gloo)
        for root in range(size):
            found = mine.clone()
            dist.broadcast(found, root)
            same(found, rows[root])
            parts = [torch.empty_like(mine) for _ in range(size)]
            dist.gather(mine, parts if rank == root else None, root)
            dist.scatter(found, parts if rank == root else None, root)
            same(found, mine)
        parts = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(parts, mine)
        for found, wanted in zip(parts, rows, strict=True):
            same(found, wanted)
        whole = torch.empty(size * count, dtype=dtype)
        dist.all_gather_into_tensor(whole, mine)
        same(whole, torch.cat(rows))
        everything = values(count * size, dtype, seed=1)
        others = everyone(everything, gloo)
        found = torch.empty_like(everything)
        dist.all_to_all_single(found, everything)
        same(found, torch.cat([other[rank * count : (rank + 1) * count] for other in others]))
        uneven(dtype, count, gloo)


def uneven(dtype: torch.dtype, count: int, gloo: dist.ProcessGroup) -> None:
    """Parts of different sizes: rank r gets `count + r` elements of each rank, and rank 1 nothing."""
    rank, size = dist.get_rank(), dist.get_world_size()
    sizes = [0 if other == 1 else count + other for other in range(size)]
    mine = values(sum(sizes), dtype, seed=2)
    others = everyone(mine, gloo)
    start = sum(sizes[:rank])
    wanted = torch.cat([other[start : start + sizes[rank]] for other in others])
    found = torch.empty(sizes[rank] * size, dtype=dtype)
    dist.all_to_all_single(found, mine, [sizes[rank]] * size, sizes)
    same(found, wanted)
    parts = [torch.empty(sizes[rank], dtype=dtype) for _ in range(size)]
    dist.all_to_all(parts, list(mine.split(sizes)))
    same(torch.cat(parts), wanted)


def shapes() -> None:
    """Not contiguous, without dimensions, and larger than what a job holds at a time."""
    rank, size = dist.get_rank(), dist.get_world_size()
    total = size * (size + 1) // 2
    permuted = torch.ones(2, 3, 4, 5).permute(0, 2, 3, 1)
    for mine in (torch.ones(6, 4).t(), torch.ones(8, 3)[::2], torch.ones(()), permuted):
        mine *= rank + 1
        dist.all_reduce(mine)
        assert torch.all(mine == total)
        view = torch.zeros(5, 7)[:, ::3]
        view[:] = rank
        dist.broadcast(view, size - 1)
        assert torch.all(view == size - 1)
        rows = [torch.zeros(3, 5).t() for _ in range(size)]
        dist.all_gather(rows, torch.full((3, 5), float(rank)).t())
        assert [row[0, 0] for row in rows] == list(range(size))
        assert all(torch.all(row == number) for number, row in enumerate(rows))
    large = torch.arange(LARGE, dtype=torch.float32) % 1000
    works = [dist.all_reduce(part, async_op=True) for part in (large[: LARGE // 2], large[LARGE // 2 :])]
    for work in works:
        work.wait()
    assert torch.equal(large, (torch.arange(LARGE, dtype=torch.float32) % 1000) * size)
