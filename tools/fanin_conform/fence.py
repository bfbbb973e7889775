"""Fences: an answer proves that the device has handled everything that one address has sent before.

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
    silence = "the device no longer answers QUERY", ("10.8-2",)

    def __init__(self, target: Target, jid: int, key: int) -> None:
        self._target, self._jid, self._key = target, jid, key
        self._bits: dict[str, int] = {}
        self._built: dict[tuple[Opcode, str], bytes] = {}  # with the token 0

    def join(self, address: str) -> None:
        self._bits = self._bits or {each: bit for bit, each in enumerate(self._target.addresses)}
        mask = (1 << len(self._bits)) - 1
        hop = HOP(address=f"::ffff:{self._target.address}", bit=self._bits[address], mask=mask)
        body = CONFIG(boot_id=1, slots=LEASE, window=1, chunk=256, route=int(Route.TREE), hop=[hop])
        self._send(Opcode.CONFIG, address, 1, body)

    def ask(self, address: str, token: int) -> None:
        self._send(Opcode.QUERY, address, token)

    def has(self, packet: Dissected) -> bool:
        return packet.ceth["jid"] == self._jid

    def token_of(self, packet: Dissected) -> int:
        """The token of the answered question; 0 for another packet."""
        return packet.ceth["token"] if packet.opcode == Opcode.STATUS else 0

    def keep_alive(self) -> None:
        """Show every address as alive."""
        for address in self._bits:
            self._send(Opcode.KEEPALIVE, address, 0)

    def leave(self) -> int:
        """Every address leaves. Returns the number of LEAVE_ACKs to come."""
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
    """Of a NIC, without children that ask: LEAVE_ACK answers LEAVE of an unknown job, in each lane (SPEC.md, 5-9)."""

    answers = (Opcode.LEAVE_ACK,)
    silence = "the device no longer answers LEAVE of an unknown job", ("5-9",)

    def __init__(self, target: Target, jid: int, key: int, lanes: int) -> None:
        self._target, self._jid, self._key = target, jid, key
        self._built = [offload(Opcode.LEAVE, jid=jid, lane=lane) for lane in range(lanes)]
        self._missing: Counter[int] = Counter()  # of answers, by token

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
        return packet.ceth["jid"] == self._jid

    def token_of(self, packet: Dissected) -> int:
        """The token of the answered question in the last lane; 0 for another packet."""
        if packet.opcode != Opcode.LEAVE_ACK:
            return 0
        token = packet.ceth["key"]
        self._missing[token] -= 1
        return token if self._missing[token] <= 0 else 0

    def keep_alive(self) -> None:
        """Nothing to do: there is no job."""

    def leave(self) -> int:
        """Nothing to do: there is no job, so no LEAVE_ACK."""
        return 0
