"""The records of a device: jobs, their children, and their slots."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from fanin_reference import spec
from fanin_reference.arithmetic import WIDENING

NEVER = float("-inf")


class State(Enum):
    """Of a job at the top ([10.3]); REMEMBERED: a tombstone of a LEAVE or a refusal."""

    JOINING = 1
    ACTIVE = 2
    TOMBSTONE = 3
    REMEMBERED = 4


class Named(NamedTuple):
    """Members that an end names: bits of children of the device `above` so many levels; the lost device's address."""

    bits: int
    above: int = 0
    address: int = 0


NOBODY = Named(0)


@dataclass
class Child:
    """is_full: whether its last CONFIG was. heard, sent: times of the last packet from it, and to it."""

    address: str
    boot_id: int
    is_full: bool
    heard: float
    sent: float


@dataclass
class Slot:
    """position: None before the first one. hears: whether all contributions came from children that hear the group.
    data: of the children, with their bits, in the order of arrival."""

    position: int | None = None
    missing: int = 0
    wants: int = 0
    hears: bool = True
    status: int = 0
    contributions: int = 0
    head: dict[str, int] = field(default_factory=dict)
    data: list[tuple[int, bytes]] = field(default_factory=list)
    result: bytes | None = None
    is_final: bool = True
    finished: float = NEVER


@dataclass
class Job:
    """alike: must be equal in the CONFIG of each member. refused: a key that was refused."""

    jid: int
    key: int
    lane: int
    state: State
    heard: float
    invited: float = NEVER
    mask: int = 0
    slots: int = 0
    window: int = 0
    chunk: int = 0
    flags: int = 0
    alike: tuple[int, ...] = ()
    children: dict[int, Child] = field(default_factory=dict)
    left: int = 0
    table: list[Slot] = field(default_factory=list)
    loss: float = NEVER
    status: int = 0
    about: Named = NOBODY
    refused: int | None = None

    @property
    def missing(self) -> int:
        """Bits that have not joined."""
        return self.mask & ~sum(1 << bit for bit in self.children)

    @property
    def present(self) -> list[int]:
        """Bits that have joined and not left."""
        return [bit for bit in sorted(self.children) if not self.left >> bit & 1]

    @property
    def ended(self) -> dict[str, int]:
        """The fields of an ABORT to a child, which counts one more ([4-24])."""
        members = {"seg": self.about.above + 1, "node_bitmap": self.about.bits} if self.about.bits else {}
        return {"status": self.status, "rank_bitmap": self.about.address, **members}

    @property
    def in_order(self) -> bool:
        """Whether the fold is in the order of the bits ([12-6])."""
        return bool(self.flags & (2 | 4))

    def is_wide(self, head: dict[str, int]) -> bool:
        """Whether the data of a segment travel as f32 in place of a small float ([12-11], [12-21])."""
        small = spec.TYPES.get(head["dtype"], ("", 0, ""))[2] == "small float"
        widening = spec.OPERATIONS.get(head["op"], ("", []))[0] in WIDENING
        return bool(self.flags & (1 | 4)) and small and widening and head["class"] == spec.ALL
