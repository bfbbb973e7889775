"""The dimensions of the matrix, the valid combinations of their values, and the call of a combination."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from fanin_tools.launch.collective_call import BARRIER, CALL_FORMS, COLLECTIVES, REDUCTIONS, UNDIVIDED, CollectiveCall
from fanin_tools.launch.exact_data import DTYPES, MOVED, OPS
from fanin_tools.stress.matrix.pairwise import Combination, pairwise_sample
from fanin_tools.stress.matrix.topologies import setups
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name

SEGMENT_BYTES = 4096  # payload bytes of a segment on the fabric of the matrix
SIZES = ("0", "1", "odd", "mtu-1", "mtu+1", "many")
ODD = 37  # elements
MANY_SEGMENTS = {True: 20, False: 5}  # of an undivided message, or of a part
PERIOD = 4093  # elements after which data repeat: a prime; all periods fit into memory
SEED = 20
# The values of a barrier, which has no data
NO_DATA = {"dtype": "u8", "size": "0", "in_place": False, "registered": False}

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "collective": COLLECTIVES,
    "setup": tuple(setups()),
    "op": (*OPS, MOVED),
    "dtype": DTYPES,
    "size": SIZES,
    "form": CALL_FORMS,
    "registered": (True, False),
    "in_place": (True, False),
}


def is_valid(combination: Combination) -> bool:
    """Whether a combination, of all dimensions or of some, is valid."""
    collective, op, dtype = (combination.get(name) for name in ("collective", "op", "dtype"))
    if collective == BARRIER and any(combination.get(name, value) != value for name, value in NO_DATA.items()):
        return False
    if collective is not None and op is not None and (collective in REDUCTIONS) == (op == MOVED):
        return False
    return op in (None, MOVED) or dtype is None or operation_by_name(op).takes(datatype_by_name(dtype))


def call_of(combination: Combination, random: Random) -> CollectiveCall:
    """Of a whole combination. The root and the first value of the data are random."""
    collective, dtype = combination["collective"], combination["dtype"]
    return CollectiveCall(
        collective,
        _elements(combination["size"], collective, datatype_by_name(dtype).itemsize),
        dtype,
        combination["op"],
        root=random.randrange(combination["setup"].size),
        seed=SEED,
        registered=combination["registered"],
        in_place=combination["in_place"],
        form=combination["form"],
        period=PERIOD,
        shift=random.randrange(PERIOD),
    )


def _elements(size: str, collective: str, itemsize: int) -> int:
    segment = SEGMENT_BYTES // itemsize
    many = MANY_SEGMENTS[collective in UNDIVIDED] * segment + 3
    return {"0": 0, "1": 1, "odd": ODD, "mtu-1": segment - 1, "mtu+1": segment + 1, "many": many}[size]


def select(sampled: bool, seed: int, topologies: Collection[str], collectives: Collection[str]) -> list[Combination]:
    """With these topologies and collectives.

    sampled: only a sample in which every two values that can occur together do so. seed: of the sample, or of random
    values.
    """
    dimensions = DIMENSIONS | {
        "collective": tuple(name for name in COLLECTIVES if name in collectives),
        "setup": tuple(setup for setup in setups() if setup.topology in topologies),
    }
    return list(pairwise_sample(dimensions, is_valid, seed) if sampled else _complete(dimensions, Random(seed)))


def _complete(dimensions: Mapping[str, Sequence[Any]], random: Random) -> Iterator[Combination]:
    """All combinations of collective, setup, operation, type and size; form and memory are random."""
    names = ("setup", "collective", "op", "dtype", "size")
    for values in itertools.product(*(dimensions[name] for name in names)):
        combination = dict(zip(names, values, strict=True))
        if is_valid(combination):
            yield combination | {name: random.choice(dimensions[name]) for name in dimensions if name not in names}
