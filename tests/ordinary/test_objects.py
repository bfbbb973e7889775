"""Objects of fanin.verbs for ordinary traffic: none remains, and each error has a name."""

import contextlib
import mmap
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fanin import FaninError, device_status, errors
from fanin.driver import library
from fanin.verbs import MR, QP, SGE, QPAttr, QPInitAttr, RecvWR, SendWR
from fanin.verbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_QP_QKEY,
    IBV_QP_STATE,
    IBV_QPT_RC,
    IBV_QPT_UD,
    IBV_SEND_INLINE,
    IBV_WR_SEND,
)
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.abi import Status
from tests.e2e.fabrics import Bench
from tests.ordinary.conftest import Connected
from tests.ordinary.sides import Side, attributes, sockets

BYTES = 4096
NO_SUCH_PORT = 9


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    return bench.up(Shape(2, 2))


@pytest.fixture
def side(running: Running) -> Iterator[Side]:
    with contextlib.closing(Side(sockets(running)[0])) as side:
        yield side


def held(side: Side) -> dict[str, int]:
    return device_status(side.context.socket_path)["ordinary"]


def test_a_queue_pair_whose_attributes_are_refused_is_not_left_behind(side: Side) -> None:
    before = held(side)
    for _ in range(3):
        with pytest.raises(errors.InvalidRequest):
            QP(side.pd, QPInitAttr(IBV_QPT_UD, side.cq), QPAttr(port_num=NO_SUCH_PORT))
    assert held(side) == before


def test_memory_of_the_program_goes_with_its_domain(side: Side) -> None:
    """Also if the program has released the MR: memory that it frees must be unreachable."""
    before, memory = held(side), np.zeros(BYTES, np.uint8)
    for _ in range(3):
        MR(side.pd, BYTES, IBV_ACCESS_LOCAL_WRITE, address=memory.ctypes.data)
    assert held(side)["regions"] == before["regions"] + 3
    side.pd.close()
    left = {"queue_pairs": before["queue_pairs"] - 1, "regions": before["regions"] - 1}
    assert held(side) == before | left


def test_memory_is_registered_with_the_rights_that_the_program_has(side: Side) -> None:
    memory, before = mmap.mmap(-1, BYTES, prot=mmap.PROT_READ), held(side)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    with pytest.raises(errors.LocalProtectionError, match=f"{address:#x}.* may not write"):
        MR(side.pd, BYTES, IBV_ACCESS_LOCAL_WRITE, address=address)
    with pytest.raises(errors.LocalProtectionError, match="not mapped"):
        MR(side.pd, BYTES, 0, address=8)
    assert held(side) == before
    MR(side.pd, BYTES, 0, address=address).close()


WRONG_NUMBERS: dict[str, Callable[[Side], object]] = {
    "a negative address": lambda side: side.send(IBV_WR_SEND, SGE(-1, 8, side.mr.lkey)),
    "a length of 2^32": lambda side: side.send(IBV_WR_SEND, SGE(side.mr.address, 1 << 32, side.mr.lkey)),
    "a negative length inline": lambda side: side.send(
        IBV_WR_SEND, SGE(side.mr.address, -1, 0), send_flags=IBV_SEND_INLINE
    ),
    "too much inline": lambda side: side.send(IBV_WR_SEND, side.piece(BYTES), send_flags=IBV_SEND_INLINE),
    "an opcode of 256": lambda side: side.send(256),
    "a negative wr_id": lambda side: side.qp.post_recv(RecvWR(-1)),
    "a key of 2^32": lambda side: side.qp.modify(QPAttr(qkey=1 << 32), IBV_QP_QKEY),
    "a negative state": lambda side: side.qp.modify(QPAttr(qp_state=-1), IBV_QP_STATE),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_numbers_that_do_not_fit(connected: Connected, name: str) -> None:
    one, _ = connected(IBV_QPT_RC)
    with pytest.raises(errors.InvalidRequest):
        WRONG_NUMBERS[name](one)


def make_too_many(side: Side) -> None:
    while True:
        side.make_qp()


def test_an_error_does_not_tell_of_an_earlier_one(side: Side) -> None:
    with pytest.raises(errors.InvalidRequest, match="in state 0"):
        side.receive(side.piece(8))
    with pytest.raises(errors.NoResources) as caught:
        make_too_many(side)
    assert "state" not in str(caught.value)
    assert "queue pairs" in str(caught.value)


def test_nothing_is_posted_to_a_queue_pair_that_is_gone(connected: Connected) -> None:
    """Its number belongs to the library, and a program in C may still have it."""
    one, other = connected(IBV_QPT_RC)
    gone = one.make_qp()
    gone.to_rts(attributes(other, other.qp.qp_num))
    gone.close()
    request = SendWR(1, IBV_WR_SEND, sg=[one.piece(8)]).to_c()
    assert library().fanin_post_send(one.context.handle, gone.index, request) == Status.INVALID_REQUEST
    with pytest.raises(FaninError):
        gone.post_send(SendWR(1, IBV_WR_SEND, sg=[one.piece(8)]))
