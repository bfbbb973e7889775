"""Fences: questions whose answer says that the device has looked at everything that one address has sent before.

Record 0077 (docs/decisions) says why silence is proved so, and not by waiting.
"""

from collections import Counter

from scapy.packet import Packet

from fanin_conform import datagram
from fanin_conform.datagram import Dissected
from fanin_conform.targets.target import Target
from fanin_wire.abi import Route
from fanin_wire.fields import Opcode
from fanin_wire.layers import CONFIG, HOP, offload

LEASE = 4


class JobFence:
    """Of a switch: each address is a child of a second job. STATUS answers QUERY there (SPEC.md, 10.8)."""

    answers = (Opcode.CONFIG_ACK, Opcode.LEAVE_ACK)
    silence = "the device does not answer QUERY any more", ("10.8-2",)

    def __init__(self, target: Target, jid: int, key: int) -> None:
        self._target, self._jid, self._key = target, jid, key
        self._bits: dict[str, int] = {}
        self._built: dict[tuple[Opcode, str], bytes] = {}  # with the token 0

    def join(self, address: str) -> None:
        """An address becomes a child."""
        self._bits = self._bits or {each: bit for bit, each in enumerate(self._target.addresses)}
        mask = (1 << len(self._bits)) - 1
        hop = HOP(address=f"::ffff:{self._target.address}", bit=self._bits[address], mask=mask)
        body = CONFIG(boot_id=1, slots=LEASE, window=1, chunk=256, route=int(Route.TREE), hop=[hop])
        self._send(Opcode.CONFIG, address, 1, body)

    def ask(self, address: str, token: int) -> None:
        """Send the question."""
        self._send(Opcode.QUERY, address, token)

    def has(self, packet: Dissected) -> bool:
        """Whether a packet belongs to the fence."""
        return packet.ceth["jid"] == self._jid

    def token_of(self, packet: Dissected) -> int:
        """The token of the question that a packet answers; 0: none."""
        return packet.ceth["token"] if packet.opcode == Opcode.STATUS else 0

    def keep_alive(self) -> None:
        """Every address is heard."""
        for address in self._bits:
            self._send(Opcode.KEEPALIVE, address, 0)

    def leave(self) -> int:
        """Every address leaves. The number of LEAVE_ACKs to come."""
        for address in self._bits:
            self._send(Opcode.LEAVE, address, 0)
        return len(self._bits)

    def _send(self, code: Opcode, address: str, token: int, body: Packet | None = None) -> None:
        if (code, address) not in self._built:
            packet = offload(code, jid=self._jid, key=self._key, source=self._bits[address])
            whole = packet / body if body else packet
            self._built[code, address] = datagram.build(whole, address, self._target.address)
        data = datagram.with_token(address, self._target.address, self._built[code, address], token)
        self._target.send(address, data)


class LeaveFence:
    """Of a NIC, which has no children that could ask: LEAVE_ACK answers the LEAVE of an unknown job (SPEC.md, 5-9).

    It asks in each lane.
    """

    answers = (Opcode.LEAVE_ACK,)
    silence = "the device does not answer LEAVE of an unknown job any more", ("5-9",)

    def __init__(self, target: Target, jid: int, key: int, lanes: int) -> None:
        self._target, self._jid, self._key = target, jid, key
        self._built = [offload(Opcode.LEAVE, jid=jid, lane=lane) for lane in range(lanes)]
        self._missing: Counter[int] = Counter()  # answers, by token

    def join(self, address: str) -> None:
        """Ask for the first time."""
        self.ask(address, self._key)

    def ask(self, address: str, token: int) -> None:
        """Send the question; the key is its token."""
        self._missing[token] = len(self._built)
        for packet in self._built:
            data = datagram.build(packet, address, self._target.address)
            self._target.send(address, datagram.with_token(address, self._target.address, data, token, "key"))

    def has(self, packet: Dissected) -> bool:
        """Whether a packet belongs to the fence."""
        return packet.ceth["jid"] == self._jid

    def token_of(self, packet: Dissected) -> int:
        """The token of the question that a packet answers, in the last lane; 0: none."""
        if packet.opcode != Opcode.LEAVE_ACK:
            return 0
        token = packet.ceth["key"]
        self._missing[token] -= 1
        return token if self._missing[token] <= 0 else 0

    def keep_alive(self) -> None:
        """There is no job."""

    def leave(self) -> int:
        """There is no job: no LEAVE_ACK comes."""
        return 0
