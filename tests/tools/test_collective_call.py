"""Each rank's data and expected result of a collective equal those written by hand."""

import numpy as np
import pytest

from fanin_tools.launch.collective_call import ALL_RANKS, COLLECTIVES, CollectiveCall, DataLayout, ElementRange

SIZE, ROOT, ELEMENTS = 5, 3, 8


def laid_out(call: CollectiveCall, runs: list[ElementRange] | None) -> list[int] | None:
    """The elements of runs: 1000 * rank + place in the rank's data; negative: place in the result."""
    if runs is None:
        return None
    return [
        -place if run.rank == ALL_RANKS else 1000 * run.rank + place
        for run in runs
        for place in range(run.start, run.start + run.elements)
    ]


def by_hand(collective: str, counts: list[int]) -> tuple[list, list]:
    """The data and the result of each rank."""
    total = sum(counts)
    whole = [[1000 * rank + place for place in range(ELEMENTS)] for rank in range(SIZE)]
    parted = [[1000 * rank + place for place in range(total)] for rank in range(SIZE)]
    own = [[1000 * rank + place for place in range(count)] for rank, count in enumerate(counts)]
    out = [-place for place in range(ELEMENTS)]
    parted_out = np.split(-np.arange(total), np.cumsum(counts)[:-1])
    from_root = np.split(np.array(parted[ROOT]), np.cumsum(counts)[:-1])
    together = [element for part in own for element in part]
    nobody = [None] * SIZE

    def at_root(value: list) -> list:
        return [value if rank == ROOT else None for rank in range(SIZE)]

    return {
        "allreduce": (whole, [out] * SIZE),
        "reduce": (whole, at_root(out)),
        "reduce_scatter": (parted, [list(part) for part in parted_out]),
        "broadcast": (at_root(whole[ROOT]), [whole[ROOT]] * SIZE),
        "allgather": (own, [together] * SIZE),
        "gather": (own, at_root(together)),
        "scatter": (at_root(parted[ROOT]), [list(part) for part in from_root]),
        "barrier": (nobody, nobody),
    }[collective]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_rank_brings_and_gets_the_right_blocks(collective: str) -> None:
    call = CollectiveCall(collective, ELEMENTS, root=ROOT)
    message = DataLayout(call, SIZE)
    even = collective in ("allreduce", "reduce", "reduce_scatter", "broadcast", "allgather", "gather", "scatter")
    counts = [8] * SIZE if even or collective == "barrier" else [0, 4, 8, 0, 4]
    contribution, expected_result = by_hand(collective.removesuffix("v"), counts)
    for rank in range(SIZE):
        brought = message.contribution(rank)
        assert laid_out(call, [brought] if brought else None) == contribution[rank]
        assert laid_out(call, message.expected_result(rank)) == expected_result[rank]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_case_in_words_can_be_repeated(collective: str) -> None:
    text = str(CollectiveCall(collective, 5, "i8", "prod", root=3, form="persistent", in_place=True, registered=False))
    assert text.startswith(collective)
    assert all(word in text for word in ("5 i8", "persistent", "ordinary", "in place"))
    assert ("prod" in text) == ("reduce" in collective)
    assert ("root 3" in text) == (collective in ("reduce", "broadcast", "gather", "scatter", "gatherv", "scatterv"))
