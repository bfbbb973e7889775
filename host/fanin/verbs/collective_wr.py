"""CollectiveWR: the control information of one collective, as the device gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanin.driver import ffi
from fanin.errors import InvalidRequest
from fanin.verbs.address import Address
from fanin.verbs.resource import columns
from fanin_wire.abi import (
    INLINE_ADDRESSES,
    LKEY_PROCESS,
    MAX_ADDRESSES,
    ContributorClass,
    WqeFlag,
    WqeOpcode,
)

ADDRESS_LIST = int(WqeFlag["ADDRESS_LIST"])


@dataclass
class CollectiveWR:
    """Work request of a collective over `length` bytes.

    What is None is filled in by CollectiveQP.post_send from the job and the position of its stream. With more than
    three addresses the device reads the list (struct fanin_address each) from `list_address`, in the registered region
    of source_lkey.
    """

    op: int  # enum fanin_op
    dtype: int  # enum fanin_dtype
    length: int  # bytes of the message
    address_list: Sequence[Address]  # one for each bit of `rank`, ascending
    wr_id: int = 0
    jid: int | None = None
    mid: int | None = None  # message number within the job
    sid: int = 0  # sequence number of the first segment within the message
    node: int | None = None  # bitmap of the nodes that take part
    rank: int | None = None  # bitmap of the ranks of this node that this request posts for
    seg: int | None = None  # first slot, relative to the lease
    chunk_length: int | None = None  # payload bytes of a segment
    route: int | None = None  # enum fanin_route
    flags: int = int(WqeFlag["SIGNALED"])
    contributors: int = int(ContributorClass["ALL"])
    deadline_ms: int = 0  # 0: none
    source_lkey: int = LKEY_PROCESS
    destination_lkey: int = LKEY_PROCESS
    list_address: int | None = None

    def to_c(self, defaults: dict[str, int]) -> Any:
        """As a struct fanin_wqe; `defaults` has the values of what is None."""
        chosen = {name: _first(getattr(self, name), defaults[name]) for name in defaults}
        if len(self.address_list) != chosen["rank"].bit_count() or not 1 <= len(self.address_list) <= MAX_ADDRESSES:
            raise InvalidRequest(
                f"{len(self.address_list)} addresses for rank bitmap {chosen['rank']:#x}: "
                f"one for each bit is needed, at most {MAX_ADDRESSES}"
            )
        wqe = ffi.new("struct fanin_wqe *")
        try:
            self._fill(wqe, chosen)
        except OverflowError as error:
            raise InvalidRequest(f"a field of the work request does not fit: {error}") from None
        return wqe

    def _fill(self, wqe: Any, chosen: dict[str, int]) -> None:
        wqe.opcode = int(WqeOpcode["COLLECTIVE"])
        for name in ("op", "dtype", "length", "wr_id", "sid", "flags", "contributors", "deadline_ms"):
            setattr(wqe, name, getattr(self, name))
        for name, value in chosen.items():
            setattr(wqe, C_NAMES.get(name, name), value)
        wqe.source_lkey, wqe.destination_lkey = self.source_lkey, self.destination_lkey
        wqe.address_count = len(self.address_list)
        if len(self.address_list) <= INLINE_ADDRESSES:
            for entry, address in zip(wqe.address, self.address_list, strict=False):
                entry.source, entry.destination = address
        else:
            wqe.flags |= ADDRESS_LIST
            wqe.address[0].source = self._place_list()

    def _place_list(self) -> int:
        """Address of the list in memory that the device can read with the source's key."""
        if self.list_address is None or self.source_lkey == LKEY_PROCESS:
            raise InvalidRequest(
                f"{len(self.address_list)} addresses: at most {INLINE_ADDRESSES} fit into the request; register the "
                "source, put the list into its region and give its place as list_address"
            )
        return self.list_address

    def __str__(self) -> str:
        names = [name for name in self.__dataclass_fields__ if not name.startswith("_")]
        return columns(**{name: getattr(self, name) for name in names})


# Names of control information that are longer in struct fanin_wqe.
C_NAMES = {"node": "node_bitmap", "rank": "rank_bitmap", "chunk_length": "chunk"}


def _first(value: int | None, default: int) -> int:
    return default if value is None else value
