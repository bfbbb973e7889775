"""One life: a victim with queue pairs in all states, the packets of an attacker, honest traffic, and the end."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from fanin_sim.hostile.attacker import Attacker
from fanin_sim.hostile.device import DEPTH, Device, Violated
from fanin_sim.hostile.honest import ROUNDS, Honest
from fanin_sim.hostile.memory import BASE, OURS
from fanin_sim.hostile.queues import Queue
from fanin_sim.hostile.states import A, bring_up, draw_attributes, reset
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import QueuePairState as State
from fanin_wire.verbs import RequestOpcode

PACKETS = 150  # hostile ones of a life
MILLISECOND = 10**6
LENGTHS = (0, 1, 40, 100, 256, 300, 600, 600, 600, 600)  # of pieces of receive requests
RARELY = 0.02
CUT_OFF = 0.1  # likewise, in the middle of a message that has taken a request of a shared queue
SHARED = 0.5  # of the lives have a shared receive queue
RENEWED = {State.RESET: 0.1, State.INIT: 0.1, State.ERR: 0.4}  # how often a queue pair begins anew after a packet
MAX_TICKS = 200  # until every request of a queue pair must have ended by itself
STATES = {
    Service.RC: (State.RESET, State.INIT, State.RTR, State.RTS, State.RTS, State.RTS, State.RTS, State.SQD, State.ERR),
    Service.UC: (State.INIT, State.RTR, State.RTS, State.RTS, State.SQE, State.ERR),
    Service.UD: (State.INIT, State.RTR, State.RTS, State.RTS, State.SQE, State.ERR),
}
TARGETS = (Service.RC, Service.RC, Service.UC, Service.UD)
SENT = {
    Service.RC: ((RequestOpcode.SEND, 100), (RequestOpcode.RDMA_WRITE, 600), (RequestOpcode.RDMA_READ, 600),
                 (RequestOpcode.ATOMIC_FETCH_AND_ADD, 8), (RequestOpcode.RDMA_READ, 20), (RequestOpcode.RDMA_WRITE, 0)),
    Service.UC: ((RequestOpcode.SEND, 100), (RequestOpcode.RDMA_WRITE, 600)),
    Service.UD: ((RequestOpcode.SEND, 100),),
}  # fmt: skip


@dataclass
class Outcome:
    """The outcome of a life.

    violation: in words; "" if nothing. attacks: hostile packets by their error. reasons: packets of the victim by their
    counter. digest: of the trace.
    """

    seed: int
    violation: str = ""
    attacks: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    honest: int = 0
    completions: int = 0
    trace: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()


class Life:
    """A life, which follows from its seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.outcome = Outcome(seed)
        self._victim, self._peer = Device("10.0.0.1", self._random), Device("10.0.0.2", self._random)
        self._honest = Honest(self._random, self._victim, self._peer)
        is_shared = Random(f"shared {seed}").random() < SHARED
        shared = self._victim.create_shared(OURS) if is_shared else None
        self._targets = [self._victim.create(kind, OURS, is_attacked=True, shared=shared) for kind in TARGETS]
        self._attacker = Attacker(self._random, self._victim, self._targets, self._peer.address)
        self._given = Counter[Device]()

    def run(self) -> Outcome:
        """Live, and be judged."""
        try:
            self._live()
        except Violated as violation:
            self.outcome.violation = str(violation)
        self.outcome.honest, self.outcome.completions = self._honest.requests, self._victim.ended
        return self.outcome

    def _live(self) -> None:
        for queue in self._targets:
            self._begin(queue)
        for _ in range(PACKETS):
            kind, data, source = self._attacker.packet()
            self.outcome.attacks[kind] += 1
            self._give(self._victim, data, source, kind)
            self._act()
        self._end()

    def _act(self) -> None:
        """The events between two hostile packets."""
        random = self._random
        if random.random() < 0.5:
            self._carry()
        if random.random() < 0.1:
            self._honest.post()
        if random.random() < 0.03:
            self._carry()
            self._pass_time(random.randrange(1, 100) * MILLISECOND)
        for queue in self._targets:
            is_amid = queue.shared is not None and bool(queue.receives)  # of a message
            often = CUT_OFF if is_amid else RENEWED.get(self._victim.state(queue), RARELY)
            if random.random() < often:
                self._begin(queue)
            elif random.random() < 0.1:
                self._post_receive(queue)

    # The queue pairs that are attacked

    def _begin(self, queue: Queue) -> None:
        """Bring an attacked queue pair from RESET to a state, with requests."""
        random, victim = self._random, self._victim
        if queue.shared is None or queue.sends or random.random() < 0.5:
            reset(victim, queue)
        else:  # perhaps in the middle of a message
            victim.change(queue, State.RESET, {})
        state = random.choice(STATES[queue.kind])
        attributes = draw_attributes(random) | {A.AV: self._peer.address, A.DEST_QPN: 0xABCDE}
        reached = State.RTS if state in (State.SQD, State.SQE, State.ERR) else state
        bring_up(victim, queue, reached, attributes)
        self._note(f"{queue.kind.name} queue pair {queue.index} in {state.name}")
        for _ in range(random.randrange(4)):
            self._post_receive(queue)
        if reached == State.RTS:
            for _ in range(random.randrange(6)):
                self._post_send(queue)
            victim.serve()
        if state in (State.SQD, State.ERR):
            victim.change(queue, state, {})
        elif state == State.SQE:
            self._post_wrong(queue)
        victim.serve()

    def _post_receive(self, queue: Queue) -> None:
        """Post a receive request: mostly in the inbox, sometimes in memory that may not be written."""
        if self._victim.state(queue) == State.RESET or not self._victim.has_room(queue):
            return
        random, regions = self._random, self._victim.memory.regions
        pieces = []
        for _ in range(random.randrange(4)):
            region = regions["inbox" if random.random() < 0.95 else "source"]
            length = random.choice(LENGTHS)
            pieces.append((region, random.randrange(region.length - length), length))
        self._victim.post_receive(queue, pieces)

    def _post_send(self, queue: Queue) -> None:
        if len(queue.sends) == DEPTH:
            return
        opcode, length = self._random.choice(SENT[queue.kind])
        is_read = opcode in (RequestOpcode.RDMA_READ, RequestOpcode.ATOMIC_FETCH_AND_ADD)
        region = self._victim.memory.regions["inbox" if is_read else "source"]
        members = {"remote_address": BASE, "rkey": 1, "compare_add": 1}
        if queue.kind == Service.UD:
            members = {"destination": self._peer.address, "remote_qpn": 0xABCDE, "remote_qkey": 1}
        offset = self._random.randrange(region.length - length)
        self._victim.post_send(queue, opcode, region, offset, length, **members)

    def _post_wrong(self, queue: Queue) -> None:
        """Post a request with memory of another protection domain, which ends the send queue."""
        region = self._victim.memory.regions["honest"]
        members = {"destination": self._peer.address} if queue.kind == Service.UD else {}
        self._victim.post_send(queue, RequestOpcode.SEND, region, 0, 8, **members)

    # Packets and time

    def _give(self, device: Device, data: bytes, source: int, kind: str) -> None:
        self._given[device] += 1
        self._note(f"{kind}: {data.hex()} from {source:#x}")
        reason = device.arrive(data, source)
        if device is self._victim:
            self.outcome.reasons[reason or "taken"] += 1
        self._note(f"  {reason or 'taken'}")

    def _note(self, line: str) -> None:
        self.outcome.trace.append(line)

    def _carry(self) -> None:
        """Give turns to both devices, and carry honest packets between them until none is under way."""
        for _ in range(ROUNDS):
            for device in (self._victim, self._peer):
                device.serve()
            if not self._victim.sent and not self._peer.sent:
                return
            for device, other in ((self._victim, self._peer), (self._peer, self._victim)):
                packets, device.sent = device.sent, []
                for packet in packets:
                    if any(queue.index == packet.queue and queue.is_attacked for queue in device.queues.values()):
                        self._attacker.see(packet)
                    else:
                        self._give(other, packet.data, device.address, "honest")
        raise Violated("honest traffic does not come to an end")

    def _pass_time(self, elapsed: int) -> None:
        for device in (self._victim, self._peer):
            device.tick(elapsed)
            device.serve()

    # The end

    def _end(self) -> None:
        """The attack is over: each request ends by itself or by a reset, and the victim works on."""
        self._carry()
        self._honest.check()
        for _ in range(MAX_TICKS):
            if not any(self._waits(queue) for queue in self._targets):
                break
            self._pass_time(700 * MILLISECOND)
            self._carry()
        for queue in self._targets:
            if self._waits(queue):
                raise Violated(
                    f"the queue pair {queue.index} ({queue.kind.name}) is stuck with {len(queue.sends)} requests"
                )
            reset(self._victim, queue)
        self._recover()
        for device in (self._victim, self._peer):
            device.check_sum(self._given[device])

    def _waits(self, queue: Queue) -> bool:
        """Whether requests to send that must end are still open."""
        return bool(queue.sends) and self._victim.state(queue) == State.RTS

    def _recover(self) -> None:
        """A queue pair that was attacked carries honest traffic after a reset."""
        for queue in self._targets:
            self._honest.adopt(queue)
            for _ in range(2):
                self._honest.post()
                self._carry()
            self._honest.check()
