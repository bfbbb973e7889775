"""A queue pair of the device under test, and the tester as its other side."""

from typing import Any

from scapy.packet import Packet, Raw

from fanin_conform.listener import RECEIVE_TIMEOUT_S, Mismatch
from fanin_conform.verbs.packets import PSN_MASK
from fanin_conform.verbs.tester import Expected, VerbsTester
from fanin_wire.agent import Answer, ConnectQp, CreateQp, PollCq, PostRecv, PostSend, QueryQp, ReadMr, RegMr, WriteMr
from fanin_wire.layers import AETH, BTH, RETH, AtomicETH
from fanin_wire.rocev2 import CODES, CREDITS_INVALID, Acknowledge, Nak, syndrome

MTU = 256


def parts(packets: int) -> list[str]:
    """The names of the packets of a message."""
    return ["FIRST", *["MIDDLE"] * (packets - 2), "LAST"] if packets > 1 else ["ONLY"]


class Pair:
    """A queue pair: of RC, unless `service` says otherwise.

    given: members of ConnectQp. qpn, rkey, address: of the device's queue pair, and its memory. own_qpn: the tester's.
    psn: of the tester's next request. out: of the device's next one. msn: complete messages of the tester.
    """

    def __init__(self, tester: VerbsTester, service: str = "RC", **given: Any) -> None:
        tester.profile.require_service(service)
        self.tester, self.service, self.number = tester, service, tester.queue_pairs
        tester.queue_pairs += 1
        made = tester.ask(CreateQp(qp=self.number, service=service))
        self.qpn, self.rkey, self.address = made["qpn"], made["rkey"], made["address"]
        self.own_qpn, self.msn = tester.number(24), 0
        self.psn, self.out = given.pop("receive_psn", tester.number(24)), given.pop("send_psn", tester.number(24))
        self.qkey = given.setdefault("qkey", tester.number(31))
        path = {"address": tester.local, "qpn": self.own_qpn, "send_psn": self.out, "receive_psn": self.psn}
        tester.ask(ConnectQp(qp=self.number, **(path | given)))

    # The host of the device

    def note(self, text: str) -> None:
        """A line of the log."""
        self.tester.log.append(f"host: {text}")

    def post(self, operation: str, length: int = 0, *, place: int = 0, **given: Any) -> None:
        """The host posts a request to send. remote: in the tester's memory, at a place of the script's choice."""
        self.note(f"posts {operation} of {length} bytes")
        self.tester.ask(PostSend(qp=self.number, operation=operation, place=place, length=length, **given))

    def receive(self, length: int = 0, *, place: int = 0, **given: Any) -> None:
        """The host posts a receive request."""
        self.note(f"posts a receive request of {length} bytes")
        self.tester.ask(PostRecv(qp=self.number, place=place, length=length, **given))

    def done(self, status: str = "SUCCESS", *, clause: str = "", **about: Any) -> Answer:
        """The next completion has this status, and these members."""
        answer = self.tester.ask(PollCq(qp=self.number, seconds=RECEIVE_TIMEOUT_S))
        self.note(f"has {answer['status'] or 'no completion'}")
        if answer["status"] != status:
            raise Mismatch(f"the completion is {answer['status'] or 'not there'}, not {status}", tuple(clause.split()))
        for name, value in about.items():
            if answer[name] != value:
                raise Mismatch(f"{name} of the completion is {answer[name]!r}, not {value!r}", tuple(clause.split()))
        return answer

    def not_done(self, clause: str = "") -> None:
        """There is no completion."""
        answer = self.tester.ask(PollCq(qp=self.number))
        if answer["status"]:
            raise Mismatch(f"there is a completion: {answer}", tuple(clause.split()))

    def store(self, place: int, data: bytes) -> None:
        self.tester.ask(WriteMr(qp=self.number, place=place, data=data.hex()))

    def memory(self, place: int, data: bytes, clause: str = "") -> None:
        seen = bytes.fromhex(self.tester.ask(ReadMr(qp=self.number, place=place, length=len(data)))["data"])
        if seen != data:
            first = next(at for at, (one, other) in enumerate(zip(seen, data, strict=True)) if one != other)
            part = slice(first, first + 16)
            text = f"memory from byte {place + first} is {seen[part].hex()}, not {data[part].hex()}"
            raise Mismatch(text, tuple(clause.split()))

    def word(self, place: int, value: int, clause: str = "") -> None:
        """8 bytes of the device's memory are this number, little-endian as its host."""
        self.memory(place, value.to_bytes(8, "little"), clause)

    def region(self, place: int, length: int, *rights: str) -> int:
        rkey: int = self.tester.ask(RegMr(qp=self.number, place=place, length=length, rights=rights))["rkey"]
        return rkey

    def state(self, wanted: str, clause: str = "") -> None:
        """The device's queue pair is in this state."""
        seen = self.tester.ask(QueryQp(qp=self.number))["state"]
        if seen != wanted:
            raise Mismatch(f"the queue pair is in {seen}, not in {wanted}", tuple(clause.split()))

    # Packets of the tester

    def packet(self, name: str, payload: bytes = b"", *headers: Packet, psn: int, **bth: int) -> Packet:
        values = {"opcode": CODES[f"{self.service}_{name}"], "dqpn": self.qpn, "psn": psn & PSN_MASK} | bth
        packet = BTH(**values)
        for header in headers:
            packet /= header
        return packet / Raw(payload) if payload else packet

    def request(
        self, name: str, payload: bytes = b"", *headers: Packet, psn: int | None = None, psns: int = 1, **bth: int
    ) -> int:
        """The next request packet, or one with a given PSN. Returns its PSN. psns: that it takes."""
        used = self.psn if psn is None else psn & PSN_MASK
        self.tester.send(self.packet(name, payload, *headers, psn=used, **({"ackreq": 1} | bth)))
        if psn is None:
            self.psn = (self.psn + psns) & PSN_MASK
        return used

    def reth(self, length: int, *, place: int = 0, rkey: int | None = None) -> RETH:
        """The header of a WRITE or READ of the device's memory."""
        return RETH(va=self.address + place, rkey=self.rkey if rkey is None else rkey, dlen=length)

    def atomic(self, *, place: int = 0, rkey: int | None = None, swap: int = 0, compare: int = 0) -> AtomicETH:
        """The header of an atomic on the device's memory."""
        key = self.rkey if rkey is None else rkey
        return AtomicETH(va=self.address + place, rkey=key, swap=swap, compare=compare)

    def ping(self, clause: str = "") -> None:
        """A WRITE of no bytes is acknowledged: the queue pair lives, and expects this PSN."""
        psn = self.request("RDMA_WRITE_ONLY", b"", self.reth(0))
        self.msn += 1
        self.tester.expect(self.ack(psn), clause=clause)

    def answer(self, kind: str, psn: int, msn: int = 0) -> None:
        """An ACKNOWLEDGE of the tester: ACK, RNR_NAK with a code of a time as "RNR_NAK 5", or NAK_SEQUENCE, ...."""
        word, _, value = kind.partition(" ")
        if word == "ACK":
            code = syndrome(Acknowledge.ACK, CREDITS_INVALID)
        elif word == "RNR_NAK":
            code = syndrome(Acknowledge.RNR_NAK, int(value))
        else:
            code = syndrome(Acknowledge.NAK, Nak[word.removeprefix("NAK_")])
        self.tester.send(self.packet("ACKNOWLEDGE", b"", AETH(syndrome=code, msn=msn), psn=psn))

    def respond(self, name: str, payload: bytes, psn: int, *headers: Packet) -> None:
        """A response of the tester, which acknowledges."""
        aeth = [] if name.endswith("MIDDLE") else [AETH(syndrome=syndrome(Acknowledge.ACK, CREDITS_INVALID), msn=1)]
        self.tester.send(self.packet(name, payload, *aeth, *headers, psn=psn))

    # Packets of the device

    def expected(self, name: str, psn: int, payload: bytes = b"", **fields: Any) -> Expected:
        """A packet to the tester's queue pair."""
        return Expected(self.own_qpn, f"{self.service}_{name}", {"psn": psn & PSN_MASK} | fields, payload)

    def ack(self, psn: int, answer: str = "ACK", **fields: Any) -> Expected:
        """An ACKNOWLEDGE of the device, with the number of complete messages."""
        given: dict[str, Any] = {"answer": answer, "msn": self.msn} | fields
        return self.expected("ACKNOWLEDGE", psn, **given)

    def nak(self, psn: int, code: str) -> Expected:
        return self.ack(psn, f"NAK_{code}")

    def acknowledged(self, psn: int, clause: str = "") -> None:
        """One or more ACKs come, the last of this PSN and of all complete messages."""
        seen = self.tester.everything(1)
        for packet in seen[:-1]:
            if packet.fields.get("answer") != "ACK":
                raise Mismatch(f"expected ACKs up to PSN {psn}\nseen     {packet}", tuple(clause.split()))
        if not seen:
            raise Mismatch(f"expected {self.ack(psn)}\nseen     nothing", tuple(clause.split()))
        if seen[-1].name != "RC_ACKNOWLEDGE" or (wrong := self.ack(psn).differences(seen[-1])):
            text = f"expected {self.ack(psn)}\nseen     {seen[-1]}"
            raise Mismatch(f"{text}\n         {'; '.join(wrong)}", tuple(clause.split()))

    def sent(self, name: str, payload: bytes = b"", *, psns: int = 1, **fields: Any) -> Expected:
        """The next request packet of the device, whose next PSN follows it."""
        found = self.expected(name, self.out, payload, **fields)
        self.out = (self.out + psns) & PSN_MASK
        return found
