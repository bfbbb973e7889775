"""Frames of every length, from the slot memory and from bodies, equal those of scapy's layers, with any pauses."""

import ipaddress

import numpy as np
from scapy.packet import Raw

from fanin_conform import datagram
from fanin_wire.fields import CETH, Opcode
from fanin_wire.layers import offload
from fpga_cosim.tb import frames
from fpga_cosim.tb.verilated import Module

OWN, PEER = "10.0.0.1", "10.0.1.7"
# With these the checksum of IPv4 has no carry, one, two, and with 4 bytes of payload one that makes another one.
PEERS = (PEER, "172.31.1.7", "254.255.253.252", "192.168.111.221")
FIELDS = ("op", "dtype", "flags", "jid", "key", "position", "mid", "sid", "seg", "status", "source", "contributions")
FIELDS += ("token", "node_bitmap", "rank_bitmap")


def commands_of(module: Module, generator: np.random.Generator, lengths: list[int]) -> tuple[np.ndarray, list[bytes]]:
    """Commands with random fields and a body as payload, and their frames."""
    records, expected = np.zeros(len(lengths), module.inputs), []
    records["own_mac"] = int.from_bytes(frames.mac_of(OWN))
    records["own_address"] = int(ipaddress.IPv4Address(OWN))
    records["command_valid"] = 1
    for number, (record, length) in enumerate(zip(records, lengths, strict=True)):
        peer = PEERS[number % len(PEERS)]
        record["mac"] = int.from_bytes(frames.mac_of(peer))
        record["address"] = int(ipaddress.IPv4Address(peer))
        values = {name: int(generator.integers(0, 1 << min(CETH.field(name).bits, 63))) for name in FIELDS}
        payload = generator.integers(0, 256, length, np.uint8).tobytes()
        opcode = int(generator.choice(list(Opcode)))
        record["opcode"], record["length"] = opcode, length
        record["body"] = int.from_bytes(payload, "little")
        for name, value in values.items():
            record[name] = value
        packet = offload(Opcode(opcode), **values)
        data = datagram.build(packet / Raw(payload) if payload else packet, OWN, peer)
        whole = datagram.with_icrc(OWN, peer, datagram.DEVICE_PORT, data)
        expected.append(frames.frame(OWN, peer, datagram.DEVICE_PORT, whole))
    return records, expected


def sent(module: Module, records: np.ndarray, ready: np.ndarray) -> list[bytes]:
    """The frames of commands, each offered until it is taken."""
    came, place, idle = [], 0, np.zeros(1, module.inputs)
    for take in ready:
        inputs = records[place : place + 1] if place < len(records) else idle
        inputs["m_axis_tready"] = take
        output = module.run(inputs)
        if output["m_axis_tvalid"][0] and take:
            came.append(output)
        place += int(output["command_pop"][0])
    return list(frames.from_beats(np.concatenate(came)))


def test_bodies(generator: np.random.Generator) -> None:
    module = Module("frame_sender")
    lengths = [*range(9), 8, 0, 8, *generator.integers(0, 9, 20)]
    records, expected = commands_of(module, generator, lengths)
    assert sent(module, records, generator.random(8 * len(lengths) + 40) < 0.7) == expected


def test_payloads_of_every_length(generator: np.random.Generator) -> None:
    """The memory answers one clock after the address, and holds its output between reads."""
    module = Module("frame_sender")
    lengths = [*range(1, 200), 1020, 1024, 4093, 4096]
    records, _ = commands_of(module, generator, [0] * len(lengths))
    memory = generator.integers(0, 256, (1 << 13, frames.BEAT), np.uint8)
    records["from_slot"], records["length"] = 1, lengths
    records["slot_beat"] = generator.integers(0, 8000, len(lengths))
    expected = []
    for record, length in zip(records, lengths, strict=True):
        values = {name: int(record[name]) for name in FIELDS}
        payload = memory.reshape(-1)[int(record["slot_beat"]) * frames.BEAT :][:length].tobytes()
        data = datagram.build(offload(Opcode(int(record["opcode"])), **values) / Raw(payload), OWN, PEER)
        expected.append(frames.frame(OWN, PEER, datagram.DEVICE_PORT, data[:-4]) + b"icrc")
    came, place, done, slot_data = [], 0, 0, np.zeros(frames.BEAT, np.uint8)
    inputs = np.zeros(1, module.inputs)
    beats = sum(-(-len(each) // frames.BEAT) for each in expected)
    for _ in range(4 * beats):
        if done == len(lengths) and len(came) >= beats and came[-1]["m_axis_tlast"][0]:
            break
        inputs = records[place : place + 1].copy() if place < len(records) else np.zeros(1, module.inputs)
        inputs["slot_data"], inputs["m_axis_tready"] = slot_data, generator.random() < 0.7
        output = module.run(inputs)
        if output["slot_read"][0]:
            slot_data = memory[output["slot_address"][0]]
        if output["m_axis_tvalid"][0] and inputs["m_axis_tready"][0]:
            came.append(output)
        place += int(output["command_pop"][0])
        done += int(output["slot_done"][0])
    for number, (frame, right) in enumerate(zip(frames.from_beats(np.concatenate(came)), expected, strict=True)):
        assert frame[frames.HEADERS : -4] == right[frames.HEADERS : -4]
        assert datagram.icrc_is_right(OWN, PEERS[number % len(PEERS)], datagram.DEVICE_PORT, frame[frames.HEADERS :])
