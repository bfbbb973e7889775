"""Bringing a queue pair to a state, with random attributes."""

from random import Random

from fanin_sim.hostile.device import Device
from fanin_sim.hostile.queues import Queue
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import Access, Attribute
from fanin_wire.verbs import QueuePairState as State

A = Attribute
REMOTE = Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
PSNS = (0, 1, 5, 0x7FFFFE, 0xFFFFFD, 0xFFFFFF)  # where PSNs begin: also at the end of their range
RC_ONLY = A.MAX_DEST_RD_ATOMIC | A.MIN_RNR_TIMER, A.TIMEOUT | A.RETRY_CNT | A.RNR_RETRY | A.MAX_QP_RD_ATOMIC
TAKES = {
    Service.RC: (A.PKEY_INDEX | A.PORT | A.ACCESS_FLAGS, A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN | RC_ONLY[0],
                 A.SQ_PSN | RC_ONLY[1]),
    Service.UC: (A.PKEY_INDEX | A.PORT | A.ACCESS_FLAGS, A.AV | A.PATH_MTU | A.DEST_QPN | A.RQ_PSN, A.SQ_PSN),
    Service.UD: (A.PKEY_INDEX | A.PORT | A.QKEY, A(0), A.SQ_PSN),
}  # fmt: skip


def draw_attributes(random: Random) -> dict[Attribute, int]:
    return {
        A.PKEY_INDEX: 0,
        A.PORT: 1,
        A.ACCESS_FLAGS: int(REMOTE if random.random() < 0.8 else Access(random.randrange(16))),
        A.PATH_MTU: 256,
        A.RQ_PSN: random.choice(PSNS),
        A.SQ_PSN: random.choice(PSNS),
        A.MAX_DEST_RD_ATOMIC: random.choice((0, 1, 4, 16)),
        A.MAX_QP_RD_ATOMIC: random.choice((1, 4)),
        A.MIN_RNR_TIMER: random.randrange(32),
        A.TIMEOUT: 14,
        A.RETRY_CNT: random.randrange(4),
        A.RNR_RETRY: random.randrange(8),
        A.QKEY: random.getrandbits(31),
    }


def bring_up(device: Device, queue: Queue, state: State, attributes: dict[Attribute, int]) -> None:
    steps = (State.INIT, State.RTR, State.RTS)
    for number, step in enumerate(steps):
        if state == State.RESET or (step > state and state in steps):
            return
        values = {name: value for name, value in attributes.items() if name & TAKES[queue.kind][number]}
        device.change(queue, step, values)
    if state in (State.SQD, State.ERR):
        device.change(queue, state, {})


def reset(device: Device, queue: Queue) -> None:
    """End a queue pair in error, so that each of its requests ends, and bring it back to RESET."""
    device.change(queue, State.ERR, {})
    device.serve()
    device.change(queue, State.RESET, {})
