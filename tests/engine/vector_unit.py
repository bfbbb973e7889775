"""The kernels called as a device calls them, in guarded memory; and data on which implementations differ."""

import ctypes
import functools

import numpy as np

from fanin_nic.engine.kernels import FINISH, NARROW, WIDEN, kernel_table
from fanin_wire import arithmetic
from fanin_wire.datatypes import DATATYPES, DataType, Family
from fanin_wire.operations import OPERATIONS, Operation

GUARD = 64  # bytes on both sides that no kernel may touch
GUARD_BYTE = 0xA5
COMBINATIONS = [
    (operation, datatype) for operation in OPERATIONS for datatype in DATATYPES if operation.takes(datatype)
]
C_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


def name_of(value: object) -> str:
    return str(getattr(value, "name", value))


@functools.cache
def kernel(row: int, datatype: DataType):
    address = int(kernel_table()[row, datatype.code])
    assert address, f"no kernel for row {row} of {datatype.name}"
    return C_KERNEL(address)


class Memory:
    """Bytes that begin `offset` bytes after an aligned address, with a guard on both sides."""

    def __init__(self, content: np.ndarray, offset: int = 0, room: int = 0) -> None:
        self.nbytes = max(content.nbytes, room)
        whole = np.full(self.nbytes + 3 * GUARD, GUARD_BYTE, np.uint8)
        self._start = GUARD + (-whole.ctypes.data % GUARD) + offset
        self._whole = whole
        self.bytes = whole[self._start : self._start + self.nbytes]
        self.bytes[: content.nbytes] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        self.address = int(self.bytes.ctypes.data) if self.nbytes else int(whole.ctypes.data) + self._start

    def check(self) -> None:
        """No byte outside was written."""
        assert (self._whole[: self._start] == GUARD_BYTE).all()
        assert (self._whole[self._start + self.nbytes :] == GUARD_BYTE).all()


def compute(
    operation: Operation, contributions: np.ndarray, datatype: DataType, offset: int = 0, divided_by: int = 0
) -> bytes:
    """A device's result for the rows of `contributions`: the steps of the engine, in its order.

    The accumulator is aligned, the data lie `offset` bytes further. MEAN is divided by `divided_by`, or by the rows.
    """
    count = contributions.shape[1]
    wide = operation.widens(datatype) and len(contributions) > 1
    accumulator = Memory(contributions[0], room=4 * count if wide else 0)
    if wide:
        kernel(WIDEN, datatype)(accumulator.address, 0, count)
    for contribution in contributions[1:]:
        data = Memory(contribution, offset)
        kernel(operation.code, datatype)(accumulator.address, data.address, count)
        data.check()
        assert data.bytes.tobytes() == contribution.tobytes()
    if operation.name == "MEAN" and len(contributions) > 1:
        divisor = np.array([divided_by or len(contributions)], np.int64)
        kernel(FINISH, datatype)(accumulator.address, divisor.ctypes.data, count)
    if wide:
        kernel(NARROW, datatype)(accumulator.address, 0, count)
    accumulator.check()
    return accumulator.bytes[: count * datatype.itemsize].tobytes()


def edges(datatype: DataType) -> np.ndarray:
    """Values on which implementations differ, in the storage of the type."""
    if datatype.family in (Family.FLOAT, Family.SMALL_FLOAT):
        return _float_edges(datatype).view(datatype.numpy)
    if datatype.family == Family.INTEGER:
        limits = np.iinfo(datatype.numpy)
        near = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, 7, 100]
        return np.array(near + [-1, -2, -7] * (limits.min < 0), datatype.numpy)
    if datatype.family == Family.COMPLEX:
        parts = _float_edges(datatype)
        return np.array(np.meshgrid(parts, parts[::3])).T.reshape(-1, 2).copy().view(datatype.numpy)[:, 0]
    if datatype.family == Family.BOOL:
        return np.array([0, 1, 2, 128, 255], np.uint8).view(datatype.numpy)
    return _pair_edges(datatype)


def _bits(datatype: DataType) -> int:
    """Bits of a float, or of one part of a complex number."""
    return 8 * datatype.itemsize // (2 if datatype.family == Family.COMPLEX else 1)


def digits_of(datatype: DataType) -> int:
    """Digits after the point of a float from 1 to 2, or of one part of a complex number."""
    ends = np.array([1, 2], f"<f{max(4, _bits(datatype) // 8)}")
    if datatype.family == Family.SMALL_FLOAT:
        ends = arithmetic.narrow(ends, datatype)
    one, two = ends.view(f"u{ends.itemsize}").tolist()
    return (two - one).bit_length() - 1


def _float_edges(datatype: DataType) -> np.ndarray:
    """Floats by their bit patterns: zeros, ones, infinities, NaNs with payloads, subnormals, halves of a last digit."""
    bits, digits = _bits(datatype), digits_of(datatype)
    infinity = (1 << (bits - 1)) - (1 << digits)
    one = infinity >> 1 & ~((1 << digits) - 1)
    half_digit = one - ((digits + 1) << digits)  # added to 1: a tie
    values = [0, one, one + 1, one + (3 << (digits - 1)), infinity, infinity - 1, 1, 2, (1 << digits) - 1, 1 << digits]
    values += [half_digit, half_digit + (1 << (digits - 1)), half_digit + 1, (1 << digits) + 1]
    values += [infinity + 1, infinity + (1 << (digits - 1)), infinity + (1 << (digits - 1)) + 5, (1 << (bits - 1)) - 1]
    positive = np.array(values, f"<u{bits // 8}")
    return np.concatenate([positive, positive | np.array(1 << (bits - 1), positive.dtype)])


def _pair_edges(datatype: DataType) -> np.ndarray:
    """Every value of the value's own type with indices of both signs, and dirt in the padding."""
    value = next(entry for entry in DATATYPES if entry.numpy == datatype.numpy["value"])
    values, indices = edges(value), np.array([0, 1, -1, 2**31 - 1, -(2**31)], np.int32)
    pairs = np.full(len(values) * len(indices) * datatype.itemsize, 0xEE, np.uint8).view(datatype.numpy)
    pairs["value"], pairs["index"] = np.repeat(values, len(indices)), np.tile(indices, len(values))
    return pairs


def anything(generator: np.random.Generator, shape: tuple[int, int], datatype: DataType) -> np.ndarray:
    """Random bits, mixed with edges, so that they meet."""
    values = np.frombuffer(generator.bytes(shape[0] * shape[1] * datatype.itemsize), datatype.numpy).reshape(shape)
    chosen = generator.integers(0, 3, shape) == 0
    return np.where(chosen, generator.choice(edges(datatype), shape), values)
