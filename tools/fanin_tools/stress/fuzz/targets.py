"""Targets of hostile packets: engines with running jobs, of a switch, of a NIC in a tree and of a NIC in a ring.

Each has two jobs. The sender may know the key of the first; it must never be able to change the second.
"""

import ipaddress
from typing import NamedTuple

import numpy as np

from fanin_nic.engine.engine import Limits, Timing
from fanin_sim.fabric.device import Device, Packet
from fanin_wire import abi, fields
from fanin_wire.fields import BTH, CETH, CONFIG_ACK_BODY, CONFIG_BODY, HOP_BODY, Header, Opcode

NOW = 10**9
SLOTS, CHUNK, ELEMENTS = 8, 64, 64
JIDS, KEYS = (7, 8), (0x1234ABCD, 0x0BADCAFE)
LIMITS = Limits(
    jobs=4, slots=32, queues=4, requests=8, regions=8, actions=512, max_chunk=256, min_lease=4, max_lease=16, shared=1
)
DEVICE, PARENT, STRANGER, FIRST_CHILD = (int(ipaddress.IPv4Address(f"10.0.0.{n}")) for n in (1, 99, 200, 10))
DIGEST = (1, 2)


class Target(NamedTuple):
    """An engine in the state in which it is attacked."""

    name: str
    device: Device
    memory: list[np.ndarray]  # of its ranks: it must live as long as the device


def pack(header: Header, **values: int) -> bytes:
    """By its table of fields. Fields without a value are 0."""
    number = 0
    for field in header.fields:
        number = (number << field.bits) | (values.get(field.name, 0) & ((1 << field.bits) - 1))
    return number.to_bytes(header.size, "big")


def packet(opcode: Opcode, body: bytes = b"", **ceth: int) -> bytes:
    """A packet from BTH to before the ICRC."""
    bth = pack(BTH, opcode=opcode, pkey=fields.DEFAULT_PKEY, dqpn=fields.COLLECTIVE_QPN)
    return bth + pack(CETH, version=fields.WIRE_VERSION, length=len(body), **ceth) + body


def config(bit: int, mask: int, route: abi.Route, boot_id: int = 0) -> bytes:
    """Body of a CONFIG with one hop, to the target."""
    body = pack(
        CONFIG_BODY, boot_id=boot_id or 100 + bit, digest_high=DIGEST[0], digest_low=DIGEST[1], slots=SLOTS,
        window=SLOTS // 2, chunk=CHUNK, route=route, hops=1,
    )  # fmt: skip
    return body + pack(HOP_BODY, address=(0xFFFF << 32) | DEVICE, mask=mask, bit=bit)


def give(device: Device, source: int, data: bytes) -> None:
    device.receive(Packet(source, DEVICE, Opcode.ACK, 0, data), NOW)


def switch() -> Target:
    """Two jobs of two children; at a position of each one of two contributions has arrived."""
    device = Device("10.0.0.1", is_switch=True, limits=LIMITS, timing=Timing())
    for jid, key in zip(JIDS, KEYS, strict=True):
        for bit in range(2):
            body = config(bit, 0b11, abi.Route.TREE)
            give(device, FIRST_CHILD + bit, packet(Opcode.CONFIG, body, jid=jid, key=key, source=bit))
        data = np.arange(CHUNK // 4, dtype="<f4").tobytes()
        contribution = {"op": 1, "dtype": 1, "flags": 0x43, "contributions": 1, "node_bitmap": 1, "mid": 1}
        give(device, FIRST_CHILD, packet(Opcode.CONTRIBUTION, data, jid=jid, key=key, source=0, **contribution))
    return Target("switch", device, [])


def nic(route: abi.Route) -> Target:
    """Two jobs of one rank, each with an allreduce under way."""
    device = Device("10.0.0.1", limits=LIMITS, timing=Timing())
    memory = [np.zeros(ELEMENTS, "f4") for _ in range(4)]
    for number, (jid, key) in enumerate(zip(JIDS, KEYS, strict=True)):
        device.open_queue(number, client=number)
        device.engine.join(number, _join(jid, key, route), NOW)
        ring = route == abi.Route.RING
        if ring:
            give(device, FIRST_CHILD, packet(Opcode.CONFIG, config(0, 1, route), jid=jid, key=key, source=0))
        body = pack(CONFIG_ACK_BODY, slots=SLOTS, window=SLOTS // 2)
        give(device, PARENT, packet(Opcode.CONFIG_ACK, body, jid=jid, key=key, source=int(ring)))
        wqe = _allreduce(device, number, jid, route, memory[2 * number : 2 * number + 2])
        device.engine.post(number, wqe, NOW)
        while device.engine.serve(NOW):
            device.perform()
        device.perform()
    return Target(f"nic of a {route.name.lower()}", device, memory)


def _join(jid: int, key: int, route: abi.Route) -> np.void:
    """The only rank of its node: bit 0 of two below PARENT, or node 1 of a ring of three."""
    request = np.zeros(1, abi.JOIN)[0]
    request["jid"], request["key"], request["route"], request["digest"] = jid, key, route, DIGEST
    request["rank_bitmap"] = request["rank_mask"] = 1
    request["slots"], request["chunk"] = SLOTS, CHUNK
    request["node_count"], request["node_index"] = (3, 1) if route == abi.Route.RING else (2, 0)
    request["next_address"], request["previous_address"] = PARENT, FIRST_CHILD
    if route == abi.Route.TREE:
        request["hop_count"] = 1
        request["hop"][0] = (PARENT, 0, 0b11)
    return request


def _allreduce(device: Device, client: int, jid: int, route: abi.Route, memory: list[np.ndarray]) -> np.ndarray:
    source, result = memory
    for lkey, array in enumerate(memory):
        device.register(client, array, lkey)
    wqe = np.zeros(1, abi.WQE)
    wqe["opcode"], wqe["flags"], wqe["address_count"] = abi.WqeOpcode.COLLECTIVE, abi.WqeFlag.SIGNALED, 1
    wqe["op"], wqe["dtype"], wqe["contributors"] = abi.Op.SUM, abi.DType.F32, abi.ContributorClass.ALL
    wqe["route"], wqe["jid"], wqe["mid"], wqe["chunk"] = route, jid, 1, CHUNK
    wqe["length"] = wqe["block"] = source.nbytes
    wqe["segments"] = source.nbytes // CHUNK
    wqe["node_bitmap"], wqe["rank_bitmap"] = (1 << (3 if route == abi.Route.RING else 2)) - 1, 1
    wqe["source_lkey"], wqe["destination_lkey"] = 0, 1
    wqe["address"][0] = (result.ctypes.data, 0, 1, 0, 1, source.ctypes.data)
    return wqe


def make_targets() -> list[Target]:
    """One of each kind."""
    return [switch(), nic(abi.Route.TREE), nic(abi.Route.RING)]
