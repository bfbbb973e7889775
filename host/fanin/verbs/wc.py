"""WC and OrdinaryWC: completions of collectives and of ordinary traffic."""

import ipaddress
from operator import attrgetter
from typing import Any, NamedTuple, Self

from fanin.verbs.resource import columns
from fanin_wire.status import status_entry
from fanin_wire.verbs import CompletionOpcode, CompletionStatus

RANKS = 0  # missing_kind: `missing` counts ranks of this node
NODES = 1  # children of the device above, or nodes of the ring; k: children of the k-th device above


class WC(NamedTuple):
    """The outcome of a work request."""

    wr_id: int
    status: int  # enum fanin_status
    opcode: int
    byte_len: int  # bytes of the message that are complete
    qp_num: int
    jid: int
    mid: int
    positions: int
    missing: int  # bitmap of the members that are waited for
    missing_kind: int
    lost_device: int = 0  # PEER_LOST, PATH_MTU: IPv4 address of the device that is named, as a number

    @classmethod
    def of(cls, cqe: Any) -> Self:
        """From a struct fanin_cqe."""
        return cls._make(_members_of(cqe))

    def missing_members(self) -> list[int]:
        """Numbers of the bits of `missing`, ascending."""
        return [bit for bit in range(64) if self.missing >> bit & 1]

    def __str__(self) -> str:
        missing = f"{kind_of_members(self.missing_kind)} {self.missing_members()}" if self.missing else "nobody"
        words = {"status": status_entry(self.status).name, "missing": missing}
        return columns(**{**self._asdict(), **words, "lost_device": address_text(self.lost_device) or "none"})


_CQE_NAMES = {"byte_len": "byte_length", "qp_num": "qp"}  # names that differ in pyverbs
_members_of = attrgetter(*(_CQE_NAMES.get(name, name) for name in WC._fields))


class OrdinaryWC(NamedTuple):
    """The outcome of a request of ordinary traffic; pyverbs' WC. Codes as in `fanin.verbs.enums`."""

    wr_id: int
    status: int  # IBV_WC_SUCCESS, ...
    opcode: int  # IBV_WC_SEND, ...; not valid for a failed request
    byte_len: int
    qp_num: int
    src_qp: int  # of a datagram
    imm_data: int  # immediate data, or the key that was invalidated
    wc_flags: int
    source: int = 0  # of a datagram: IPv4 address of its sender, as a number
    vendor_err: int = 0

    @classmethod
    def of(cls, wc: Any) -> Self:
        """From a struct fanin_wc."""
        return cls(
            wc.wr_id, wc.status, wc.opcode, wc.byte_length, wc.qpn, wc.source_qpn, wc.immediate, wc.flags, wc.source
        )

    def __str__(self) -> str:
        words = {"source": address_text(self.source) or "none"}
        if self.status in list(CompletionStatus):
            words["status"] = CompletionStatus(self.status).name
        if self.opcode in list(CompletionOpcode):
            words["opcode"] = CompletionOpcode(self.opcode).name
        return columns(**{**self._asdict(), **words})


def address_text(address: int) -> str:
    """An IPv4 address; "" for 0."""
    return str(ipaddress.IPv4Address(address)) if address else ""


def kind_of_members(missing_kind: int) -> str:
    """Whose bits a bitmap of missing members has, in words."""
    if missing_kind == RANKS:
        return "ranks of this node"
    if missing_kind == NODES:
        return "nodes"
    return f"children of device {missing_kind} above"
