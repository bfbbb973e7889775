"""Results overwrite input data while packets are lost, but never data that may have to be sent again."""

import numpy as np
import pytest

from fanin_sim.jobs.job import Job
from fanin_sim.jobs.message import Message, order_independent
from fanin_wire.datatypes import datatype_by_name
from tests.sim.shapes import LOSSY, SHAPES, check_completions, formed, leave

F32 = datatype_by_name("f32")
# Short blocks in a long window: a block's results come while data of the first may have to be repeated.
BLOCK, SLOTS = 20, 32  # elements: two segments
SHAPE_NAMES = ("tree", "two levels", "three levels", "only plain leaves", "ring of 4")


def message_of(job: Job, collective: str) -> Message:
    ranks = len(job.members)
    return Message(
        collective, order_independent(F32, "SUM", (ranks, BLOCK * ranks), job.simulation.seed), ranks, datatype=F32
    )


def start(job: Job, message: Message, rank: int, place: int) -> np.ndarray:
    """A rank posts a message whose result overwrites its data, from element `place` on."""
    data = message.source(rank)
    result = data[place : place + message.result(rank).size]
    job.post(job.members[rank], job.work_request(rank, message, result))
    return result


def gather(job: Job, message: Message, rank: int) -> np.ndarray:
    """A rank posts an allgather whose data lie in their place of the result."""
    room, first = message.result(rank), BLOCK * rank
    room[first : first + BLOCK] = message.source(rank)
    wqe = job.work_request(rank, message, room)
    wqe["source_lkey"], wqe["address"]["source"] = wqe["destination_lkey"], room[first:].ctypes.data
    job.post(job.members[rank], wqe)
    return room


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SHAPE_NAMES)
def test_allgather_in_place(name: str, seed: int) -> None:
    job = formed(SHAPES[name], seed, LOSSY, slots=SLOTS, chunk=64)
    ranks = len(job.members)
    message = Message("allgather", order_independent(F32, "SUM", (BLOCK * ranks,), seed), ranks, datatype=F32)
    rooms = [gather(job, message, rank) for rank in range(ranks)]
    job.finish()
    for room in rooms:
        assert room.tobytes() == message.data.tobytes()
    leave(job)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SHAPE_NAMES)
@pytest.mark.parametrize("collective", ["allreduce", "reduce_scatter", "reduce_scatter at the start"])
def test_in_place(collective: str, name: str, seed: int) -> None:
    job = formed(SHAPES[name], seed, LOSSY, slots=SLOTS, chunk=64)
    message = message_of(job, collective.split()[0])
    expected = [array.copy() for array in job.expected(message)]
    blocks = [0 if collective != "reduce_scatter" else BLOCK * rank for rank in range(len(job.members))]
    results = [start(job, message, rank, place) for rank, place in enumerate(blocks)]
    job.finish()
    for result, wanted in zip(results, expected, strict=True):
        assert result.tobytes() == wanted.tobytes()
    check_completions(job, 1)
    leave(job)
