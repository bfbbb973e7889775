"""The table of actions: what the transport asks its driver to do; and the headers of a packet as a record.

The driver performs all WRITEs and ATOMICs in order, then sends the packets, then stores the completions, and clears the
table. So an acknowledgement leaves after what it acknowledges, and a program that sees a completion finds its data.
Until then addresses in actions are valid, and the driver posts no work request: inline data are in the row of their
request, which is free again when the request is complete.

If the payload of a requester's packet is unreadable, the driver calls `events.fail_unreadable`, sends no packet that
this takes back, and stores the completions that it adds. A packet has `pieces` of payload: the first in the action
itself, further ones in PIECE actions behind it.
"""

import enum

import numpy as np

from fanin_wire.fields import AETH, ATOMICACKETH, ATOMICETH, BTH, DETH, IETH, IMMDT, RETH
from fanin_wire.rocev2 import MAX_HEADERS

# In the order on the wire (section 9.3)
EXTENDED_HEADERS = (DETH, RETH, ATOMICETH, AETH, ATOMICACKETH, IMMDT, IETH)
_WIDTHS = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}


def _members() -> dict[str, str]:
    """Type of each member. Equal names of fields are one member, as a packet has only one of them."""
    fields = {field.name: field.bits for header in (BTH, *EXTENDED_HEADERS) for field in header.fields}
    return {name: _WIDTHS[min(width for width in _WIDTHS if width >= bits)] for name, bits in fields.items()}


PACKET = np.dtype([*_members().items()], align=True)


class ActionKind(enum.IntEnum):
    NONE = 0
    SEND = 1  # a packet: `header`, then the payload
    PIECE = 2  # more payload of the SEND before it
    WRITE = 3  # memory of the device to a region of a client
    COMPARE_SWAP = 4  # of 8 bytes of a region; the former value goes to `payload`, most significant byte first
    FETCH_ADD = 5
    COMPLETE = 6  # a completion queue entry


HEADER_ROOM = BTH.size + MAX_HEADERS

ACTION = np.dtype(
    [
        ("kind", "u1"),
        ("header_length", "u1"),  # SEND
        ("pieces", "u1"),  # SEND
        ("status", "u1"),  # COMPLETE: CompletionStatus
        ("opcode", "u1"),  # COMPLETE: CompletionOpcode
        ("flags", "u1"),  # COMPLETE: CompletionFlag
        ("solicited", "u1"),  # COMPLETE: the sender wants the receiver to be woken
        ("of_request", "u1"),  # SEND: has payload of the request to send `request`, and the PSN `psn`
        ("queue_pair", "u4"),  # row
        ("destination", "u4"),  # SEND: IPv4 address, host order
        ("length", "u4"),  # SEND, PIECE, WRITE: bytes of this piece
        ("process", "u4"),  # SEND, PIECE: of `payload`; WRITE, atomics: of `remote`; 0: mapped in the device
        ("payload", "u8"),  # address of the data
        ("remote", "u8"),  # WRITE, atomics: address in the region
        ("operand", "u8"),  # atomics: what is added, or takes the place
        ("compare", "u8"),  # COMPARE_SWAP
        ("wr_id", "u8"),  # COMPLETE
        ("completion_queue", "u4"),  # COMPLETE
        ("qpn", "u4"),  # COMPLETE
        ("source_qpn", "u4"),  # COMPLETE of a datagram
        ("source", "u4"),  # COMPLETE of a datagram: IPv4 address of its sender, host order
        ("byte_length", "u4"),  # COMPLETE
        ("immediate", "u4"),  # COMPLETE: immediate data, or the key that was invalidated
        ("request", "u4"),  # SEND: free-running number in its queue
        ("psn", "u4"),  # SEND
        ("header", "u1", (HEADER_ROOM,)),  # SEND: BTH and what follows it
    ],
    align=True,
)
