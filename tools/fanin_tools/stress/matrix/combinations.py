"""The dimensions of the matrix: which choices of their values make sense, and the case that a choice describes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fanin_tools.launch.collective_call import BARRIER, COLLECTIVES, FORMS, REDUCTIONS, UNDIVIDED, Case
from fanin_tools.launch.exact_data import DTYPES, MOVED, OPS
from fanin_tools.stress.matrix.pairwise import Choice, sample
from fanin_tools.stress.matrix.topologies import setups
from fanin_wire.datatypes import datatype_by_name
from fanin_wire.operations import operation_by_name

CHUNK = 4096  # payload bytes of a segment on the fabric of the matrix
SIZES = ("0", "1", "odd", "mtu-1", "mtu+1", "many")
ODD = 37  # elements
MANY_SEGMENTS = {True: 20, False: 5}  # of an undivided message; of a part
PERIOD = 4093  # elements after which data repeat: a prime, and few enough to keep all periods
SEED = 20
NO_DATA = {"dtype": "u8", "size": "0", "in_place": False, "registered": False}  # what stands for data in a barrier

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "collective": COLLECTIVES,
    "setup": tuple(setups()),
    "op": (*OPS, MOVED),
    "dtype": DTYPES,
    "size": SIZES,
    "form": FORMS,
    "registered": (True, False),
    "in_place": (True, False),
}


def sensible(choice: Choice) -> bool:
    """Whether a choice, of all dimensions or some, can be meant."""
    collective, op, dtype = (choice.get(name) for name in ("collective", "op", "dtype"))
    if collective == BARRIER and any(choice.get(name, value) != value for name, value in NO_DATA.items()):
        return False
    if collective is not None and op is not None and (collective in REDUCTIONS) == (op == MOVED):
        return False
    return op in (None, MOVED) or dtype is None or operation_by_name(op).takes(datatype_by_name(dtype))


def case_of(choice: Choice, chance: random.Random) -> Case:
    """The case that a whole choice describes. The rest, root and where the data begin, is left to chance."""
    collective, dtype = choice["collective"], choice["dtype"]
    return Case(
        collective,
        _elements(choice["size"], collective, datatype_by_name(dtype).itemsize),
        dtype,
        choice["op"],
        root=chance.randrange(choice["setup"].size),
        seed=SEED,
        registered=choice["registered"],
        in_place=choice["in_place"],
        form=choice["form"],
        period=PERIOD,
        shift=chance.randrange(PERIOD),
    )


def _elements(size: str, collective: str, itemsize: int) -> int:
    segment = CHUNK // itemsize
    many = MANY_SEGMENTS[collective in UNDIVIDED] * segment + 3
    return {"0": 0, "1": 1, "odd": ODD, "mtu-1": segment - 1, "mtu+1": segment + 1, "many": many}[size]


def chosen(sampled: bool, seed: int, shapes: Collection[str], collectives: Collection[str]) -> list[Choice]:
    """The cells with these shapes and collectives: a sample that covers every two values together, or all."""
    dimensions = DIMENSIONS | {
        "collective": tuple(name for name in COLLECTIVES if name in collectives),
        "setup": tuple(setup for setup in setups() if setup.shape in shapes),
    }
    return list(sample(dimensions, sensible, seed) if sampled else _complete(dimensions, random.Random(seed)))


def _complete(dimensions: Mapping[str, Sequence[Any]], chance: random.Random) -> Iterator[Choice]:
    """Every collective, setup, operation, type and size; form and memory are left to chance."""
    names = ("setup", "collective", "op", "dtype", "size")
    for values in itertools.product(*(dimensions[name] for name in names)):
        choice = dict(zip(names, values, strict=True))
        if sensible(choice):
            yield choice | {name: chance.choice(dimensions[name]) for name in dimensions if name not in names}
