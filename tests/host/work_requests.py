"""Work requests of an f32 allreduce, and their completions."""

import time

from fanin import errors
from fanin.verbs import CQ, WC, Address, CollectiveQP, CollectiveWR
from fanin_wire.abi import DType, Op
from tests.waiting import BOUND_S

SUM, F32 = int(Op.SUM), int(DType.F32)


def request_over(source: int, destination: int, length: int, **fields: object) -> CollectiveWR:
    """One rank's sum of `length` bytes at `source` to `destination`."""
    return CollectiveWR(SUM, F32, length, [Address(source, destination)], **fields)


def one_completion(cq: CQ) -> WC:
    """The next one, which must be the only one."""
    assert cq.wait(BOUND_S)
    count, completions = cq.poll(2)
    assert count == 1
    return completions[0]


def post_patiently(qp: CollectiveQP, wr: CollectiveWR) -> None:
    """Post as soon as the send queue has room."""
    deadline = time.monotonic() + BOUND_S
    while True:
        try:
            return qp.post_send(wr)
        except errors.QueueFull:
            assert time.monotonic() < deadline
            time.sleep(0.001)
