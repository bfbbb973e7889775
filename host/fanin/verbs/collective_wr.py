"""CollectiveWR: the control information of one collective, as the device gets it, with its address list."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from fanin.driver import ffi
from fanin.errors import InvalidRequest
from fanin.verbs.resource import columns
from fanin_wire.abi import LKEY_PROCESS, MAX_ADDRESSES, MAX_INLINE, ContributorClass, WqeFlag, WqeOpcode

SIGNALED, ADDRESS_LIST, INLINE = (int(WqeFlag[name]) for name in ("SIGNALED", "ADDRESS_LIST", "INLINE"))
COLLECTIVE = int(WqeOpcode.COLLECTIVE)
INLINE_OFFSET = ffi.offsetof("struct fanin_wqe", "address") + ffi.offsetof("struct fanin_address", "source")


class Address(NamedTuple):
    """The source and the destination of a rank: ranges of blocks of the message, without gaps in memory.

    source and destination: virtual addresses of the first block of each range. No blocks: the rank brings (wants)
    nothing. By default a message is one block, which every rank brings and wants.
    """

    source: int = 0
    destination: int = 0
    source_first: int = 0
    source_blocks: int = 1
    destination_first: int = 0
    destination_blocks: int = 1


def packed(addresses: Iterable[Address]) -> bytes:
    """A list of struct fanin_address, for registered memory (CollectiveWR.list_address)."""
    rows = ffi.new("struct fanin_address[]", [address._asdict() for address in addresses])
    return bytes(ffi.buffer(rows))


@dataclass
class CollectiveWR:
    """Work request of a collective over `length` bytes.

    CollectiveQP.post_send fills in members that are None, from the job and its stream; `block` becomes the whole
    message. The device reads a list of several addresses (`packed` makes it) from `list_address`, in the
    registered region of source_lkey. op is NONE where nothing is computed.
    """

    op: int  # enum fanin_op
    dtype: int  # enum fanin_dtype
    length: int  # bytes of the message
    address_list: Sequence[Address]  # one for each bit of `rank`, ascending
    wr_id: int = 0
    block: int | None = None  # bytes of a block of the message
    contributors: int = int(ContributorClass.ALL)  # ranks that bring data: enum fanin_class
    flags: int = SIGNALED  # enum fanin_wqe_flags, or-ed: SIGNALED, FENCE
    inline: bool = False  # the source, at most 16 bytes, is copied into the request when it is posted
    deadline_ms: int = 0  # 0: none
    source_lkey: int = LKEY_PROCESS
    destination_lkey: int = LKEY_PROCESS
    list_address: int | None = None
    jid: int | None = None
    mid: int | None = None  # message number within the job
    agreement: int = 0  # 16 bits that all ranks must give alike; they go into the message number
    sid: int = 0  # sequence number, within the message, of the first segment that is posted
    segments: int | None = None  # how many are posted; each takes a position of the stream
    node: int | None = None  # bitmap of the nodes that take part
    rank: int | None = None  # bitmap of the ranks of this node that this request posts for
    seg: int | None = None  # first slot, relative to the lease
    chunk_length: int | None = None  # payload bytes of a segment
    route: int | None = None  # enum fanin_route

    @property
    def block_length(self) -> int:
        return self.length if self.block is None else self.block

    def to_c(self, defaults: dict[str, int]) -> Any:
        """As a struct fanin_wqe. `defaults`: values for members that are None."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        chosen = {"block": self.length, **defaults, **given}
        flags, addresses, ranks = self.flags, self.address_list, chosen["rank"]
        if len(addresses) != ranks.bit_count() or not 1 <= len(addresses) <= MAX_ADDRESSES:
            raise InvalidRequest(
                f"{len(addresses)} addresses do not match rank bitmap {ranks:#x}, "
                f"which needs one for each bit, at most {MAX_ADDRESSES}"
            )
        address = addresses[0]
        if len(addresses) > 1:
            flags, address = flags | ADDRESS_LIST, Address(self._placed_list(), 0, 0, 0, 0, 0)
        members = {member: chosen[name] for name, member in _STORED.items()}
        members |= {"opcode": COLLECTIVE, "flags": flags, "address_count": len(addresses), "address": address._asdict()}
        try:
            wqe = ffi.new("struct fanin_wqe *", members)
        except OverflowError as error:
            raise InvalidRequest(f"a field of the work request does not fit: {error}") from None
        if self.inline:
            self._store_inline(wqe)
        return wqe

    def _placed_list(self) -> int:
        """Address of the list in the region of source_lkey."""
        if self.list_address is None or self.source_lkey == LKEY_PROCESS:
            raise InvalidRequest(
                f"{len(self.address_list)} addresses do not fit into the request, which has room for one",
                remedy="Register the source, put the list into its region and give its place as list_address.",
            )
        return self.list_address

    def _store_inline(self, wqe: Any) -> None:
        nbytes = self.source_bytes()
        if len(self.address_list) != 1 or nbytes > MAX_INLINE:
            raise InvalidRequest(
                f"{nbytes} bytes of {len(self.address_list)} ranks do not fit inline: at most {MAX_INLINE} of one do"
            )
        source = ffi.cast("void *", self.address_list[0].source)
        ffi.memmove(ffi.cast("char *", wqe) + INLINE_OFFSET, source, nbytes)
        wqe.flags |= INLINE

    def source_bytes(self) -> int:
        """Bytes of the message at the first address."""
        address, block = self.address_list[0], self.block_length
        start = address.source_first * block
        return max(0, min(start + address.source_blocks * block, self.length) - start)

    def __str__(self) -> str:
        return columns(**{name: getattr(self, name) for name in self.__dataclass_fields__})


_RENAMED = {"node": "node_bitmap", "rank": "rank_bitmap", "chunk_length": "chunk"}
_NAMES = {one.name: _RENAMED.get(one.name, one.name) for one in fields(CollectiveWR)}
_STORED = {name: member for name, member in _NAMES.items() if member in dict(ffi.typeof("struct fanin_wqe").fields)}
