"""One rank of a collective group: python -m tests.nccl_lib.rank VERSION RANK RANKS PROGRAM.

It writes its handle as a line, reads those of all ranks, runs the program, and writes "ok". A wrong result, or an error
where none is expected, is a traceback.
"""

import ctypes
import json
import resource
import sys
from collections import deque

import numpy as np
import pytest

from tests.nccl_lib.plugin import INT, POINTER, REMOTE_ERROR, SIZE, SYSTEM_ERROR, Interface, Piece, Piece8, Refused

INT32, FLOAT32, FLOAT16, FLOAT8 = 2, 7, 6, 10
SUM, MAX = 0, 2
SIZES = (0, 1, 3, 1000, 65536, 300_001)  # elements
RESULTS = {"PEER_LOST": REMOTE_ERROR, "DEVICE_LOST": SYSTEM_ERROR}  # of NCCL
DEPTH = 8  # requests under way


class Group:
    """A rank in its collective group."""

    def __init__(self, version: int, rank: int, ranks: int) -> None:
        self.net, self.rank, self.ranks = Interface("ncclCollNet", version), rank, ranks
        own, listener = self.net.listen()
        print(own.hex(), flush=True)
        handles = [ctypes.create_string_buffer(bytes.fromhex(line)) for line in json.loads(sys.stdin.readline())]
        pointers = (POINTER * ranks)(*(ctypes.addressof(each) for each in handles))
        self.group = POINTER()
        self.net.call("connect", pointers, INT(ranks), INT(rank), listener, ctypes.byref(self.group))
        self.net.call("closeListen", listener)
        self.registration = POINTER()
        self.net.call("regMr", self.group, POINTER(), SIZE(0), INT(1), ctypes.byref(self.registration))

    def _begin(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """A request: no request means that there is no room, and that NCCL calls again."""
        request = POINTER()
        while not request:
            self.net.call(name, self.group, *arguments, ctypes.byref(request))
        return request

    def allreduce(self, source: np.ndarray, destination: np.ndarray, datatype: int, op: int) -> ctypes.c_void_p:
        count = INT(source.size) if self.net.version == 8 else SIZE(source.size)
        where = (POINTER(source.ctypes.data), POINTER(destination.ctypes.data))
        memory = (self.registration, self.registration)
        return self._begin("iallreduce", *where, count, INT(datatype), INT(op), *memory)

    def pieces(self, *arrays: np.ndarray) -> ctypes.Array:
        kind = Piece8 if self.net.version == 8 else Piece
        return (kind * len(arrays))(*((self.registration, each.ctypes.data, each.nbytes) for each in arrays))

    def allgather(self, source: np.ndarray, parts: list[np.ndarray], block: int, window: int) -> ctypes.c_void_p:
        where = (POINTER(source.ctypes.data), INT(len(parts)), self.pieces(*parts))
        sizes = (SIZE(block), SIZE(window), SIZE(sum(part.nbytes for part in parts)))
        return self._begin("iallgather", *where, *sizes, self.registration)

    def reduce_scatter(
        self, parts: list[np.ndarray], destination: np.ndarray, block: int, window: int
    ) -> ctypes.c_void_p:
        where = (INT(len(parts)), self.pieces(*parts), POINTER(destination.ctypes.data))
        sizes = (SIZE(block), SIZE(window), SIZE(sum(part.nbytes for part in parts)))
        return self._begin("ireducescatter", *where, *sizes, INT(INT32), INT(SUM), self.registration)

    def close(self) -> None:
        self.net.call("closeColl", self.group)
        if self.net.version >= 11:
            self.net.call("finalize", POINTER())


def values(rank: int, size: int) -> np.ndarray:
    """What a rank brings."""
    return np.arange(size, dtype=np.int32) * 7 + rank


def collectives(group: Group) -> None:
    """Every collective, in place and not, several under way at once; windows; what is not computed."""
    under_way: deque[tuple[ctypes.c_void_p, int, np.ndarray, np.ndarray]] = deque()
    for number, size in enumerate(SIZES * 3):
        source = values(group.rank, size)
        destination = source if number % 2 else np.zeros_like(source)
        expected = sum(values(rank, size) for rank in range(group.ranks))
        under_way.append((group.allreduce(source, destination, INT32, SUM), size, destination, expected))
        while len(under_way) >= DEPTH or (under_way and number == 3 * len(SIZES) - 1):
            request, length, result, wanted = under_way.popleft()
            assert group.net.wait(request) == 4 * length
            assert np.array_equal(result, wanted)
    gather_and_scatter(group, 1000)
    supported = INT(-1)
    for datatype, op, wanted in ((FLOAT32, MAX, 1), (FLOAT16, SUM, 1), (FLOAT8, SUM, 0), (FLOAT32, 7, 0)):
        group.net.call("reduceSupport", INT(datatype), INT(op), ctypes.byref(supported))
        assert supported.value == wanted
    with pytest.raises(Refused, match="do not compute"):
        group.allreduce(np.zeros(4, np.uint8), np.zeros(4, np.uint8), FLOAT8, SUM)


def gather_and_scatter(group: Group, elements: int) -> None:
    """In windows that begin and end within a rank's block, into two pieces each."""
    block, total = 4 * elements, elements * group.ranks
    everything = np.concatenate([values(rank, elements) for rank in range(group.ranks)])
    for first, last in ((0, total), (elements // 3, total - 7), (elements, 2 * elements), (5, 9)):
        own = slice(max(first, group.rank * elements), min(last, (group.rank + 1) * elements))
        share = everything[own] if own.stop > own.start else everything[:0]
        middle = (last - first) // 3
        parts = [np.zeros(middle, np.int32), np.zeros(last - first - middle, np.int32)]
        group.net.wait(group.allgather(share.copy(), parts, block, 4 * first))
        assert np.array_equal(np.concatenate(parts), everything[first:last])
        given = everything[first:last] + group.rank
        result = np.zeros(share.size, np.int32)
        size = group.net.wait(
            group.reduce_scatter([given[:middle].copy(), given[middle:].copy()], result, block, 4 * first)
        )
        assert size == share.nbytes
        assert np.array_equal(result, share * group.ranks + sum(range(group.ranks)))


def many(group: Group) -> None:
    """Thousands of collectives: memory does not grow. The count comes as a line."""
    data, total = values(group.rank, 4000), sum(values(rank, 4000) for rank in range(group.ranks))
    grown = 0
    for number in range(int(sys.stdin.readline())):
        result = np.zeros_like(data)
        group.net.wait(group.allreduce(data, result, INT32, SUM))
        assert np.array_equal(result, total), number
        if number == 200:
            grown = -resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown += resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert grown < 4096, f"{grown} KiB more than after 200"


def until_refused(group: Group) -> None:
    """Allreduces until something dies, whose status comes as a line: an error that names it, and no wait."""
    print("ready", flush=True)
    status = sys.stdin.readline().strip()
    data = values(group.rank, 1000)
    result = np.zeros_like(data)

    def reduce_for_ever() -> None:
        while True:
            group.net.wait(group.allreduce(data, result, INT32, SUM))

    with pytest.raises(Refused, match=status) as refused:
        reduce_for_ever()
    assert refused.value.result == RESULTS[status]


def main() -> None:
    version, rank, ranks, program = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    group = Group(version, rank, ranks)
    {"collectives": collectives, "many": many, "until_refused": until_refused}[program](group)
    group.close()
    print("ok", flush=True)


if __name__ == "__main__":
    main()
