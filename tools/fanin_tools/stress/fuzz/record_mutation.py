"""Records of the host interface with a few corrupt members.

Members come from the dtypes of `fanin_wire.abi`, so a new member needs no change here.
"""

from random import Random

import numpy as np

BOUNDARY_VALUES = (
    0,
    1,
    2,
    7,
    63,
    64,
    255,
    256,
    4095,
    4096,
    4097,
    1 << 15,
    1 << 16,
    1 << 31,
    (1 << 32) - 1,
    1 << 47,
    1 << 63,
)


def members(dtype: np.dtype, start: int = 0) -> list[tuple[int, int]]:
    """(offset, bytes) of every number in a dtype, also in nested records and arrays."""
    if dtype.subdtype:
        inner, shape = dtype.subdtype
        count = int(np.prod(shape))
        return [place for n in range(count) for place in members(inner, start + n * inner.itemsize)]
    if dtype.names:
        fields = (dtype.fields[name] for name in dtype.names)  # type: ignore[index]
        return [place for inner, offset, *_ in fields for place in members(inner, start + offset)]
    return [(start, dtype.itemsize)]


def boundary_number(random: Random, size: int) -> bytes:
    """A boundary value of `size` bytes, or any."""
    bound = 1 << 8 * size
    value = random.choice(
        (random.choice(BOUNDARY_VALUES), bound - 1 - random.choice(BOUNDARY_VALUES), random.getrandbits(8 * size))
    )
    return (value % bound).to_bytes(size, "little")


def corrupt(random: Random, record: np.ndarray, most: int = 3) -> np.ndarray:
    """A copy of one record with up to `most` corrupt members."""
    data = bytearray(record.tobytes())
    places = members(record.dtype)
    for _ in range(random.randint(0, most)):
        offset, size = random.choice(places)
        data[offset : offset + size] = boundary_number(random, size)
    return np.frombuffer(bytes(data), record.dtype, count=1).copy()
