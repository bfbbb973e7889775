"""Which free pairs a container gets: those whose GPUs are nearest to each other, of few NICs.

The cost of a set is a sum over its couples: the class of nearness of their GPUs (0 to 3), 0 if a link connects them,
and 1 if their NICs differ. Sets grow from each free pair by the cheapest addition. Of equal sets the one wins that
leaves the fewest pairs on its NICs: whole groups stay free for larger containers.
"""

from collections.abc import Sequence

from fanin_cluster.placement.classes import Pair, PlacementInvalid
from fanin_cluster.topology.machine import Machine, nearness


def prefer(machine: Machine, available: Sequence[Pair], must: Sequence[Pair], size: int) -> list[Pair]:
    """`size` pairs of `available`, with all of `must`, in the order of `available`.

    Raises PlacementInvalid if there are too few, or if one of `must` is missing.
    """
    if not len(must) <= size <= len(available) or not set(must) <= set(available):
        raise PlacementInvalid(
            f"{size} of {len(available)} pairs with {len(must)} given ones", "ask for pairs that are available"
        )
    gpus = {gpu.name: gpu for gpu in machine.gpus}
    linked = {frozenset(link.ends) for link in machine.links}
    costs: dict[frozenset[Pair], int] = {}
    for one in available:
        for other in available:
            if one is not other:
                far = 0 if {one.gpu, other.gpu} in linked else int(nearness(gpus[one.gpu], gpus[other.gpu]))
                costs[frozenset((one, other))] = far + (one.nic != other.nic)
    free = [each.nic for each in available]

    def grown(start: list[Pair]) -> tuple[int, int, list[Pair]]:
        """Grow a set from its first pairs. Returns its cost, the pairs left on its NICs, and the set."""
        chosen = list(start)
        while len(chosen) < size:
            rest = [each for each in available if each not in chosen]
            chosen.append(min(rest, key=lambda each: sum(costs[frozenset((each, other))] for other in chosen)))
        cost = sum(costs[frozenset((a, b))] for place, a in enumerate(chosen) for b in chosen[:place])
        left = sum(free.count(nic) for nic in {each.nic for each in chosen}) - size
        return cost, left, chosen

    starts = [list(must)] if must or size == 0 else [[each] for each in available]
    best = min((grown(start) for start in starts), key=lambda found: found[:2])[2]
    return [each for each in available if each in best]
