"""Hostile ordinary packets to the socket of a device, with a right ICRC: each is counted by its reason in the status,
and other connections go on."""

from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from fanin import device_status
from fanin.verbs import SRQ, RecvWR
from fanin.verbs.enums import (
    IBV_MTU_256,
    IBV_QPS_ERR,
    IBV_QPS_RTS,
    IBV_QPT_RC,
    IBV_QPT_UC,
    IBV_QPT_UD,
    IBV_WR_RDMA_WRITE,
    IBV_WR_SEND,
)
from fanin_sim.hostile.packets import make
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.fuzz.engine_fuzz import packet_source
from fanin_tools.stress.fuzz.hostile_sender import Sender
from fanin_tools.stress.tally import Tally
from fanin_wire.rocev2 import CODES, OPCODES
from tests.e2e.fabrics import Bench, eventually
from tests.ordinary.sides import MEMORY, Side, attributes, connect, sockets

STRANGER = "127.0.0.201"
OFTEN = 20  # packets of each kind
PSN = 1000  # that the queue pairs expect first


@pytest.fixture(scope="module")
def running(bench: Bench) -> Running:
    """Two NICs on loopback, where any process can send from any address."""
    return bench.up(Shape(2, 2))


class Target(NamedTuple):
    """A queue pair under attack: `side` is on the receiving device."""

    side: Side
    address: str
    other_side: str


class Attacker:
    def __init__(self, source: str) -> None:
        self._sender = Sender(source, packet_source(1), Tally(1))

    def send(self, device: str, data: bytes, *, is_whole: bool = True) -> None:
        """Send a packet. is_whole: with a right ICRC."""
        self._sender.send_packet(device, data, is_whole=is_whole)


def packet(target: Target, name: str, payload: bytes = b"", **values: int) -> bytes:
    """A packet for the target: the expected one, unless `values` say otherwise."""
    memory = {"va": target.side.mr.address, "rkey": target.side.mr.rkey, "dlen": len(payload)}
    return make(CODES[name], payload, {"dqpn": target.side.qp.qp_num, "psn": PSN} | memory | values)


WRITE = "RC_RDMA_WRITE_ONLY"
DROPPED: dict[str, Callable[[Target], bytes]] = {
    # The port checks the version of the BTH before it knows the kind of packet.
    "drop_version": lambda target: packet(target, WRITE, b"rubbish!", version=3),
    "ordinary_drop_padding": lambda target: packet(target, WRITE, b"", padcount=3),
    "ordinary_drop_short": lambda target: packet(target, WRITE)[:16],
    "ordinary_drop_unknown_opcode": lambda target: b"\x1f" + packet(target, WRITE, b"rubbish!")[1:],
    "ordinary_drop_pkey": lambda target: packet(target, WRITE, b"rubbish!", pkey=0x8001),
    "ordinary_drop_unknown_queue_pair": lambda target: packet(
        target, WRITE, b"rubbish!", dqpn=target.side.qp.qp_num ^ 0x800000
    ),
    "ordinary_drop_service": lambda target: packet(target, "UC_RDMA_WRITE_ONLY", b"rubbish!"),
    "ordinary_drop_sequence": lambda target: packet(target, WRITE, b"rubbish!", psn=PSN + 5),
    "ordinary_drop_stale": lambda target: packet(target, "RC_ACKNOWLEDGE", psn=PSN + 77, syndrome=0x1F),
    "ordinary_drop_duplicate": lambda target: packet(target, "RC_FETCH_ADD", psn=PSN - 1, swap=1),
}


@pytest.fixture
def target(running: Running):
    """A queue pair of the second NIC, connected to the first NIC."""
    first, second = sockets(running)
    addresses = [str(device_status(socket)["address"]) for socket in (first, second)]
    with closing(Side(first)) as one, closing(Side(second)) as other:
        other.qp.to_rts(attributes(one, one.qp.qp_num, rq_psn=PSN, sq_psn=PSN))
        yield Target(other, addresses[1], addresses[0])


def counters(target: Target) -> dict[str, int]:
    return target.side.context.status()["counters"]


def grown(target: Target, before: dict[str, int], name: str, count: int) -> bool:
    """Whether a counter grows by a number, and no other counter of dropped ordinary packets."""
    expected = before[name] + count
    if not eventually(lambda: counters(target)[name], lambda now: now >= expected):
        return False
    after = counters(target)
    reasons = {reason for reason in after if "drop_" in reason and after[reason] != before[reason]}
    return after[name] == expected and reasons <= {name}


@pytest.mark.parametrize("reason", DROPPED)
def test_each_packet_is_counted_by_its_reason(target: Target, reason: str) -> None:
    before = counters(target)
    target.side.data[:] = 0x55
    attacker = Attacker(target.other_side)
    for _ in range(OFTEN):
        attacker.send(target.address, DROPPED[reason](target))
    assert grown(target, before, reason, OFTEN)
    assert (target.side.data == 0x55).all()
    assert target.side.qp.qp_state == IBV_QPS_RTS


def test_packets_of_a_stranger(target: Target) -> None:
    before = counters(target)
    for _ in range(OFTEN):
        Attacker(STRANGER).send(target.address, packet(target, WRITE, b"rubbish!"))
    assert grown(target, before, "ordinary_drop_sender", OFTEN)


def test_datagrams_with_a_wrong_qkey(running: Running) -> None:
    second = sockets(running)[1]
    with closing(Side(second, IBV_QPT_UD)) as side:
        side.qp.to_rts(attributes(side, 0))
        target = Target(side, str(device_status(second)["address"]), STRANGER)
        before = counters(target)
        side.receive(side.piece(1000))
        for _ in range(OFTEN):
            Attacker(STRANGER).send(target.address, packet(target, "UD_SEND_ONLY", b"rubbish!", qkey=1, sqpn=7))
        assert grown(target, before, "ordinary_drop_qkey", OFTEN)
        assert side.cq.poll(1)[0] == 0


def test_a_wrong_icrc(target: Target) -> None:
    before = counters(target)
    for _ in range(OFTEN):
        Attacker(target.other_side).send(target.address, packet(target, WRITE, b"rubbish!"), is_whole=False)
    assert grown(target, before, "drop_icrc", OFTEN)


REFUSED = {
    "key": ("ordinary_refused_access", lambda target: packet(target, WRITE, b"rubbish!", rkey=target.side.mr.rkey ^ 1)),
    "bounds": (
        "ordinary_refused_access",
        lambda target: packet(target, WRITE, b"rubbish!", va=target.side.mr.address + MEMORY - 7),
    ),
    "oversize read": (
        "ordinary_refused_invalid",
        lambda target: packet(target, "RC_RDMA_READ_REQUEST", dlen=(1 << 31) + 1),
    ),
    "misaligned atomic": (
        "ordinary_refused_invalid",
        lambda target: packet(target, "RC_FETCH_ADD", va=target.side.mr.address + 4),
    ),
    "sequence of opcodes": ("ordinary_refused_invalid", lambda target: packet(target, "RC_SEND_LAST", b"rubbish!")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_request_ends_its_queue_pair_only(running: Running, target: Target, case: str) -> None:
    """A sender with the address of the other side, number and PSN can end a connection, but no more."""
    counter, wrong = REFUSED[case]
    before = counters(target)[counter]
    target.side.data[:] = 0x55
    target.side.receive(target.side.piece(100))
    Attacker(target.other_side).send(target.address, wrong(target))
    assert target.side.statuses(1) == ["WR_FLUSH_ERR"]
    assert target.side.qp.qp_state == IBV_QPS_ERR
    assert counters(target)[counter] == before + 1
    assert (target.side.data == 0x55).all()
    writes_arrive(running)


def writes_arrive(running: Running) -> None:
    """A new connection between the two devices works."""
    first, second = sockets(running)
    with closing(Side(first, IBV_QPT_RC)) as one, closing(Side(second, IBV_QPT_RC)) as other:
        connect(one, other)
        write_and_compare(one, other)


def write_and_compare(one: Side, other: Side) -> None:
    one.fill()
    one.send(IBV_WR_RDMA_WRITE, one.piece(100_000), remote=(other, 0))
    one.completion()
    assert np.array_equal(one.data[:100_000], other.data[:100_000])


@pytest.mark.parametrize("kind", ["RC", "UC"])
def test_a_message_that_never_ends_keeps_one_request_of_a_shared_queue(running: Running, kind: str) -> None:
    """Others receive meanwhile. When its queue pair is destroyed, its request is the next one."""
    first, second = sockets(running)
    service = {"RC": IBV_QPT_RC, "UC": IBV_QPT_UC}[kind]
    with closing(Side(first, service)) as one, closing(Side(second)) as other:
        shared = SRQ(other.pd)
        attacked, honest = other.make_qp(service, srq=shared), other.make_qp(service, srq=shared)
        attacked.to_rts(attributes(one, 0xABCDE, rq_psn=PSN, path_mtu=IBV_MTU_256))
        honest.to_rts(attributes(one, one.qp.qp_num))
        one.qp.to_rts(attributes(other, honest.qp_num))
        for number in range(3):
            shared.post_recv(RecvWR(number, sg=[other.piece(1000, 1000 * number)]))
        before = other.context.status()["counters"]["ordinary_rx_packets"]
        beginning = make(CODES[f"{kind}_SEND_FIRST"], bytes(256), {"dqpn": attacked.qp_num, "psn": PSN})
        Attacker(str(device_status(first)["address"])).send(str(device_status(second)["address"]), beginning)
        assert eventually(
            lambda: other.context.status()["counters"]["ordinary_rx_packets"], lambda now: now == before + 1
        )
        for number in (1, 0):
            one.send(IBV_WR_SEND, one.piece(1000))
            assert other.completion().wr_id == number
            attacked.close()
        assert other.cq.poll(1)[0] == 0


def test_a_flood_beside_a_connection(running: Running, target: Target) -> None:
    """Random packets of all opcodes to a queue pair, while another one of the same device writes and is written to."""
    first, second = sockets(running)
    random, attacker = Random(3), Attacker(target.other_side)
    before = counters(target)
    with closing(Side(first)) as one, closing(Side(second)) as other:
        connect(one, other)
        for number in range(40):
            for _ in range(50):
                code = random.choice(list(OPCODES))
                values = {"dqpn": target.side.qp.qp_num, "psn": random.getrandbits(24), "va": random.getrandbits(64)}
                data = make(code, random.randbytes(random.randrange(300)), values | {"rkey": random.getrandbits(32)})
                attacker.send(target.address, data)
            write_and_compare(*((one, other) if number % 2 else (other, one)))
    after = counters(target)
    hostile = sum(after[name] - before[name] for name in after if name.startswith("ordinary_drop_"))
    assert hostile > 1000
