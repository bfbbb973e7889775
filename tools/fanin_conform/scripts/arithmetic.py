"""Every operation with every type, against the oracle in numpy; NaN, zeros, rounding, wrapping."""

import functools
import itertools

import numpy as np

from fanin_conform.job import ALL, DATA, WANTS, Job
from fanin_conform.profile import LeftOut
from fanin_conform.script import script
from fanin_conform.tester import Tester
from fanin_wire.abi import DType, JobFlag, Op
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.fields import Flag
from fanin_wire.operations import OPERATIONS, Operation

SIZE, RANKS = 192, 3  # bytes
# Flags of CONFIG
WIDE_PARTIALS, IN_PATH, IN_SHAPE = (
    int(flag) for flag in (JobFlag.WIDE, JobFlag.REPRODUCIBLE_RUN, JobFlag.REPRODUCIBLE_SHAPE)
)
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
    if datatype.numpy.kind in "fc":
        special = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3.0])
        half = elements.shape[1] // 2
        elements[:, :half] = random.choice(special, (RANKS, half))
    if datatype.family == Family.BOOL:
        raw[:] &= 1
    if datatype.family == Family.PAIR:
        elements["index"] = random.integers(-2, 3, elements.shape)
        elements["value"] = random.integers(-2, 3, elements.shape)
        if elements.dtype["value"].kind == "f":
            elements["value"][:, ::4] = random.choice([np.nan, -np.nan, 0.0, -0.0], elements["value"][:, ::4].shape)
    return elements


def compare(tester: Tester, operation: Operation, datatype: DataType, position: int, job: Job) -> None:
    """One position: the result is the oracle's, folded in the order of arrival."""
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
    """Add a script for an operation, with all its types."""
    types = [datatype for datatype in DATATYPES if operation.takes(datatype)]
    demands = dict.fromkeys(number for datatype in types for number in BY_FAMILY[datatype.family])

    def play(tester: Tester) -> None:
        there = [datatype for datatype in types if tester.profile.has(operation, datatype)]
        tester.left_out += [datatype.name for datatype in types if datatype not in there]
        if not there:
            raise LeftOut(operation.name)
        job = Job(tester, RANKS)
        for position, datatype in enumerate(there):
            compare(tester, operation, datatype, position, job)

    play.__name__ = operation.name.lower()
    play.__doc__ = f"{operation.name} of {', '.join(datatype.name for datatype in types)}."
    script(*demands, "12-5", "12-35", "2-12")(play)


for _operation in OPERATIONS:
    register(_operation)


def joined(tester: Tester, flags: int, size: int = RANKS) -> Job:
    """A job with these flags of CONFIG."""
    job = Job(tester, size, join=False)
    for bit in range(size):
        job.config(bit, flags=flags)
        if bit < size - 1:
            tester.expect(job.pending(bit, range(bit + 1, size)))
    tester.expect(*(job.joined(bit) for bit in range(size)))
    return job


def in_each_order(tester: Tester, job: Job) -> None:
    """Three numbers whose sum depends on the order come in all orders."""
    data = [np.array([number], "<f4") for number in (1e8, -1e8, 1.0)]
    for position, order in enumerate(itertools.permutations(range(RANKS))):
        for bit in order:
            job.contribute(bit, position, data[bit])
        tester.expect(*(job.result(bit, position, np.array([1.0], "<f4")) for bit in range(RANKS)), clause="12-6")


@script("12-6", "12-8")
def the_order_of_the_bits(tester: Tester) -> None:
    """A job that is reproducible in its path folds by bits, in any order of arrival."""
    in_each_order(tester, joined(tester, IN_PATH))


@script("12-6", "12-8", "12-9")
def the_order_of_the_bits_in_a_shape(tester: Tester) -> None:
    """A job that is reproducible in its shape does so, too."""
    in_each_order(tester, joined(tester, IN_SHAPE | WIDE_PARTIALS))


@script("12-6", "12-8")
def data_before_their_turn(tester: Tester) -> None:
    """Data of a whole window wait for their turn at once, window after window; some children bring none."""
    random = np.random.default_rng(tester.number(32))
    job = joined(tester, IN_PATH)
    dtype, window = int(DType.F32), job.slots // 2
    for first in range(0, 3 * job.slots, window):
        data: dict[int, dict[int, np.ndarray]] = {}
        for position in range(first, first + window):
            shape = RANKS, random.integers(1, job.chunk // 4, endpoint=True)
            numbers = random.standard_normal(shape).astype("<f4")
            data[position] = {bit: numbers[bit] for bit in range(RANKS) if (position + bit) % 4}
        for bit in random.permutation(RANKS).tolist():
            order = random.permutation(list(data)).tolist()
            for position in order:
                job.contribute(bit, position, data[position].get(bit), dtype=dtype)
        expected = []
        for position in order:  # as they were completed
            total = functools.reduce(np.add, data[position].values())
            given = {"contributions": len(data[position])}
            expected += [job.result(bit, position, total, **given) for bit in range(RANKS)]
        tester.expect(*expected, clause="12-6")


@script("12-5", "12-3", "12-14")
def the_order_of_arrival(tester: Tester) -> None:
    """Other jobs fold in the order of arrival."""
    data = [np.array([number, -0.0], "<f4") for number in (1e8, -1e8, 1.0)]
    job = Job(tester, RANKS)
    for position, order in enumerate(itertools.permutations(range(RANKS))):
        total = data[order[0]]
        for bit in order:
            job.contribute(bit, position, data[bit])
            total = total if bit == order[0] else total + data[bit]
        tester.expect(*(job.result(bit, position, total) for bit in range(RANKS)), clause="12-5")


def wide(
    job: Job, tester: Tester, position: int, data: list[np.ndarray | None], total: np.ndarray, **code: int
) -> None:
    """f32 partials of f16 or bf16, and the result in the small type."""
    for bit, partial in enumerate(data):
        flags = ALL | WANTS | (DATA | int(Flag.WIDE) if partial is not None else 0)
        job.contribute(bit, position, partial, **({"flags": flags} | code))
    given = {"contributions": sum(partial is not None for partial in data)} | code
    tester.expect(*(job.result(bit, position, total.tobytes(), flags=ALL | DATA, **given) for bit in range(len(data))))


@script("12-10", "12-11", "12-21", "12-22", "12-23", "7.1-9", "6-14")
def wide_partials(tester: Tester) -> None:
    """f16 and bf16 travel as f32 and are rounded once at the end, also if only one child brings data."""
    random = np.random.default_rng(tester.number(32))
    job = joined(tester, WIDE_PARTIALS, 2)
    first, second = (random.standard_normal(64).astype("<f4") for _ in range(2))
    code = {"op": int(Op.SUM)}
    wide(job, tester, 0, [first, second], (first + second).astype("<f2"), dtype=int(DType.F16), **code)
    strange = np.array([np.nan, -np.nan, 65519.996, 65520.0, -65520.0, 2.0**-25, 1.5 * 2.0**-24], "<f4")
    rounded = np.array([0x7E00, 0x7E00, 0x7BFF, 0x7C00, 0xFC00, 0, 2], "<u2")
    wide(job, tester, 1, [None, strange], rounded, dtype=int(DType.F16), **code)
    strange = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFFC12345], "<u4").view("<f4")
    rounded = np.array([0x3F80, 0x3F82, 0x3F81, 0x7F80, 0x7FC0], "<u2")
    wide(job, tester, 2, [strange, None], rounded, dtype=int(DType.BF16), **code)


@script("7.1-9", "12-20")
def wide_where_it_must_not_be(tester: Tester) -> None:
    """Missing WIDE, and WIDE of a MIN, of another type, or in another job: OP_MISMATCH."""
    f16, bits = int(DType.F16), ALL | WANTS | DATA
    marked = bits | int(Flag.WIDE)
    cases = ((WIDE_PARTIALS, bits, "SUM", f16), (WIDE_PARTIALS, marked, "MIN", f16))
    for flags, given, op, dtype in (*cases, (WIDE_PARTIALS, marked, "SUM", int(DType.F32)), (0, marked, "SUM", f16)):
        job = joined(tester, flags, 2)
        job.contribute(0, 0, bytes(8), flags=given, op=int(Op[op]), dtype=dtype)
        tester.expect(*(job.aborted(bit, "OP_MISMATCH", 0) for bit in range(2)), clause="7.1-9")


@script("12-17", "12-18", "12-19", "12-23")
def small_floats_are_rounded_once(tester: Tester) -> None:
    """Sums whose partials do not fit into the type, ties to even, and a mean that is divided before it is rounded."""
    job = Job(tester, RANKS)
    f16 = {"dtype": int(DType.F16)}
    for bit, number in enumerate((2048.0, 1.0, 1.0)):  # rounded between two of them: 2048
        job.contribute(bit, 0, np.array([number, 60000.0 * (-1) ** bit], "<f2"), **f16)
    total = np.array([2050.0, 60000.0], "<f2")
    tester.expect(*(job.result(bit, 0, total, **f16) for bit in range(RANKS)), clause="12-18")
    mean = f16 | {"op": int(Op.MEAN)}
    for bit in range(RANKS):
        job.contribute(bit, 1, np.array([60000.0], "<f2"), **mean)
    tester.expect(*(job.result(bit, 1, np.array([60000.0], "<f2"), **mean) for bit in range(RANKS)), clause="12-19")


@script("12-25", "12-24")
def means_of_integers(tester: Tester) -> None:
    """Toward zero, by more ranks than the type can count, after the sum has wrapped."""
    job = Job(tester)
    mean = {"op": int(Op.MEAN)}
    for position, (name, values, ranks, quotients) in enumerate(
        (
            ("<i1", (-7, 7, 100, -128), 1, (-7, 7, -28, 0)),
            ("<i1", (-7, 60, 63, -64), 150, (0, 0, 0, 0)),
            ("<i2", (-5001, 5001, 301, -299), 150, (-33, 33, 2, -1)),
            ("<u1", (127, 100, 3, 128), 2, (63, 50, 1, 0)),
            ("<i4", (-7, 7, 2**30, -(2**31)), 3, (-2, 2, -357913941, 0)),
        )
    ):
        data = np.array(values, name)
        for bit in range(2):
            job.contribute(bit, position, data, contributions=ranks, **mean)
        total = np.array(quotients, name)
        given = mean | {"contributions": 2 * ranks}
        tester.expect(*(job.result(bit, position, total, **given) for bit in range(2)), clause="12-25")


@script("12-14", "12-3")
def subnormals_and_what_is_too_large(tester: Tester) -> None:
    """Subnormals are kept, and sums beyond the largest number are infinite, each with its sign."""
    job = Job(tester)
    for position, (name, bits) in enumerate((("<f4", np.uint32), ("<f8", np.uint64), ("<f2", np.uint16))):
        limits = np.finfo(name)
        data = np.array([1, 5, 0, 0, 0], bits).view(name)
        data[2:] = limits.max, -limits.max, -0.0
        with np.errstate(over="ignore"):
            total = data + data
        for bit in range(2):
            job.contribute(bit, position, data)
        tester.expect(*(job.result(bit, position, total) for bit in range(2)), clause="12-14")


@script("12-4", "12-35")
def the_only_data(tester: Tester) -> None:
    """In class ALL, the data of a single child stay as they are, bit for bit."""
    job = Job(tester)
    random = np.random.default_rng(tester.number(32))
    position = 0
    for datatype in (datatype for datatype in DATATYPES if datatype.family is not None):
        operation = next(
            (each for each in OPERATIONS if tester.profile.has(each, datatype) and each.takes(datatype)), None
        )
        if operation is None:
            tester.left_out.append(datatype.name)
            continue
        code = {"op": int(operation.code), "dtype": int(datatype.code)}
        data = random.integers(0, 256, SIZE, np.uint8)
        data[: datatype.itemsize] = 0xFF  # a NaN with sign and payload, a bool that is neither 0 nor 1
        job.contribute(0, position, data.tobytes(), **code)
        job.contribute(1, position, None, **code)
        expected = [job.result(bit, position, data.tobytes(), contributions=1, **code) for bit in range(2)]
        tester.expect(*expected, clause="12-4")
        position += 1
