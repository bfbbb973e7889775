"""A side that dies while requests are under way. It is the last file with a guest, which does not survive it."""

import pytest

from fanin_wire.verbs import RequestOpcode

from .ends import Completion
from .test_reliable import transfer

SOURCE, TARGET = 4096, 1 << 21
LENGTH = 1 << 20
REQUESTS = 12
KINDS = (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_READ, RequestOpcode.SEND)
ENDS = ("RETRY_EXC_ERR", "WR_FLUSH_ERR")


def post_all(one, two) -> None:
    for number in range(REQUESTS):
        one.post(KINDS[number % len(KINDS)], SOURCE, LENGTH, to=two, at=TARGET, wr_id=number)


def check_ends(done: list[Completion]) -> None:
    """Each request has one completion, in order: some are done, one finds out, the rest is flushed."""
    assert [each.wr_id for each in done] == list(range(REQUESTS))
    statuses = [each.status for each in done]
    first = next(number for number, status in enumerate(statuses) if status != "SUCCESS")
    assert statuses[first:] == [ENDS[0], *[ENDS[1]] * (REQUESTS - first - 1)]


@pytest.mark.parametrize("survives", ["rxe", "fanin"])
def test_the_other_dies_under_load(connect, wire, survives):
    fanin, rxe = connect(TIMEOUT=15, RETRY_CNT=3)
    one, two = (fanin, rxe) if survives == "fanin" else (rxe, fanin)
    transfer(one, two, RequestOpcode.SEND, b"before", 7)
    for number in range(REQUESTS):
        two.post_receive(TARGET, LENGTH, wr_id=number)
    post_all(one, two)
    wire.run(lambda: sum(wire.counts.values()) > 100, 60, "requests under way")
    if survives == "rxe":
        wire.detach(fanin)
    else:
        rxe.guest.kill()
    check_ends(one.sent(REQUESTS))
    assert one.state() == "ERR"
