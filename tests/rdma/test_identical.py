"""Packets of the two are identical for the same request, from the IP header to the ICRC, but for values that an end
chooses.

Fanin's packet gets rxe's values in those fields, and the ICRC for them.
"""

from typing import NamedTuple

import numpy as np
import pytest

from fanin_nic.port.icrc import contiguous_icrc
from fanin_wire.fields import BTH, ICRC_SIZE, Opcode
from fanin_wire.icrc import icrc
from fanin_wire.rocev2 import OPCODES
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import RequestOpcode, SendFlag
from tests.engine.rig import pack, unpack

from .cases import ATOMICS, RECEIVED, SENDS, WRITES
from .ends import End
from .test_reliable import transfer
from .wire import IPV4, UDP, Packet, packet

# Header: the fields whose values an end chooses. The headers of IPv4 and UDP belong to the driver, which chooses
# identification, time to live, type of service and source port.
CHOSEN = {
    "BTH": ("dqpn",),  # the number of the other's queue pair
    "DETH": ("sqpn",),  # the number of its own
    "RETH": ("va", "rkey"),  # where the other's region is, and its key
    "AtomicETH": ("va", "rkey"),
}
SOURCE, TARGET = 4096, 1 << 21
PSN = 0x123456
MTU = 256
VALUE = 0x0123456789ABCDEF


class Case(NamedTuple):
    """A request. opcodes: of all packets of both ends for it, without the transport."""

    name: str
    service: Service
    opcode: RequestOpcode
    length: int
    requests: str
    answers: str = ""
    flags: int = int(SendFlag.SIGNALED)
    at: int = TARGET
    has_receive: bool = True
    wrong_key: int = 0


SOLICITED = int(SendFlag.SIGNALED | SendFlag.SOLICITED)
R, RC, UC, UD = RequestOpcode, Service.RC, Service.UC, Service.UD
ACK, IMM = "ACKNOWLEDGE", "_WITH_IMMEDIATE"
CASES = [
    Case("send", RC, R.SEND, 21, "SEND_ONLY", ACK),
    Case("empty send", RC, R.SEND, 0, "SEND_ONLY", ACK),
    Case("long send", RC, R.SEND, 601, "SEND_FIRST SEND_MIDDLE SEND_LAST", ACK),
    Case("send with immediate", RC, R.SEND_WITH_IMM, 22, f"SEND_ONLY{IMM}", ACK),
    Case("long send with immediate", RC, R.SEND_WITH_IMM, 300, f"SEND_FIRST SEND_LAST{IMM}", ACK),
    Case("solicited send", RC, R.SEND, 300, "SEND_FIRST SEND_LAST", ACK, flags=SOLICITED),
    Case("write", RC, R.RDMA_WRITE, 23, "RDMA_WRITE_ONLY", ACK),
    Case("long write", RC, R.RDMA_WRITE, 700, "RDMA_WRITE_FIRST RDMA_WRITE_MIDDLE RDMA_WRITE_LAST", ACK),
    Case("write with immediate", RC, R.RDMA_WRITE_WITH_IMM, 24, f"RDMA_WRITE_ONLY{IMM}", ACK),
    Case(
        "long write with immediate",
        RC,
        R.RDMA_WRITE_WITH_IMM,
        300,
        f"RDMA_WRITE_FIRST RDMA_WRITE_LAST{IMM}",
        ACK,
        flags=SOLICITED,
    ),
    Case("read", RC, R.RDMA_READ, 33, "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE_ONLY"),
    Case(
        "long read",
        RC,
        R.RDMA_READ,
        700,
        "RDMA_READ_REQUEST",
        "RDMA_READ_RESPONSE_FIRST RDMA_READ_RESPONSE_MIDDLE RDMA_READ_RESPONSE_LAST",
    ),
    Case("compare and swap", RC, R.ATOMIC_CMP_AND_SWP, 8, "COMPARE_SWAP", "ATOMIC_ACKNOWLEDGE"),
    Case("fetch and add", RC, R.ATOMIC_FETCH_AND_ADD, 8, "FETCH_ADD", "ATOMIC_ACKNOWLEDGE"),
    Case("wrong key", RC, R.RDMA_WRITE, 23, "RDMA_WRITE_ONLY", ACK, wrong_key=0x5A),
    Case("read with a wrong key", RC, R.RDMA_READ, 23, "RDMA_READ_REQUEST", ACK, wrong_key=0x5A),
    Case("nothing to receive into", RC, R.SEND, 23, "SEND_ONLY", ACK, has_receive=False),
    Case("send on UC", UC, R.SEND, 601, "SEND_FIRST SEND_MIDDLE SEND_LAST"),
    Case("send with immediate on UC", UC, R.SEND_WITH_IMM, 5, f"SEND_ONLY{IMM}"),
    Case("write on UC", UC, R.RDMA_WRITE, 600, "RDMA_WRITE_FIRST RDMA_WRITE_MIDDLE RDMA_WRITE_LAST"),
    Case("write with immediate on UC", UC, R.RDMA_WRITE_WITH_IMM, 300, f"RDMA_WRITE_FIRST RDMA_WRITE_LAST{IMM}"),
    Case("datagram", UD, R.SEND, 25, "SEND_ONLY"),
    Case("datagram with immediate", UD, R.SEND_WITH_IMM, 26, f"SEND_ONLY{IMM}", flags=SOLICITED),
]


def exchange(wire, one: End, two: End, case: Case) -> tuple[list[Packet], list[Packet]]:
    """The first packets of a request, and of its answer."""
    one.fill(SOURCE, bytes(range(256)) * 4)
    two.fill(TARGET, VALUE.to_bytes(8, "little") + bytes(range(256)) * 4)
    if case.has_receive and (case.opcode in RECEIVED):
        two.post_receive(TARGET + 8192, 2048)
    wire.log, wire.logging = [], True
    one.post(
        case.opcode,
        SOURCE,
        case.length,
        to=two,
        at=case.at,
        rkey=two.key ^ case.wrong_key,
        flags=case.flags,
        immediate=0xCAFE0001,
        compare_add=VALUE,
        swap=77,
    )
    (done,) = one.sent()
    wire.rest(0.05)
    expected = "REM_ACCESS_ERR" if case.wrong_key else "SUCCESS" if case.has_receive else "RNR_RETRY_EXC_ERR"
    assert done.status == expected
    wire.logging = False
    ours = [seen for seen in wire.log if seen.source == one.address]
    answers = [seen for seen in wire.log if seen.source == two.address]
    return ours[: len(case.requests.split())], answers[: len(case.answers.split())]


def in_place_of(foreign: Packet, own: Packet) -> Packet:
    """Our packet with the other's values in the fields of `CHOSEN`, after its headers of IP and UDP."""
    data, theirs = bytearray(own.transport), foreign.transport
    at = 0
    for header in (BTH, *OPCODES[data[0]].headers):
        fields = unpack(header, bytes(data[at:]))
        fields |= {name: unpack(header, theirs[at:])[name] for name in CHOSEN.get(header.name, ())}
        data[at : at + header.size] = pack(header, **fields)
        at += header.size
    bare = foreign.ip[: IPV4.size + UDP.size] + bytes(data) + bytes(ICRC_SIZE)
    return Packet(bare[:-ICRC_SIZE] + icrc(bare))


def compiled_icrc(seen: Packet) -> bytes:
    data = np.frombuffer(seen.transport, np.uint8)
    source, destination = int.from_bytes(seen.source), int.from_bytes(seen.destination)
    port, identification = int.from_bytes(seen.ip[20:22]), int.from_bytes(seen.ip[4:6])
    return int(contiguous_icrc(source, destination, port, data.ctypes.data, data.size, identification)).to_bytes(
        ICRC_SIZE, "little"
    )


def names(packets: list[Packet]) -> str:
    return " ".join(seen.name.partition("_")[2] for seen in packets)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_request_same_packets(connect, wire, case):
    values = {"PATH_MTU": MTU, "SQ_PSN": PSN, "RQ_PSN": PSN, "RNR_RETRY": 0}
    fanin, rxe = connect(case.service, **values)
    by_fanin, answers_of_rxe = exchange(wire, fanin, rxe, case)
    fanin, rxe = connect(case.service, **values)
    by_rxe, answers_of_fanin = exchange(wire, rxe, fanin, case)
    for own, foreign, expected in ((by_fanin, by_rxe, case.requests), (answers_of_fanin, answers_of_rxe, case.answers)):
        assert (names(own), names(foreign)) == (expected, expected)
        for ours, theirs in zip(own, foreign, strict=True):
            assert in_place_of(theirs, ours).ip.hex(" ", 4) == theirs.ip.hex(" ", 4)
            assert compiled_icrc(theirs) == theirs.ip[-ICRC_SIZE:]


def test_every_opcode_is_compared():
    """Except SEND with invalidate, which names a memory window at rxe."""
    compared = set()
    for case in CASES:
        compared |= {f"{case.service.name}_{name}" for name in f"{case.requests} {case.answers}".split()}
    assert {opcode.name for opcode in OPCODES.values() if opcode.transport == Service.RC} - compared == {
        "RC_SEND_LAST_WITH_INVALIDATE",
        "RC_SEND_ONLY_WITH_INVALIDATE",
    }
    assert {SENDS[0], *WRITES, *ATOMICS} <= {case.opcode for case in CASES}


@pytest.mark.parametrize("service", [Service.RC, Service.UC, Service.UD], ids=lambda service: service.name)
def test_foreign_opcodes_do_no_harm(connect, wire, service):
    """rxe drops every unknown opcode, also of collectives: no answer, no count, and the queue pair goes on."""
    fanin, rxe = connect(service, SQ_PSN=PSN, RQ_PSN=PSN)
    foreign = sorted({*range(256)} - OPCODES.keys())
    assert {int(opcode) for opcode in Opcode} <= set(foreign)
    before = rxe.guest.call("counters")
    wire.log, wire.logging = [], True
    for code in foreign:
        bth = pack(BTH, opcode=code, pkey=0xFFFF, dqpn=rxe.qpn, psn=PSN, ackreq=1)
        wire.send(packet(fanin.address, rxe.address, bth + bytes(64)))
    wire.rest(0.3)
    assert wire.log == []
    after = rxe.guest.call("counters")
    assert after == before
    assert rxe.state() == "RTS"
    if service == Service.UD:
        rxe.post_receive(TARGET, 100)
        fanin.post(RequestOpcode.SEND, SOURCE, 10, to=rxe)
        assert rxe.received()[0].status == "SUCCESS"
    else:
        transfer(fanin, rxe, RequestOpcode.SEND, b"after the foreign ones", 1)
