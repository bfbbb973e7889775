"""Questions for queue pairs and their answers: every byte, and invalid ones."""

import pytest

from fanin_wire.resolution import Kind, Message, decode, encode

QUESTION = bytes.fromhex("46615544 01 01 03 00 0123456789abcdef 00000000")
ANSWER = bytes.fromhex("46615544 01 02 00 00 ffffffffffffffff 00000011")


@pytest.mark.parametrize(
    ("message", "data"),
    [(Message(Kind.QUESTION, 3, 0x0123456789ABCDEF), QUESTION), (Message(Kind.ANSWER, 0, (1 << 64) - 1, 17), ANSWER)],
)
def test_bytes(message: Message, data: bytes) -> None:
    assert encode(message) == data
    assert decode(data) == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ANSWER[:-1],
        ANSWER + b"\0",
        b"X" + ANSWER[1:],
        ANSWER[:4] + b"\x02" + ANSWER[5:],  # another version
        ANSWER[:5] + b"\x03" + ANSWER[6:],  # another kind
        ANSWER[:16] + b"\x01\0\0\0",  # a queue pair of more than 24 bits
    ],
)
def test_what_is_no_message(data: bytes) -> None:
    assert decode(data) is None
