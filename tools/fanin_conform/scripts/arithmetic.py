"""Every operation with every type, against the oracle in numpy; NaN, zeros, rounding, wrapping."""

from __future__ import annotations

import numpy as np

from fanin_conform.job import Job
from fanin_conform.script import script
from fanin_conform.tester import Tester
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.operations import OPERATIONS, Operation

SIZE, RANKS = 192, 3  # bytes
BY_FAMILY = {
    Family.INTEGER: ("12-12", "12-13", "12-26"),
    Family.FLOAT: ("12-14", "12-15", "12-16", "12-3"),
    Family.SMALL_FLOAT: ("12-17", "12-18", "12-19", "12-20"),
    Family.BOOL: ("12-26", "12-27"),
    Family.COMPLEX: ("12-28",),
    Family.PAIR: ("12-29", "12-30", "12-31", "12-32"),
}


def numbers(datatype: DataType, random: np.random.Generator) -> np.ndarray:
    """Random bits, and small numbers with zeros of both signs, infinities and NaNs among them."""
    raw = random.integers(0, 256, (RANKS, SIZE), np.uint8)
    elements = raw.view(datatype.numpy)
    if datatype.family in (Family.FLOAT, Family.COMPLEX) or datatype.name == "f16":
        special = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3.0])
        half = elements.shape[1] // 2
        elements[:, :half] = random.choice(special, (RANKS, half))
    if datatype.family == Family.BOOL:
        raw[:] &= 1
    if datatype.family == Family.PAIR:
        elements["index"] = random.integers(-2, 3, elements.shape)
        elements["value"] = random.integers(-2, 3, elements.shape)
    return elements


def compare(tester: Tester, operation: Operation, datatype: DataType, position: int, job: Job) -> None:
    """One position: what comes is what the oracle says, folded in the order of arrival."""
    random = np.random.default_rng(tester.number(32))
    data = numbers(datatype, random)
    with np.errstate(all="ignore"):
        total = operation.oracle(data, datatype)
    code = {"op": int(operation.code), "dtype": int(datatype.code)}
    for bit in range(RANKS):
        job.contribute(bit, position, data[bit].tobytes(), **code)
        if bit < RANKS - 1:
            tester.nothing()
    expected = [job.result(bit, position, total.tobytes(), **code) for bit in range(RANKS)]
    tester.expect(*expected)


def register(operation: Operation) -> None:
    """A script for an operation, with all types that it takes."""
    types = [datatype for datatype in DATATYPES if operation.takes(datatype)]
    demands = dict.fromkeys(number for datatype in types for number in BY_FAMILY[datatype.family])

    def play(tester: Tester) -> None:
        job = Job(tester, RANKS)
        for position, datatype in enumerate(types):
            compare(tester, operation, datatype, position, job)

    play.__name__ = operation.name.lower()
    play.__doc__ = f"{operation.name} of {', '.join(datatype.name for datatype in types)}."
    script(*demands, "12-5", "12-35", "2-12")(play)


for _operation in OPERATIONS:
    register(_operation)
