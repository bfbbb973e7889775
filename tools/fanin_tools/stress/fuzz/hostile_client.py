"""A client of a device that breaks all rules: in messages, descriptors, rings and requests.

Members of records come from the dtypes of `fanin_wire.abi`, so a new member needs no change here.
"""

import contextlib
import fcntl
import mmap
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np

from fanin_nic.hostif.rings import PRODUCER
from fanin_nic.native import shared_words
from fanin_tools.stress.tally import Tally, Work
from fanin_wire import abi
from fanin_wire.abi import Access, MessageType

REPLY_SECONDS = 20.0  # a running device replies within this time
HOSTILE_REPLY_SECONDS = 0.2  # for a client that attacks
REPLY_BYTES = 1 << 18
PAGE = 4096
LENGTH = 4 * PAGE
READ_WRITE = Access.READ | Access.WRITE
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
REQUESTS = {
    **dict.fromkeys(("ATTACH", "STATUS"), abi.MESSAGE),
    **dict.fromkeys(("REGISTER", "DEREGISTER"), abi.REGISTER),
    **dict.fromkeys(("CREATE_CQ", "CREATE_QP", "DESTROY_QP", "DESTROY_CQ", "LEAVE"), abi.QUEUE),
    "JOIN": abi.JOIN,
    **dict.fromkeys(("CREATE_ORDINARY_QP", "DESTROY_ORDINARY_QP"), abi.ORDINARY_QP),
    **dict.fromkeys(("MODIFY_ORDINARY_QP", "QUERY_ORDINARY_QP"), abi.QP_ATTRIBUTES),
}


# Descriptors of every kind that a client can pass to a device


def memfd(seals: int = fcntl.F_SEAL_SHRINK, length: int = 4 * PAGE, flags: int = 0) -> int:
    """With seals. flags: of memfd_create(2)."""
    made = os.memfd_create("fanin-hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING | flags)
    with contextlib.suppress(OSError):  # the machine may have no huge pages
        os.ftruncate(made, length)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS, seals)
    return made


def path(name: str, flags: int = os.O_RDWR) -> Callable[[], int]:
    """A function that opens the file `name`."""
    return lambda: os.open(name, flags | os.O_CLOEXEC)


def pipe_end() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


KINDS: dict[str, Callable[[], int]] = {
    "sealed": memfd,
    "unsealed": lambda: memfd(seals=0),
    "read-only": lambda: memfd(seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE),
    "empty": lambda: memfd(length=0),
    "huge pages": lambda: memfd(flags=os.MFD_HUGETLB, length=2 << 20),
    "process memory": path("/proc/self/mem"),
    "memory to look at": path("/proc/self/mem", os.O_RDONLY),
    "bare path": path("/proc/self/mem", os.O_PATH),
    "zeros": path("/dev/zero"),
    "nothing": path("/dev/null"),
    "folder": path("/", os.O_RDONLY | os.O_DIRECTORY),
    "score": path("/proc/self/oom_score_adj"),
    "pipe": pipe_end,
    "socket": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).detach(),
    "event": lambda: os.eventfd(0),
}


@contextlib.contextmanager
def opened(kinds: list[str]) -> Iterator[list[int]]:
    """Open descriptors of these kinds for the time of the block, without kinds that this machine lacks."""
    made: list[int] = []
    try:
        for kind in kinds:
            with contextlib.suppress(OSError):
                made.append(KINDS[kind]())
        yield made
    finally:
        for descriptor in made:
            os.close(descriptor)


# Records with a few corrupt members


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


def message(kind: str, tag: int = 1, **values: int) -> np.ndarray:
    """A valid request. values: members of its record."""
    record = np.zeros(1, REQUESTS[kind])
    head = record if record.dtype == abi.MESSAGE else record["head"]
    head["version"], head["type"], head["tag"] = abi.ABI_VERSION, MessageType[kind], tag
    for name, value in values.items():
        record[name] = value
    return record


def local_job(jid: int, key: int = 1, qp: int = 0) -> np.ndarray:
    """A valid JOIN of the only rank of a job on one node."""
    return message("JOIN", jid=jid, key=key, qp=qp, rank_bitmap=1, rank_mask=1, slots=8, chunk=256, node_count=1)


def collective(jid: int, lkey: int, address: int) -> np.ndarray:
    """A valid work request in such a job: allreduce of one segment, in place in registered memory."""
    wqe = np.zeros(1, abi.WQE)
    wqe["opcode"], wqe["flags"], wqe["op"], wqe["dtype"], wqe["contributors"] = 1, 1, 1, 1, 2
    wqe["jid"], wqe["chunk"], wqe["segments"], wqe["address_count"] = jid, 256, 1, 1
    wqe["length"] = wqe["block"] = 64
    wqe["node_bitmap"] = wqe["rank_bitmap"] = 1
    wqe["source_lkey"] = wqe["destination_lkey"] = lkey
    wqe["address"][0] = (address, 0, 1, 0, 1, address)
    return wqe


# The client


class HostileClient:
    """One connection to the device at `path`. Every reply is acceptable. reply_seconds: time for one."""

    def __init__(self, path: Path, random: Random, tally: Tally, reply_seconds: float = REPLY_SECONDS) -> None:
        self._random, self._tally, self._reply_seconds = random, tally, reply_seconds
        self._stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stream.connect(str(path))  # waits for room in the backlog, unlike a connect with a time-out
        self._stream.settimeout(reply_seconds)
        self._region: mmap.mmap | None = None
        self._sq_offset = self._cq_offset = self._lkey = 0
        self._doorbell = -1
        self._jid = random.randrange(1, 1 << 32)

    def close(self) -> None:
        """Without a message to the device."""
        if self._doorbell >= 0:
            os.close(self._doorbell)
        self._doorbell = -1
        self._stream.close()

    def ask(self, data: bytes, passed: list[int] | None = None) -> bytes:
        """The reply to a message; b"" if the device has hung up. Keeps the descriptors of a reply to ATTACH."""
        self._tally.work[Work.MESSAGES] += 1
        try:
            socket.send_fds(self._stream, [data], passed or [])
            reply, received, _, _ = socket.recv_fds(self._stream, REPLY_BYTES, 4)
        except (BrokenPipeError, ConnectionResetError):
            return b""
        self._keep(reply, received)
        return reply

    def read(self) -> bytes:
        """A late reply."""
        return self._stream.recv(REPLY_BYTES)

    def _keep(self, reply: bytes, received: list[int]) -> None:
        if len(received) == 2 and len(reply) >= abi.ATTACH_REPLY.itemsize and self._region is None:
            limits = np.frombuffer(reply, abi.ATTACH_REPLY, count=1)[0]
            self._region = mmap.mmap(received[0], int(limits["region_bytes"]))
            self._sq_offset, self._cq_offset = int(limits["sq_offset"]), int(limits["cq_offset"])
            self._doorbell = received.pop()
        for descriptor in received:
            os.close(descriptor)

    def prepare_valid_state(self) -> None:
        """Attach, register, create queues and join a job, so that later requests pass the first checks."""
        self.ask(message("ATTACH").tobytes())
        with opened(["sealed"]) as passed:
            reply = self.ask(message("REGISTER", address=4096, length=LENGTH, access=READ_WRITE).tobytes(), passed)
        if len(reply) == abi.REGISTER.itemsize:
            self._lkey = int(np.frombuffer(reply, abi.REGISTER, count=1)[0]["lkey"])
        self.ask(message("CREATE_CQ").tobytes())
        self.ask(message("CREATE_QP").tobytes())
        self.ask(local_job(self._jid).tobytes())

    def send_garbage(self) -> None:
        """Any number of random bytes."""
        self._send(self._random.randbytes(self._random.choice((0, 1, 15, 16, 17, 48, 300, 5000))))

    def send_corrupt_message(self) -> None:
        """A request with corrupt members, with descriptors of any kind or none."""
        kind = self._random.choice(list(REQUESTS))
        valid = local_job(self._jid) if kind == "JOIN" else message(kind, tag=self._random.randrange(9))
        data = corrupt(self._random, valid).tobytes()
        kinds = self._random.choices(list(KINDS), k=self._random.choice((0, 0, 1, 1, 2, 9)))
        with opened(kinds) as passed:
            self._send(data[: self._random.choice((len(data), len(data), len(data) - 4))], passed)

    def _send(self, data: bytes, passed: list[int] | None = None) -> None:
        """Send, then read replies or leave them unread."""
        self._tally.work[Work.MESSAGES] += 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            self._stream.setblocking(False)
            socket.send_fds(self._stream, [data], passed or [])
            while self._random.randrange(8):
                reply, received, _, _ = socket.recv_fds(self._stream, REPLY_BYTES, 4)
                self._keep(reply, received)
                if not reply:
                    break
        self._stream.settimeout(self._reply_seconds)

    def post_corrupt_requests(self) -> None:
        """Post corrupt requests to the first send ring."""
        for _ in range(self._random.randrange(1, 40) if self._region is not None else 0):
            self.post_request(corrupt(self._random, collective(self._jid, self._lkey, 4096)))

    def post_request(self, wqe: np.ndarray) -> None:
        """Unchanged."""
        assert self._region is not None
        ring = np.frombuffer(self._region, abi.RING, count=1, offset=self._sq_offset)
        first = self._sq_offset + abi.RING.itemsize
        entries = np.frombuffer(self._region, abi.WQE, count=abi.SQ_DEPTH, offset=first)
        entries[int(ring["producer"][0]) % abi.SQ_DEPTH] = wqe[0]
        following = (int(ring["producer"][0]) + 1) % (1 << 32)
        shared_words.store_release(int(ring.ctypes.data) + int(PRODUCER), following)
        self._tally.work[Work.WORK_REQUESTS] += 1
        self.ring_doorbell()

    def completion(self) -> np.void | None:
        """The first that the device has stored, or None."""
        assert self._region is not None
        ring = np.frombuffer(self._region, abi.RING, count=1, offset=self._cq_offset)
        if not shared_words.load_acquire(int(ring.ctypes.data) + int(PRODUCER)):
            return None
        return np.frombuffer(self._region, abi.CQE, count=1, offset=self._cq_offset + abi.RING.itemsize)[0]

    def ring_doorbell(self) -> None:
        """Sometimes also read it, as only the device should."""
        with contextlib.suppress(OSError):
            os.set_blocking(self._doorbell, False)
            os.eventfd_write(self._doorbell, self._random.choice((1, 1, 5, (1 << 64) - 2)))
            if self._random.randrange(4) == 0:
                os.eventfd_read(self._doorbell)
            os.set_blocking(self._doorbell, True)

    def overwrite_rings(self) -> None:
        """Write bytes over any part of doorbells and rings."""
        if self._region is None:
            return
        self._tally.work[Work.RING_OVERWRITES] += 1
        size = self._random.choice((4, 64, 4096, 65536))
        start = self._random.randrange(0, min(len(self._region), 1 << 18), 4)
        filling = self._random.choice((self._random.randbytes(4), b"\0" * 4, b"\xff" * 4))
        end = min(start + size, len(self._region))
        self._region[start:end] = (filling * (size // 4))[: end - start]
        self.ring_doorbell()

    def random_action(self) -> None:
        actions: tuple[Callable[[], None], ...] = (
            self.send_garbage,
            self.send_corrupt_message,
            self.send_corrupt_message,
            self.post_corrupt_requests,
            self.post_corrupt_requests,
            self.overwrite_rings,
            self.prepare_valid_state,
        )
        self._random.choice(actions)()


def attack_device(path: Path, random: Random, tally: Tally, actions: int = 30) -> None:
    """Run one hostile client, which ends at any moment."""
    client = HostileClient(path, random, tally, HOSTILE_REPLY_SECONDS)
    with contextlib.closing(client), contextlib.suppress(TimeoutError):  # the reply to a JOIN may take seconds
        if random.randrange(4):
            client.prepare_valid_state()
        for _ in range(random.randrange(actions)):
            client.random_action()
