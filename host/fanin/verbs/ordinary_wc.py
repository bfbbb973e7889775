"""OrdinaryWC: a completion of ordinary traffic."""

from typing import Any, NamedTuple, Self

from fanin.verbs.resource import columns
from fanin.verbs.wc import address_text
from fanin_wire.verbs import CompletionOpcode, CompletionStatus


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
