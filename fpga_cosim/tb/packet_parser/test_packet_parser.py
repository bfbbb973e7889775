"""The fields of packets of scapy's layers, and the reason for dropping each wrong one."""

import ipaddress

import numpy as np
from scapy.packet import Raw

from fanin_conform import datagram
from fanin_wire.fields import CETH, Opcode
from fanin_wire.layers import offload
from fpga_cosim.tb import frames
from fpga_cosim.tb.target import reasons
from fpga_cosim.tb.verilated import Module

OWN, PEER, ETHERNET, BTH = "10.0.0.1", "10.0.1.7", 14, 42


def packet(payload: bytes = b"", opcode: int = Opcode.CONTRIBUTION, **ceth: int) -> bytes:
    layers = offload(Opcode.CONTRIBUTION, **ceth)
    data = bytearray(datagram.build(layers / Raw(payload) if payload else layers, PEER, OWN))
    data[0] = opcode
    return frames.frame(PEER, OWN, datagram.TESTER_PORT, bytes(data))


def changed(frame: bytes, *changes: tuple[int, int], cut: int = 0) -> bytes:
    """A frame with changed bytes, or cut: as it comes, and with consistent lengths."""
    other = bytearray(frame[: len(frame) - cut])
    if cut:
        other = bytearray(frames.frame(PEER, OWN, datagram.TESTER_PORT, bytes(other[frames.HEADERS :])))
    for place, value in changes:
        other[place] = value
    return bytes(other)


def parsed(module: Module, every: list[bytes], right: list[bool]) -> np.ndarray:
    inputs = np.zeros(len(every), module.inputs)
    inputs["own_address"] = int(ipaddress.IPv4Address(OWN))
    inputs["frame_bytes"], inputs["icrc_is_right"] = [len(each) for each in every], right
    for record, each in zip(inputs, every, strict=True):
        record["head"] = np.frombuffer(each[:128].ljust(128, b"\0"), np.uint8)
    return module.run(inputs)


def test_fields_and_reasons(generator: np.random.Generator) -> None:
    module = Module("packet_parser")
    given = [{f.name: int(generator.integers(0, 1 << min(f.bits, 63))) for f in CETH.fields} for _ in range(200)]
    for each in given:
        each |= {"version": 2, "lane": 0, "segment_index": 0, "source": each["source"] % 64, "length": 8}
    outputs = parsed(module, [packet(bytes(8), **each) for each in given], [True] * len(given))
    for each, output in zip(given, outputs, strict=True):
        assert output["drop"] == 0
        assert output["mac"] == int.from_bytes(frames.mac_of(PEER))
        assert output["address"] == int(ipaddress.IPv4Address(PEER))
        for name in set(output.dtype.names) & set(each):
            assert output[name] == each[name], name

    good = packet(bytes(5))
    strange = changed(good, (ETHERNET + 16, 99))
    cases = [
        ("", good, True),
        ("", packet(), True),
        ("not", changed(good, (12, 0x86)), True),
        ("not", changed(good, (ETHERNET, 0x46)), True),
        ("not", changed(good, (ETHERNET + 9, 6)), True),
        ("not", changed(good, (ETHERNET + 10, good[ETHERNET + 10] ^ 1)), True),
        ("not", changed(good, (BTH - 6, 0)), True),
        ("not", good + bytes(4), True),
        ("not", strange, True),
        ("5-2", good, False),
        ("5-3", changed(packet(), cut=56 + 1), True),
        ("5-4", packet(opcode=0x64), True),
        ("5-5", packet(opcode=0xCF), True),
        ("5-5", packet(source=64), True),
        ("5-6", changed(good, (BTH + 1, good[BTH + 1] | 1)), True),
        ("5-6", changed(packet(), cut=25), True),
        ("5-6", changed(packet(), cut=24), True),
        ("5-6", packet(version=3), True),
        ("", packet(version=3, opcode=Opcode.CONFIG), True),
        ("", changed(packet(version=3, opcode=Opcode.CONFIG), cut=24), True),
        ("5-6", changed(packet(version=3, opcode=Opcode.CONFIG), cut=25), True),
        ("5-7", packet(bytes(8), length=4), True),
        ("5-7", packet(lane=1), True),
    ]
    outputs = parsed(module, [frame for _, frame, _ in cases], [right for *_, right in cases])
    names = reasons()
    seen = [names.get(int(code), "") for code in outputs["drop"]]
    assert seen == [clause for clause, *_ in cases]
