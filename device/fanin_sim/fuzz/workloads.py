"""The workloads of the fuzzer: fabrics, jobs, and the messages that their ranks post.

In a run without faults, each workload uses every slot at least twice. Those with several nodes have at least 3 nodes
and 300 packets; those within one node, where no packet is sent, at least 3 ranks.
"""

from typing import NamedTuple

from fanin_sim.fabric.topology import NONE, Topology
from fanin_wire.abi import Route

CHUNK = 32
# Slots of each device for two jobs that may have 16 each. With enough slots, the quota leaves some for the second job.
# With too few, the second job is refused if the same device has begun both.
ENOUGH_FOR_TWO, TOO_FEW_FOR_TWO = 28, 12


class Posting(NamedTuple):
    """A message that every rank of a job posts.

    segments: of the whole message or, if each rank has a block, of a block.
    order_dependent: floats whose sum depends on the order: only the equality of all results can be checked, or, in a
        reproducible job, the order.
    """

    collective: str
    segments: int = 1
    root: int = 0
    operation: str = "SUM"
    dtype: str = "i32"
    order_dependent: bool = False
    is_unsignaled: bool = False


class Workload(NamedTuple):
    """A workload.

    route, ranks, reproducible: of every job; `ranks` is per node.
    jobs: number of jobs.
    process_memory: devices access the memory of ranks through the driver, which takes time and can fail.
    slots: slots of each device, which it divides by quota; 0: each job has as many as it can use.
    slots_may_run_out: a job may be refused for lack of slots. The other job must not be affected.
    multicast: switches send results to a group.
    """

    name: str
    topology: Topology
    route: Route
    ranks: int = 1
    jobs: int = 1
    reproducible: str = "none"
    process_memory: bool = False
    slots: int = 0
    slots_may_run_out: bool = False
    multicast: bool = False
    postings: tuple[Posting, ...] = ()


EVERYTHING = (
    Posting("allreduce", 9),
    Posting("barrier"),
    Posting("broadcast", 5, root=1, is_unsignaled=True),
    Posting("reduce_scatter", 2),
    Posting("allreduce", 7, operation="MAX", dtype="f32"),
    Posting("allgather", 2, is_unsignaled=True),
    Posting("reduce", 6, root=2, operation="BXOR"),
    Posting("scatter", 1),
    Posting("gather", 1, root=1),
    Posting("allreduce", 11, operation="SUM", dtype="f32", order_dependent=True),
    Posting("allreduce", 1, operation="MEAN", dtype="i64"),
)
REDUCTIONS = (
    Posting("allreduce", 14, dtype="f32", order_dependent=True),
    Posting("reduce", 9, root=1, dtype="f32", order_dependent=True, is_unsignaled=True),
    Posting("allreduce", 13, operation="PROD", dtype="f32", order_dependent=True),
    Posting("reduce_scatter", 4, dtype="bf16", order_dependent=True),
)
SMALL_FLOATS = (
    Posting("allreduce", 18, dtype="bf16", order_dependent=True),
    Posting("barrier"),
    Posting("allreduce", 12, operation="MEAN", dtype="f16", order_dependent=True),
    Posting("reduce", 14, operation="SUM", dtype="f16", order_dependent=True, root=1),
)
LONG = (Posting("allreduce", 40), Posting("broadcast", 16, root=2), Posting("barrier"), Posting("allreduce", 8))
SHORT = tuple(Posting("allreduce", 2 + number % 3, is_unsignaled=number % 2 == 0) for number in range(12))

STREAM = tuple(
    Posting("reduce" if number % 7 == 3 else "broadcast", 1, root=number // 5, is_unsignaled=number % 3 == 0)
    for number in range(64)
)

THREE = Topology.one_switch(3)
UNEVEN = Topology(above=(NONE, 0, 0, 2), homes=(0, 1, 3, 3, 0))
CHAIN = Topology(above=(NONE, 0, 1), homes=(2, 2, 2))
NODE = Topology.direct(1)
MIXED = Topology(above=(NONE, 0, 0), homes=(0, 1, 1, 1, 0, 2), plain=frozenset({1, 2}))

WORKLOADS = (
    Workload("a switch", THREE, Route.TREE, postings=LONG),
    Workload("a switch, every collective", Topology.one_switch(4), Route.TREE, postings=EVERYTHING),
    Workload("a switch, two ranks on each node", THREE, Route.TREE, ranks=2, postings=EVERYTHING),
    Workload("a switch, process memory", THREE, Route.TREE, ranks=2, process_memory=True, postings=EVERYTHING),
    Workload("a switch, reproducible", THREE, Route.TREE, ranks=2, reproducible="run", postings=REDUCTIONS),
    Workload("a switch, two jobs", THREE, Route.TREE, jobs=2, slots=ENOUGH_FOR_TWO, postings=SHORT),
    Workload(
        "a switch, two jobs and few slots",
        THREE,
        Route.TREE,
        jobs=2,
        slots=TOO_FEW_FOR_TWO,
        slots_may_run_out=True,
        postings=LONG,
    ),
    Workload("a switch, multicast", THREE, Route.TREE, ranks=2, multicast=True, postings=EVERYTHING),
    Workload("two levels, multicast", Topology.leaves(4, 2), Route.TREE, multicast=True, postings=EVERYTHING),
    Workload("two levels", Topology.leaves(4, 2), Route.TREE, postings=EVERYTHING),
    Workload(
        "two levels, reproducible", Topology.leaves(4, 2), Route.TREE, reproducible="shape", postings=SMALL_FLOATS
    ),
    Workload("three levels", UNEVEN, Route.TREE, postings=EVERYTHING),
    Workload("a chain of switches", CHAIN, Route.TREE, postings=LONG),
    Workload("a ring of 3", Topology.direct(3), Route.RING, postings=LONG),
    Workload("a ring of 4, two ranks on each node", Topology.direct(4), Route.RING, ranks=2, postings=EVERYTHING),
    Workload("a ring of 5, reproducible", Topology.direct(5), Route.RING, reproducible="run", postings=REDUCTIONS),
    Workload("a ring of 3, process memory", Topology.direct(3), Route.RING, process_memory=True, postings=EVERYTHING),
    Workload("a ring of 3, two jobs", Topology.direct(3), Route.RING, jobs=2, slots=TOO_FEW_FOR_TWO, postings=SHORT),
    Workload("rings below a switch", MIXED, Route.TREE, postings=EVERYTHING),
    Workload("a node", NODE, Route.LOCAL, ranks=4, postings=EVERYTHING),
    Workload("a node, a stream of short messages", NODE, Route.LOCAL, ranks=4, postings=STREAM),
    Workload("a switch, a stream of short messages", THREE, Route.TREE, ranks=2, postings=STREAM),
    Workload(
        "two levels, a stream of short messages", Topology.leaves(4, 2), Route.TREE, multicast=True, postings=STREAM
    ),
    Workload("three levels, a stream of short messages", UNEVEN, Route.TREE, postings=STREAM),
    Workload("rings below a switch, a stream of short messages", MIXED, Route.TREE, postings=STREAM),
    Workload("a node, reproducible", NODE, Route.LOCAL, ranks=3, reproducible="run", postings=SMALL_FLOATS),
    Workload(
        "a node, reproducible, process memory",
        NODE,
        Route.LOCAL,
        ranks=4,
        reproducible="run",
        process_memory=True,
        postings=SMALL_FLOATS,
    ),
    Workload(
        "a ring of 3, reproducible, process memory",
        Topology.direct(3),
        Route.RING,
        ranks=2,
        reproducible="run",
        process_memory=True,
        postings=REDUCTIONS,
    ),
)
