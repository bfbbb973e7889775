"""Programs about messages: tags, orders, sizes, losses of time."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from fanin.errors import InvalidRequest, Timeout

LONG = 60_000  # elements of a message that is fetched


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
    receive = dist.irecv(into[:1], before)  # of a message that is sent after the collective that begins later
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
    """A complete message ends, whatever was begun before it."""
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
    """A rank that connects late costs the messages of that time, but not later ones."""
    rank, group = dist.get_rank(), dist.new_group()
    if rank == 0:
        group.set_timeout(timedelta(seconds=0.3))
        short, long = torch.ones(1), torch.ones(LONG)
        unseen = [dist.isend(short, 1, group=group), dist.isend(long, 1, group=group)]
        with pytest.raises(Timeout, match="to or from rank 1"):
            dist.recv(short, 1, group=group)
        for work in unseen:  # without a wait for them
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


def messages_of_threads() -> None:
    """Threads that wait at the same time each get their own messages, whichever of them sees them come."""
    rank, group = dist.get_rank(), dist.new_group([0, 1])
    if rank < 2:

        def there_and_back(tag: int) -> None:
            for number in range(50):
                tensor = torch.full((LONG if number % 10 == 0 else 3,), float(100 * tag + number))
                if rank == 0:
                    dist.send(tensor, 1, group=group, tag=tag)
                into = torch.zeros_like(tensor)
                dist.recv(into, 1 - rank, group=group, tag=tag)
                assert into.eq(tensor).all()
                if rank == 1:
                    dist.send(tensor, 0, group=group, tag=tag)

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(there_and_back, range(3)))
    dist.barrier()


def unawaited_messages() -> None:
    """A long message comes while nobody waits, also just after a wait."""
    rank = dist.get_rank()
    before, after = (rank - 1) % 4, (rank + 1) % 4
    for number in range(3):
        into, out = torch.zeros(LONG), torch.full((LONG,), 1.0 + number)
        receive, sent = dist.irecv(into, before, tag=1), dist.isend(out, after, tag=1)
        end = time.monotonic() + 30
        while not into.eq(out).all():  # without a call that would take it
            assert time.monotonic() < end
            time.sleep(0.001)
        receive.wait()
        sent.wait()
        dist.batch_isend_irecv([dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, into, before)])[0].wait()
    dist.barrier()


def batch_of_which_one_is_late() -> None:
    """The whole batch ends, whoever has waited for how long, and its future too."""
    rank, group = dist.get_rank(), dist.new_group([0, 1], timeout=timedelta(seconds=2))
    if rank < 2:
        group._start_coalescing()
        for tag in (0, 1) if rank == 0 else (1,):
            (dist.irecv if rank == 0 else dist.isend)(torch.ones(1), 1 - rank, group=group, tag=tag)
        work = group._end_coalescing()
        if rank == 0:
            future = work.get_future()
            with pytest.raises(RuntimeError, match="TIMEOUT"):
                work.wait(timedelta(seconds=60))
            with pytest.raises(RuntimeError, match="TIMEOUT"):
                future.wait()
    dist.barrier()
