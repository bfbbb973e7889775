"""A rank: a queue pair with its own connection and memory, as a process of the host has them."""

import contextlib
import ipaddress
import threading
import time
from collections import deque

from fanin.errors import FaninError
from fanin.verbs import CQ, MR, PD, WC, Address, CollectiveQP, CollectiveWR, Context, Membership
from fanin.verbs.membership import Hop
from fanin_wire.abi import LKEY_PROCESS, Status, WqeOpcode
from fanin_wire.agent import MAX_WAIT_S, AgentError, Answer, Join, Post, address_of, bytes_of, code_of, data_of

MEMORY_BYTES, ALIGNMENT = 1 << 20, 64
UNREADABLE = ALIGNMENT  # an address of the first page, which is never mapped
BATCH = 16
PENDING = {"status": "PENDING"}


class Rank:
    """A rank. It joins at once, and a thread waits for the answer."""

    def __init__(self, socket: str, join: Join) -> None:
        membership = _membership(join)
        self.context = Context(socket)
        domain, self._queue = PD(self.context), CQ(self.context)
        self._qp = CollectiveQP(domain, self._queue)
        self._memory = MR(domain, MEMORY_BYTES)
        self._used = 0
        self._results: dict[tuple[int, int], tuple[int, int]] = {}  # offset, bytes; by wr and mid
        self._completions: deque[WC] = deque()
        self._queries = 0
        self._answer: Answer | None = None
        self._qp.start_join(membership)
        self.context.status()  # the device answers messages in order: it has taken the JOIN
        self._joining = threading.Thread(target=self._finish_join, daemon=True)
        self._joining.start()

    def _finish_join(self) -> None:
        try:
            lease = self._qp.finish_join(MAX_WAIT_S)
            self._answer = {"status": "SUCCESS", **lease._asdict()}
        except FaninError as error:
            self._answer = {"status": Status(error.status).name}

    def joined(self, seconds: float) -> Answer:
        self._joining.join(seconds)
        return self._answer or dict(PENDING)

    def post(self, request: Post) -> Answer:
        data = data_of(request)
        source, result = self._place(len(data)), self._place(size := bytes_of(request, request.wants))
        self._memory.write(data, len(data), source)
        self._memory.write(bytes(size), size, result)
        base = self._memory.address
        place = base + source if request.readable else UNREADABLE
        address = Address(place, base + result, *request.brings, *request.wants)
        wr = CollectiveWR(
            op=code_of("op", request.op),
            dtype=code_of("dtype", request.dtype),
            length=request.length,
            block=request.block,
            contributors=code_of("contributors", request.contributors),
            address_list=[address],
            wr_id=request.wr,
            deadline_ms=request.deadline_ms,
            source_lkey=self._memory.lkey if request.readable else LKEY_PROCESS,
            destination_lkey=self._memory.lkey,
            agreement=request.agreement,
        )
        mid = self._qp.post_send(wr)
        self._results[request.wr, mid] = (result, size)
        return {"mid": mid}

    def _place(self, size: int) -> int:
        if size > MEMORY_BYTES:
            raise AgentError("NO_RESOURCES", f"{size} bytes are more than the {MEMORY_BYTES} of a rank")
        if self._used + size > MEMORY_BYTES:
            self._used = 0
        start = self._used
        self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return start

    def _poll(self, seconds: float) -> bool:
        """Take the completions, or wait for one. Returns whether any came."""
        if not self._queue.wait(seconds):
            return False
        for each in self._queue.poll(BATCH)[1]:
            if each.opcode == WqeOpcode.QUERY:
                self._queries += 1
            else:
                self._completions.append(each)
        return True

    def wait(self, seconds: float) -> Answer:
        end = time.monotonic() + seconds
        while not self._completions:
            if not self._poll(max(0.0, end - time.monotonic())):
                return {"status": ""}
        done = self._completions.popleft()
        offset, size = self._results.pop((done.wr_id, done.mid))
        lost = str(ipaddress.IPv4Address(done.lost_device)) if done.lost_device else ""
        answer: Answer = {"status": Status(done.status).name, "wr": done.wr_id, "byte_length": done.byte_len}
        answer |= {"missing": done.missing, "missing_kind": done.missing_kind, "lost_device": lost}
        return answer | {"data": self._memory.read(size, offset).hex()}

    def look(self) -> Answer:
        """Wait for a query of progress: the device answers it when it has seen all earlier posts."""
        wanted = self._queries + 1
        self._qp.post_query(0)
        end = time.monotonic() + MAX_WAIT_S
        while self._queries < wanted:
            if not self._poll(max(0.0, end - time.monotonic())):
                raise AgentError("DEVICE_LOST", "the device does not answer a query")
        return {}

    def leave(self, seconds: float) -> Answer:
        try:
            self._qp.leave(seconds)
        except FaninError as error:
            if error.status != Status.TIMEOUT:
                raise
            return dict(PENDING)
        return {"status": "SUCCESS"}

    def kill(self) -> None:
        """End the connection without a LEAVE."""
        self.context.abandon()

    def close(self) -> None:
        if not self.context.closed:
            with contextlib.suppress(FaninError):
                self.context.close()


def _membership(join: Join) -> Membership:
    try:
        digest = b"".join(half.to_bytes(8, "big") for half in join.digest)
    except OverflowError:
        raise AgentError("WRONG_REQUEST", "half of the digest does not fit into 64 bits") from None
    return Membership(
        jid=join.jid,
        key=join.key,
        route=code_of("route", join.route),
        rank_bitmap=1 << join.rank,
        rank_mask=join.rank_mask,
        slots=join.slots,
        chunk=join.chunk,
        digest=digest,
        node_index=join.node_index,
        node_count=join.node_count,
        next_address=address_of(join.next),
        previous_address=address_of(join.previous),
        hops=tuple(Hop(address_of(hop.address), hop.bit, hop.mask) for hop in join.hops),
        flags=join.flags,
    )
