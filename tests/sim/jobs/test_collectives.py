"""Every collective over every shape, with loss: each rank receives the blocks in the table of collectives."""

import numpy as np
import pytest

from fanin_sim.jobs.job import Job
from fanin_sim.jobs.message import COLLECTIVES, Message, order_independent
from fanin_wire.abi import ContributorClass, Status, WqeFlag
from fanin_wire.datatypes import datatype_by_name
from tests.sim.shapes import LOSSY, ROUGH, SHAPES, Shape, check_completions, check_results, formed, leave

EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
EVERY_COLLECTIVE = pytest.mark.parametrize("collective", COLLECTIVES)
I32 = datatype_by_name("i32")


def message_of(job: Job, collective: str, elements: int, root: int = 0) -> Message:
    ranks = len(job.members)
    elements = 0 if collective == "barrier" else elements
    shape = (ranks, elements) if COLLECTIVES[collective].contributors == ContributorClass.ALL else (elements,)
    return Message(collective, order_independent(I32, "SUM", shape, job.simulation.seed), ranks, root=root)


@EVERY_SHAPE
@EVERY_COLLECTIVE
@pytest.mark.parametrize("faults", [ROUGH, LOSSY], ids=["order_dependent", "lossy"])
def test_through_loss(shape: Shape, collective: str, faults) -> None:
    """Blocks of several segments; the last segment and the last block are shorter. Every rank is the root once."""
    job = formed(shape, 3, faults)
    ranks = len(job.members)
    messages = [message_of(job, collective, 37 * ranks - 2, root) for root in range(ranks)]
    results = [job.start(message, spread=1_000_000) for message in messages]
    job.finish(ranks)
    for message, result in zip(messages, results, strict=True):
        check_results(job, message, result)
    check_completions(job, ranks)
    leave(job)


@EVERY_SHAPE
@pytest.mark.parametrize("elements_per_rank", [1, 16, 17])
def test_all_collectives_in_one_stream(shape: Shape, elements_per_rank: int) -> None:
    job = formed(shape, 5, ROUGH)
    ranks = len(job.members)
    root = ranks - 1
    messages = [message_of(job, collective, elements_per_rank * ranks, root) for collective in COLLECTIVES]
    results = [job.start(message) for message in messages]
    job.finish(len(messages))
    for message, result in zip(messages, results, strict=True):
        check_results(job, message, result)
    check_completions(job, len(messages))
    leave(job)


@EVERY_SHAPE
@EVERY_COLLECTIVE
def test_process_memory(shape: Shape, collective: str) -> None:
    job = formed(shape, 8, ROUGH)
    for member in job.members:
        job.device(member).register_process(job.queue(member))
    message = message_of(job, collective, 40 * len(job.members), root=0)
    results = job.start(message, process_memory=True)
    job.finish()
    check_results(job, message, results)
    leave(job)


@EVERY_SHAPE
def test_a_fence_holds_back_later_requests(shape: Shape) -> None:
    """Each request of a chain reads the result of the previous one."""
    job = formed(shape, 2, ROUGH)
    ranks, rounds = len(job.members), 4
    values = [np.arange(50, dtype="<i4") * (number + 1) for number in range(ranks)]
    total = sum(values)
    message = Message("allreduce", np.array(values), ranks)
    results = job.start(message)
    for _ in range(rounds):
        chained = Message("allreduce", np.array(values), ranks)
        chained.source = results.__getitem__  # type: ignore[method-assign]
        results = job.start(chained, flags=WqeFlag.FENCE)
    job.finish(1 + rounds)
    for result in results:
        np.testing.assert_array_equal(result, total * ranks**rounds)
    check_completions(job, 1 + rounds)


@EVERY_SHAPE
def test_two_ranks_that_contribute_one_block_are_a_mismatch(shape: Shape) -> None:
    """Two ranks post as the root of a broadcast. Every rank gets OP_MISMATCH."""
    job = formed(shape, 4)
    if len(job.members) < 2:
        return
    message = message_of(job, "broadcast", 20)
    for number, member in enumerate(job.members):
        wqe = job.work_request(number, message, np.zeros(20, "<i4"))
        if number == 1:
            wqe["address"]["source_blocks"] = 1
            wqe["source_lkey"], wqe["address"]["source"] = wqe["destination_lkey"], wqe["address"]["destination"]
        job.post(member, wqe)
    job.finish()
    assert {int(job.completions(member)[0]["status"]) for member in job.members} == {Status.OP_MISMATCH}
