"""Arithmetic at a NIC: the ranks of a node, for every operation and type, in a tree and with all ranks on the node."""

import itertools

import numpy as np

from fanin_conform.host import NicJob, NicTree
from fanin_conform.job import ALL, DATA, WANTS, f32
from fanin_conform.profile import LeftOut
from fanin_conform.script import nic_script, tree_script
from fanin_conform.scripts.arithmetic import BY_FAMILY, RANKS, numbers
from fanin_conform.tester import Tester
from fanin_wire.datatypes import DATATYPES, DataType
from fanin_wire.operations import OPERATIONS, Operation

REPRODUCIBLE_IN_PATH, SHAPE_AND_WIDE = 2, 7  # flags of CONFIG


def compare(tester: Tester, job: NicJob, operation: Operation, datatype: DataType) -> None:
    """One position of the ranks' data: all get the oracle's result, folded in the order of arrival."""
    data = numbers(datatype, np.random.default_rng(tester.number(32)))
    with np.errstate(all="ignore"):
        total = operation.oracle(data, datatype)
    for rank in range(RANKS):
        job.post(rank, data[rank].tobytes(), op=operation.name, dtype=datatype.name.upper())
        job.look()
    for rank in range(RANKS):
        job.done(rank, total.tobytes())


def register(operation: Operation) -> None:
    """Add a script for an operation, with all its types."""
    types = [datatype for datatype in DATATYPES if operation.takes(datatype)]
    demands = dict.fromkeys(number for datatype in types for number in BY_FAMILY[datatype.family])

    def play(tester: Tester) -> None:
        there = [datatype for datatype in types if tester.profile.has(operation, datatype)]
        tester.left_out += [datatype.name for datatype in types if datatype not in there]
        if not there:
            raise LeftOut(operation.name)
        job = NicJob(tester, RANKS)
        for datatype in there:
            compare(tester, job, operation, datatype)
        tester.nothing()

    play.__name__ = operation.name.lower()
    play.__doc__ = f"{operation.name} of {', '.join(datatype.name for datatype in types)}, with all ranks on the node."
    nic_script(*demands, "12-5", "12-35", "2-12")(play)


for _operation in OPERATIONS:
    register(_operation)


@tree_script("12-3", "12-10", "12-17", "12-18")
def a_node_rounds_at_its_output(tester: Tester) -> None:
    """f16 is summed in f32, and rounded when the partial goes up: not between two ranks."""
    job = NicTree(tester, 3)
    data = [np.array([value], "<f2") for value in (2048.0, 1.0, 1.0)]
    for rank in range(3):
        job.post(rank, data[rank])
    partial = np.array([2050.0], "<f2")
    tester.expect(job.contribution(0, partial, dtype=11), clause="12-18")
    job.result(0, partial, dtype=11)
    for rank in range(3):
        job.done(rank, partial)


@tree_script("12-24", "12-25")
def a_mean_is_not_divided_by_a_node(tester: Tester) -> None:
    """It goes up as the sum; the result is taken as it comes."""
    job = NicTree(tester, 2)
    for rank in range(2):
        job.post(rank, f32(3), op="MEAN")
    tester.expect(job.contribution(0, f32(6), op=4), clause="12-24")
    job.result(0, f32(2), op=4)
    for rank in range(2):
        job.done(rank, f32(2), clause="12-25")


@tree_script("12-6", "12-8")
def the_order_of_the_ranks(tester: Tester) -> None:
    """A reproducible job folds by bits, in any order of posts: the sum of these three numbers depends on the order."""
    data = [f32(number) for number in (1e8, -1e8, 1.0)]
    for flags in (REPRODUCIBLE_IN_PATH, SHAPE_AND_WIDE):
        job = NicTree(tester, 3, flags=flags)
        for position, order in enumerate(itertools.permutations(range(3))):
            for rank in order:
                job.post(rank, data[rank])
                job.look()
            tester.expect(job.contribution(position, f32(1.0), flags=ALL | DATA | WANTS), clause="12-6")
            job.result(position, f32(5.0))
            for rank in range(3):
                job.done(rank, f32(5.0))


@nic_script("1-2", "1-3", "1-4")
def a_node_alone(tester: Tester) -> None:
    """With all ranks on the node no packet leaves it: an allreduce, a broadcast, a barrier."""
    job = NicJob(tester, 3)
    for rank in range(3):
        job.post(rank, f32(rank, 1))
    for rank in range(3):
        job.done(rank, f32(3, 3))
    job.post(1, b"abcdef", contributors="ONE", wants=(0, 0))
    for rank in (0, 2):
        job.post(rank, b"", length=6, contributors="ONE", brings=(0, 0))
    job.done(1)
    for rank in (0, 2):
        job.done(rank, b"abcdef")
    for rank in range(3):
        job.post(rank, None, contributors="NONE", brings=(0, 0), wants=(0, 0))
        if rank < 2:
            job.look()
            job.not_done(0)
    for rank in range(3):
        job.done(rank)
    tester.nothing("1-2")
