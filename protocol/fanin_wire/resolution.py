"""How devices over verbs find each other's queue pairs: a question and an answer over UDP, as in ARP.

A verbs device chooses the numbers of its queue pairs. So each device listens at UDP port RESOLUTION_PORT of its
address, and answers a QUESTION for a lane with the number of that lane's queue pair. The answer repeats the token of
the question, so that only those who have seen the question can answer.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

RESOLUTION_PORT = 14791
QUEUE_KEY = 0x0FA_0C01  # Q_Key of every queue pair; its highest bit is for privileged users and not set
MAGIC = b"FaUD"
VERSION = 1
LAYOUT = struct.Struct(">4sBBBxQI")  # magic, version, kind, lane, token, queue pair
MAX_QUEUE_PAIR = (1 << 24) - 1


class Kind(enum.IntEnum):
    QUESTION = 1  # its queue pair is 0
    ANSWER = 2


class Message(NamedTuple):
    kind: Kind
    lane: int
    token: int
    queue_pair: int = 0


def encode(message: Message) -> bytes:
    return LAYOUT.pack(MAGIC, VERSION, *message)


def decode(data: bytes) -> Message | None:
    """None unless `data` is a message of this version."""
    if len(data) != LAYOUT.size:
        return None
    magic, version, kind, lane, token, queue_pair = LAYOUT.unpack(data)
    if magic != MAGIC or version != VERSION or kind not in tuple(Kind) or queue_pair > MAX_QUEUE_PAIR:
        return None
    return Message(Kind(kind), lane, token, queue_pair)
