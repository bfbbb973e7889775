"""The packets are those that scapy builds from the same request: headers and payload to the byte."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet as Layer
from scapy.packet import Raw

from fanin_wire.golden import vectors
from fanin_wire.layers import AETH, BTH, DETH, IETH, RETH, AtomicAckETH, AtomicETH, ImmDt
from fanin_wire.rocev2 import CODES, OPCODES
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, RequestOpcode

from .rig import EVERYTHING, Packet, Pair

DATA = bytes(range(256)) * 3
SOURCE, TARGET = 512, 4096


def layers_of(*layers: Layer, payload: bytes = b"") -> bytes:
    """From the BTH to before the ICRC, as scapy builds it."""
    packet = IP(src="10.0.0.1", dst="10.0.0.2") / UDP(dport=4791)
    for layer in layers:
        packet /= layer
    packet /= Raw(payload)
    return bytes(packet)[28:-4]


def pair_with_data(kind: Service = Service.RC, **attributes) -> Pair:
    pair = Pair(kind, psns=(0x123456, 0x654321), **attributes)
    pair.one.fill(SOURCE, DATA)
    pair.two.fill(TARGET, DATA)
    return pair


def sent_for(pair: Pair, opcode: RequestOpcode, length: int, **members) -> list[bytes]:
    """All packets of a request and of its answer."""
    pair.two.post_receive((TARGET + 2048, 4096))
    pair.one.post(opcode, (SOURCE, length), remote_address=pair.two.start + TARGET, rkey=pair.two.key, **members)
    pair.run()
    assert pair.one.statuses() == ["SUCCESS"]
    return [packet.data for packet in pair.log]


def bth(pair: Pair, name: str, psn: int = 0x123456, **values) -> BTH:
    back = name.endswith(("ACKNOWLEDGE", "FIRST", "MIDDLE", "LAST", "ONLY")) and ("RESPONSE" in name or "ACK" in name)
    target = pair.one if back else pair.two
    return BTH(opcode=CODES[name], dqpn=target.qpn(0), psn=psn, **values)


def reth(pair: Pair, length: int) -> RETH:
    return RETH(va=pair.two.start + TARGET, rkey=pair.two.key, dlen=length)


def acknowledge(pair: Pair, psn: int = 0x123456) -> bytes:
    return layers_of(bth(pair, "RC_ACKNOWLEDGE", psn), AETH(syndrome=0x1F, msn=1))


def test_send():
    pair = pair_with_data()
    packets = sent_for(pair, RequestOpcode.SEND, 600)
    assert packets == [
        layers_of(bth(pair, "RC_SEND_FIRST"), payload=DATA[:256]),
        layers_of(bth(pair, "RC_SEND_MIDDLE", 0x123457), payload=DATA[256:512]),
        layers_of(bth(pair, "RC_SEND_LAST", 0x123458, ackreq=1), payload=DATA[512:600]),
        acknowledge(pair, 0x123458),
    ]


def test_send_with_immediate_is_padded():
    pair = pair_with_data()
    packets = sent_for(pair, RequestOpcode.SEND_WITH_IMM, 21, immediate=0xCAFE0001, flags=2 | 4)
    first = bth(pair, "RC_SEND_ONLY_WITH_IMMEDIATE", ackreq=1, solicited=1)
    assert packets[0] == layers_of(first, ImmDt(immdt=0xCAFE0001), payload=DATA[:21])


def test_send_with_invalidate():
    pair = pair_with_data()
    key = pair.two.register(EVERYTHING | Access.REMOTE_INVALIDATE)
    packets = sent_for(pair, RequestOpcode.SEND_WITH_INV, 21, immediate=key)
    first = bth(pair, "RC_SEND_ONLY_WITH_INVALIDATE", ackreq=1)
    assert packets[0] == layers_of(first, IETH(invalidated_rkey=key), payload=DATA[:21])


def test_write():
    pair = pair_with_data()
    packets = sent_for(pair, RequestOpcode.RDMA_WRITE, 300)
    assert packets[:2] == [
        layers_of(bth(pair, "RC_RDMA_WRITE_FIRST"), reth(pair, 300), payload=DATA[:256]),
        layers_of(bth(pair, "RC_RDMA_WRITE_LAST", 0x123457, ackreq=1), payload=DATA[256:300]),
    ]


def test_write_with_immediate():
    pair = pair_with_data()
    packets = sent_for(pair, RequestOpcode.RDMA_WRITE_WITH_IMM, 30, immediate=5)
    first = bth(pair, "RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", ackreq=1)
    assert packets[0] == layers_of(first, reth(pair, 30), ImmDt(immdt=5), payload=DATA[:30])


def test_read():
    pair = pair_with_data()
    packets = sent_for(pair, RequestOpcode.RDMA_READ, 600)
    aeth = AETH(syndrome=0x1F, msn=1)
    assert packets == [
        layers_of(bth(pair, "RC_RDMA_READ_REQUEST", ackreq=1), reth(pair, 600)),
        layers_of(bth(pair, "RC_RDMA_READ_RESPONSE_FIRST"), aeth, payload=DATA[:256]),
        layers_of(bth(pair, "RC_RDMA_READ_RESPONSE_MIDDLE", 0x123457), payload=DATA[256:512]),
        layers_of(bth(pair, "RC_RDMA_READ_RESPONSE_LAST", 0x123458), aeth, payload=DATA[512:600]),
    ]


@pytest.mark.parametrize(
    ("opcode", "name", "operands"),
    [
        (RequestOpcode.ATOMIC_FETCH_AND_ADD, "RC_FETCH_ADD", {"swap": 3, "compare": 0}),
        (RequestOpcode.ATOMIC_CMP_AND_SWP, "RC_COMPARE_SWAP", {"swap": 9, "compare": 3}),
    ],
)
def test_atomics(opcode, name, operands):
    pair = pair_with_data()
    request, answer = sent_for(pair, opcode, 8, compare_add=3, swap=9)
    header = AtomicETH(va=pair.two.start + TARGET, rkey=pair.two.key, **operands)
    assert request == layers_of(bth(pair, name, ackreq=1), header)
    before = AtomicAckETH(original=int.from_bytes(DATA[:8], "little"))
    head = bth(pair, "RC_ATOMIC_ACKNOWLEDGE")
    assert answer == layers_of(head, AETH(syndrome=0x1F, msn=1), before)


def test_unreliable_connection():
    pair = pair_with_data(Service.UC)
    packets = sent_for(pair, RequestOpcode.RDMA_WRITE, 300)
    assert packets == [
        layers_of(bth(pair, "UC_RDMA_WRITE_FIRST"), reth(pair, 300), payload=DATA[:256]),
        layers_of(bth(pair, "UC_RDMA_WRITE_LAST", 0x123457), payload=DATA[256:300]),
    ]


def test_datagram():
    pair = pair_with_data(Service.UD)
    where = {"destination": pair.two.address, "remote_qpn": pair.two.qpn(0), "remote_qkey": 0x1234}
    packets = sent_for(pair, RequestOpcode.SEND_WITH_IMM, 33, immediate=6, **where)
    head = bth(pair, "UD_SEND_ONLY_WITH_IMMEDIATE")
    deth = DETH(qkey=0x1234, sqpn=pair.one.qpn(0))
    assert packets == [layers_of(head, deth, ImmDt(immdt=6), payload=DATA[:33])]


@pytest.mark.parametrize("golden", [g for g in vectors() if g.file == "rocev2"], ids=lambda golden: golden.name)
def test_golden_packets_reach_their_queue_pair(golden):
    """Each is taken as far as its fields allow: the headers have the length of the opcode."""
    row = OPCODES[golden.value("BTH", "opcode")]
    pair = Pair(row.transport)
    data = bytearray(golden.datagram[:-4])
    data[5:8] = pair.two.qpn(0).to_bytes(3)
    pair.two.receive(Packet(pair.one.address, pair.two.address, bytes(data)))
    assert pair.two.count("rx_packets") == 1
