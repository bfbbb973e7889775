"""Membership: the place of a queue pair in the job that it joins. Lease: its share. `refusal`: why a JOIN failed."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

from fanin.driver import ffi
from fanin.errors import FaninError, InvalidRequest, Timeout
from fanin.verbs.wc import kind_of_members
from fanin_wire.abi import MAX_HOPS, Route, Status
from fanin_wire.fields import WIRE_VERSION

# Members with the same name in struct fanin_join.
_PLAIN = (
    "jid",
    "key",
    "route",
    "rank_bitmap",
    "rank_mask",
    "slots",
    "chunk",
    "node_index",
    "node_count",
    "next_address",
    "previous_address",
    "flags",
)


class Hop(NamedTuple):
    """One level above a node: the device there, the lower device's bit at it, and all bits that it waits for."""

    address: int  # IPv4, host order
    bit: int
    mask: int


class Lease(NamedTuple):
    """What a job has of each device on its path."""

    slots: int  # seg buffers; 0: none needed (all ranks on one node)
    window: int  # positions in flight
    chunk: int  # payload bytes of a segment


@dataclass(frozen=True)
class Membership:
    """The place of one queue pair in a job. Bitmaps name the ranks of this node; addresses are IPv4 in host order."""

    jid: int
    key: int
    route: int = int(Route.LOCAL)
    rank_bitmap: int = 1  # ranks that the queue pair posts for
    rank_mask: int = 1  # all ranks of this node in the job
    slots: int = 256  # offered lease, a power of two
    chunk: int = 4096  # a power of two
    digest: bytes = bytes(16)  # over ordered members, route and parameters: equal on every rank
    node_index: int = 0
    node_count: int = 1
    next_address: int = 0  # ring
    previous_address: int = 0
    hops: tuple[Hop, ...] = ()  # levels above this node (a ring: above its last node), lowest first
    flags: int = 0  # enum fanin_job_flags, or-ed

    @classmethod
    def of(cls, join: Any) -> Self:
        """From a struct fanin_join."""
        digest = b"".join(int(half).to_bytes(8, "big") for half in join.digest)
        hops = tuple(Hop(hop.address, hop.bit, hop.mask) for hop in join.hop[0 : join.hop_count])
        return cls(**{name: getattr(join, name) for name in _PLAIN}, digest=digest, hops=hops)

    def to_c(self, qp: int) -> Any:
        """As a struct fanin_join of the queue pair `qp`; InvalidRequest if a value does not fit its field."""
        if len(self.hops) > MAX_HOPS:
            raise InvalidRequest(f"{len(self.hops)} levels of switches are more than the {MAX_HOPS} that are possible")
        join = ffi.new("struct fanin_join *", {"qp": qp, "hop_count": len(self.hops)})
        try:
            for name in _PLAIN:
                setattr(join, name, getattr(self, name))
            join.digest = [int.from_bytes(self.digest[:8], "big"), int.from_bytes(self.digest[8:16], "big")]
            for row, hop in zip(join.hop, self.hops, strict=False):
                row.address, row.bit, row.mask = hop
        except OverflowError as error:
            raise InvalidRequest(f"{self}: {error}") from None
        return join


class Asked(Protocol):
    """What was asked for: a Membership or a Job."""

    @property
    def jid(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def chunk(self) -> int: ...


def refusal(status: int, asked: Asked, reply: Any, missing: str = "") -> FaninError:
    """The exception of a JOIN. `reply`: struct fanin_join_reply, with the missing members or the lease that fits.
    missing: the members in words, after a separator; "": name their bits."""
    detail, remedy = f"could not join job {asked.jid}", ""
    if reply.missing and not missing:
        bits = [bit for bit in range(64) if reply.missing >> bit & 1]
        missing = f"; {kind_of_members(reply.missing_kind)} that are missing (bits): {bits}"
    detail += missing
    if status == Status.NO_RESOURCES:
        detail += f"; asked for {asked.slots} slots of {asked.chunk} bytes, {reply.slots} would fit"
        fewer = f"Ask for at most {reply.slots} slots (fanin run --slots), or close" if reply.slots else "Close"
        remedy = f"{fewer} communicators and persistent requests that are not needed: each leases slots of the devices."
    if status == Status.VERSION_MISMATCH:
        detail += f"; {_other_version(reply.slots)} and this node's NIC version {WIRE_VERSION}"
    if status == Status.INVALID_REQUEST:
        detail += ": the device refuses the description of the job, or that this rank joins it again"
        remedy = "Join with each rank once; see that the devices can have the job's slots and chunk."
    if status == Status.PENDING:
        return Timeout(f"{detail}; not all members have joined in time", remedy="Start the members that are missing.")
    return FaninError.of(status, detail, remedy)


def _other_version(version: int) -> str:
    """Names the device with another version; only the one directly below it sees its number."""
    if version:
        return f"the next device on its path speaks version {version} of the wire protocol,"
    return "a device on its path speaks another version of the wire protocol than the device below it,"
