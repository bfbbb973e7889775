"""What a plan costs: bytes on every link and NIC, and the time that follows from rates.

The most loaded part sets the time of a stage: a link in the network stage, the output or input of a GPU within a node.
The document runs the stages in sequence. In c chunks they overlap: all stages once for the first chunk, and then the
slowest stage c - 1 times. Latency, PCIe and paths that cross the processors are not counted.
"""

from collections import Counter
from dataclasses import dataclass

from fanin_cluster.handoff.plan import Copy, Plan

STAGES = ("spread", "send", "diffuse", "collect")
INSIDE_RATE = 200e9  # bytes per second of a GPU to the others of its node, in each direction; assumed: no source has it
STEP = 100e-6  # seconds that one more chunk costs: acknowledgements of its WRITEs, and a message; not measured
MAX_CHUNKS = 64


@dataclass(frozen=True)
class Cost:
    """bytes and seconds: of each stage. link_bytes: of each link, over the network."""

    bytes: dict[str, int]
    link_bytes: tuple[int, ...]
    seconds: dict[str, float]

    @property
    def sequential(self) -> float:
        """Seconds, one stage after the other."""
        return sum(self.seconds.values())

    def pipelined(self, chunks: int) -> float:
        """Seconds when chunks follow each other through the stages."""
        return (self.sequential + (chunks - 1) * max(self.seconds.values())) / chunks


def cost(plan: Plan, inside_rate: float = INSIDE_RATE) -> Cost:
    """The bytes and the predicted time of a plan."""
    link_bytes = [0] * len(plan.links)
    for link, copy in plan.send:
        link_bytes[link] += copy.length
    inside = {"spread": plan.spread, "diffuse": plan.diffuse, "collect": plan.collect}
    seconds = {stage: _busiest(copies) / inside_rate for stage, copies in inside.items()}
    seconds["send"] = max((count / link.rate for count, link in zip(link_bytes, plan.links, strict=True)), default=0.0)
    sizes = {stage: sum(copy.length for copy in copies) for stage, copies in inside.items()}
    sizes["send"] = sum(link_bytes)
    return Cost(
        {stage: sizes[stage] for stage in STAGES}, tuple(link_bytes), {stage: seconds[stage] for stage in STAGES}
    )


def chosen_chunks(plan: Plan, inside_rate: float = INSIDE_RATE, step: float = STEP) -> int:
    """The number of chunks, a power of two, with the least predicted time if each costs `step` seconds.

    No chunk of a stripe is shorter than the granule. 1: the stages one after the other.
    """
    found = cost(plan, inside_rate)
    shortest = min((each.length for each in plan.stripes if each.length), default=0) // plan.granule
    choices = [1 << power for power in range(max(1, min(shortest, MAX_CHUNKS).bit_length()))]
    return min(choices, key=lambda chunks: (found.pipelined(chunks) + chunks * step, chunks))


def naive_seconds(plan: Plan) -> float:
    """Seconds of the network if every GPU of node 2 gets its own copy, over all links of the plan."""
    return plan.size * len(plan.second_gpus) / sum(link.rate for link in plan.links)


def _busiest(copies: list[Copy]) -> int:
    """Bytes of the most loaded direction of a GPU."""
    load: Counter[tuple[str, int]] = Counter()
    for copy in copies:
        load["out", copy.source] += copy.length
        load["in", copy.target] += copy.length
    return max(load.values(), default=0)
