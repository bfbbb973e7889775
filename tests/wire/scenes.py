"""The golden vectors as field values: their job, and how a scene becomes a packet.

One job of four nodes with four ranks each: nodes 192.0.2.1 to .4 (bits 0 to 3) under the switch 192.0.2.100, or the
same four as a ring. Its lease is 256 slots, its chunk 4096 bytes; the messages of the vectors are short.
"""

from dataclasses import dataclass, field

import numpy as np

from fanin_wire.abi import ContributorClass
from fanin_wire.datatypes import datatype_by_code, datatype_by_name
from fanin_wire.fields import CLASS_SHIFT, COLLECTIVE_QPN, DEFAULT_PKEY, Flag, Opcode
from fanin_wire.operations import operation_by_name

NODES = ("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
SWITCH = "192.0.2.100"
GROUP = "239.0.2.100"  # the multicast group of the switch
CHILDREN = 0b1111
JOB = {"version": 2, "jid": 7, "key": 0x5EED0001}
SLOTS = 256
RANKS = 0b1111

NONE, ONE, ALL = (ContributorClass[name] << CLASS_SHIFT for name in ("NONE", "ONE", "ALL"))
DATA, WANTS, HEARS, AHEAD = (int(Flag[name]) for name in ("HAS_DATA", "WANTS_RESULT", "HEARS_GROUP", "AHEAD"))


@dataclass(frozen=True)
class Scene:
    """One vector as values: `headers` in wire order without IP and UDP; `build` fills in `padcount`."""

    name: str
    text: str
    sender: str
    receiver: str
    headers: dict
    payload: bytes = b""
    identification: int = 0
    tos: int = 0
    port: int = 0xC000
    elements: list = field(default_factory=list)

    def all_headers(self) -> dict:
        ip = {"source": self.sender, "destination": self.receiver, "id": self.identification, "tos": self.tos}
        return {"IP": ip, "UDP": {"sport": self.port}, **self.headers}


def bth(opcode: int, payload: bytes = b"", **values: int) -> dict:
    return {"opcode": int(opcode), "padcount": -len(payload) % 4, "pkey": DEFAULT_PKEY, **values}


def place(position: int, first: int, mid: int = 2) -> dict:
    """CETH fields of a position of message `mid`, which begins at position `first`."""
    modulus = 1 << 32
    return {"position": position, "mid": mid, "sid": (position - first) % modulus, "seg": position % SLOTS}


def arithmetic(operation: str, datatype: str) -> dict:
    return {"op": operation_by_name(operation).code, "dtype": datatype_by_name(datatype).code}


def offload(opcode: Opcode, payload: bytes = b"", body: dict | None = None, **ceth: int) -> dict:
    """Headers of an offload packet: BTH, CETH, and the body of a control packet."""
    return {"BTH": bth(opcode, payload, dqpn=COLLECTIVE_QPN), "CETH": {**JOB, **ceth}, **(body or {})}


def data_scene(opcode: Opcode, name: str, text: str, sender: str, receiver: str, elements: list, **ceth: int) -> Scene:
    """A CONTRIBUTION or RESULT with `elements` of the type `ceth["dtype"]`."""
    payload = np.array(elements, datatype_by_code(ceth["dtype"]).numpy).tobytes()
    headers = offload(opcode, payload, length=len(payload), **ceth)
    return Scene(name, text, sender, receiver, headers, payload, elements=elements)
