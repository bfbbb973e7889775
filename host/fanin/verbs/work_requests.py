"""SendWR, RecvWR and their SGEs: work requests of ordinary traffic."""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from fanin.driver import ffi
from fanin.errors import InvalidRequest
from fanin.verbs.ah import AH
from fanin.verbs.resource import columns
from fanin_wire.abi import MAX_INLINE_DATA, MAX_SGE
from fanin_wire.verbs import RequestOpcode, SendFlag

SIGNALED, INLINE = int(SendFlag.SIGNALED), int(SendFlag.INLINE)


class SGE(NamedTuple):
    """`length` bytes at virtual address `addr` in the region `lkey` (LKEY_PROCESS: ordinary memory)."""

    addr: int
    length: int
    lkey: int

    def __str__(self) -> str:
        return columns(addr=f"{self.addr:#x}", length=self.length, lkey=f"{self.lkey:#x}")


class RecvWR:
    """Receive into the pieces `sg`; only the first `num_sge` of them count (0: all)."""

    def __init__(self, wr_id: int = 0, num_sge: int = 0, sg: Sequence[SGE] | None = None) -> None:
        self.wr_id = wr_id
        self.sg = _pieces(sg, num_sge)

    def to_c(self) -> Any:
        """As a struct fanin_receive_wqe."""
        members = {"wr_id": self.wr_id, "sge_count": len(self.sg), "sge": _rows(self.sg)}
        return new("struct fanin_receive_wqe *", members)

    def __str__(self) -> str:
        return columns(wr_id=self.wr_id, num_sge=len(self.sg))


class SendWR:
    """Send the pieces `sg`, or fill them by READ and atomics.

    imm_data: immediate data; of SEND_WITH_INV the remote key. Data of IBV_SEND_INLINE are copied when it is posted, and
    need no registered memory.
    """

    def __init__(
        self,
        wr_id: int = 0,
        opcode: int = int(RequestOpcode.SEND),
        num_sge: int = 0,
        imm_data: int = 0,
        sg: Sequence[SGE] | None = None,
        send_flags: int = SIGNALED,
    ) -> None:
        self.wr_id, self.opcode, self.imm_data, self.send_flags = wr_id, opcode, imm_data, send_flags
        self.sg = _pieces(sg, num_sge)
        self._remote: dict[str, int] = {}

    def set_wr_ud(self, ah: AH, rqpn: int, rqkey: int) -> None:
        """Set the receiver of a datagram."""
        self._remote |= {"destination": ah.ipv4, "remote_qpn": rqpn, "remote_qkey": rqkey}

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Set the memory of a WRITE or READ."""
        self._remote |= {"rkey": rkey, "remote_address": addr}

    def set_wr_atomic(self, rkey: int, addr: int, compare_add: int, swap: int = 0) -> None:
        """Set the memory of an atomic, what is compared or added, and what replaces it."""
        self._remote |= {"rkey": rkey, "remote_address": addr, "compare_add": compare_add, "swap": swap}

    def to_c(self) -> Any:
        """As a struct fanin_send_wqe; InvalidRequest if a value does not fit its field."""
        members = {"wr_id": self.wr_id, "opcode": self.opcode, "flags": self.send_flags, "immediate": self.imm_data}
        if self.send_flags & INLINE:
            data = _inline_data(self.sg)
            wqe = new("struct fanin_send_wqe *", members | self._remote | {"inline_length": len(data)})
            ffi.memmove(wqe.sge, data, len(data))
            return wqe
        pieces = {"sge_count": len(self.sg), "sge": _rows(self.sg)}
        return new("struct fanin_send_wqe *", members | self._remote | pieces)

    def __str__(self) -> str:
        return columns(wr_id=self.wr_id, opcode=self.opcode, num_sge=len(self.sg), send_flags=self.send_flags)


def new(kind: str, members: dict[str, Any]) -> Any:
    """A struct of the host interface; InvalidRequest if a value does not fit its member."""
    try:
        return ffi.new(kind, members)
    except OverflowError as error:
        raise InvalidRequest(f"{members}: {error}", remedy="Give numbers that fit their fields.") from None


def _pieces(sg: Sequence[SGE] | None, number: int) -> list[SGE]:
    pieces = list(sg or ())
    pieces = pieces[:number] if number else pieces
    if len(pieces) > MAX_SGE:
        raise InvalidRequest(
            f"{len(pieces)} pieces of memory are more than a request can have", remedy=f"Give at most {MAX_SGE}."
        )
    return pieces


def _rows(pieces: list[SGE]) -> list[tuple[int, int, int]]:
    return [(piece.addr, piece.length, piece.lkey) for piece in pieces]


def _inline_data(pieces: list[SGE]) -> bytes:
    lengths = [piece.length for piece in pieces]
    if min(lengths, default=0) < 0 or sum(lengths) > MAX_INLINE_DATA:
        raise InvalidRequest(
            f"inline data of {lengths} bytes do not fit into a request", remedy=f"Give at most {MAX_INLINE_DATA}."
        )
    return b"".join(ctypes.string_at(piece.addr, piece.length) for piece in pieces)
