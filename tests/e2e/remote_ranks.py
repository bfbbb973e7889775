"""Rank processes that reach their devices at addresses of their own, and their calls."""

from collections.abc import Iterator, Sequence

from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import BARRIER, COLLECTIVES, UNDIVIDED, CollectiveCall
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_tools.stress.faults.rank_threads import describe

CALLS_PER_COMMAND = 8  # each command has a time limit, even on an emulated processor
LONG = 1 << 20  # elements; such a call has a command of its own
SLOTS, SLOTS_OF_LONG = 8, 256  # of a job: windows that fill often; few rounds
MOVES_DATA = [name for name in COLLECTIVES if name != BARRIER]


class Pool(WorkerPool):
    """Each with an address of its own."""

    def join_at(self, job: dict[str, object], addresses: Sequence[str]) -> None:
        path = job_file.write(self.running, job)
        for rank, address in enumerate(addresses):
            self._send(rank, {"do": "join", "job": str(path), "number": rank, "socket": address})
        self._replies(range(len(addresses)))


def calls(sizes: Sequence[int]) -> list[CollectiveCall]:
    """Every collective with each number of elements, in registered and in ordinary memory."""
    return [
        CollectiveCall(collective, elements, registered=bool(number % 2), in_place=number % 3 == 0)
        for collective in COLLECTIVES
        for number, elements in enumerate(sizes)
    ]


def long_calls(elements: int, ranks: int) -> list[CollectiveCall]:
    """Every collective with one long message of all ranks, registered; some in parts from ordinary memory."""
    return [
        *(CollectiveCall(name, elements if name in UNDIVIDED else elements // ranks) for name in MOVES_DATA),
        CollectiveCall("allreduce", elements, registered=True, in_place=True),
        CollectiveCall("allreduce", elements, registered=False, form="repeated"),
        CollectiveCall("reduce", elements, dtype="i32", op="max", registered=False),
    ]


def batches(made: Sequence[CollectiveCall]) -> Iterator[list[CollectiveCall]]:
    """The calls of each command."""
    batch: list[CollectiveCall] = []
    for call in made:
        if batch and (call.elements >= LONG or len(batch) == CALLS_PER_COMMAND):
            yield batch
            batch = []
        batch.append(call)
    yield batch


def failures(
    pool: Pool, route: str, made: Sequence[CollectiveCall], addresses: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Make calls, the long ones in a job of their own; what is wrong. addresses: for each node's ranks in turn.

    With few slots every 16 KiB needs a round of messages between all processes. On a busy machine a long message would
    then exceed the time limit of a call.
    """
    short = [call for call in made if call.elements < LONG]
    long = [call for call in made if call.elements >= LONG]
    for calls_of_job, slots in ((short, SLOTS), (long, SLOTS_OF_LONG)):
        if calls_of_job:
            yield from _failures_of_job(pool, route, calls_of_job, addresses, slots)


def _failures_of_job(
    pool: Pool, route: str, made: Sequence[CollectiveCall], addresses: Sequence[Sequence[str]], slots: int
) -> Iterator[str]:
    size = sum(map(len, addresses))
    placement, job = describe(pool.running, size, route, slots)
    free = [list(of_node) for of_node in addresses]
    pool.join_at(job.to_dict(), [free[placement.node_of(rank)].pop(0) for rank in range(size)])
    for batch in batches(made):
        for rank, reply in enumerate(pool.call(size, "try", calls=[call.as_dict() for call in batch])):
            if reply["stopped"] is not None:
                yield f"{route}, rank {rank}: {batch[reply['stopped'][0]]}: {reply['stopped'][1]}"
            yield from (f"{route}, rank {rank}: {batch[number]}: {wrong}" for number, wrong in reply["wrong"])
    pool.call(size, "leave")
