"""The oracle: what a device must do with a packet, by the rules of the specification alone.

It reads the state of the queue pair before the packet from the device, and says under which name the packet is counted,
and which requests end how. It writes the expected bytes to the shadow of the memory.
"""

import numpy as np

from fanin_nic.transport.records.tables import Due
from fanin_sim.hostile import answers, connected, datagrams, unconnected
from fanin_sim.hostile.expectation import Expectation, dropped
from fanin_sim.hostile.memory import Memory
from fanin_sim.hostile.packets import read
from fanin_sim.hostile.queues import Queue
from fanin_wire.rocev2 import Operation
from fanin_wire.rocev2 import Transport as Service
from fanin_wire.verbs import QueuePairState as State

ANSWERS = (Operation.ACKNOWLEDGE, Operation.READ_RESPONSE, Operation.ATOMIC_ACKNOWLEDGE)
SENDING, RECEIVING = (State.RTS, State.SQD), (State.RTR, State.RTS, State.SQD, State.SQE)


def expect(
    queues: dict[int, Queue], rows: np.ndarray, memory: Memory, data: bytes, source: int, own: int
) -> Expectation:
    """The verdict on a packet.

    queues: by number. rows: the table of queue pairs before the packet. source, own: addresses of sender and device.
    """
    packet = read(data)
    if isinstance(packet, str):
        return dropped(packet)
    queue = queues.get(packet.values["dqpn"])
    if queue is None:
        return dropped("drop_unknown_queue_pair")
    row = rows[queue.index]
    if packet.opcode.transport != queue.kind:
        return dropped("drop_service")
    is_answer = packet.opcode.operation in ANSWERS
    if row["state"] not in (SENDING if is_answer else RECEIVING):
        return dropped("drop_state")
    if queue.kind == Service.UD:
        return datagrams.expect(queue, row, memory, packet, len(data), source, own)
    if source != queue.peer:
        return dropped("drop_sender")
    if queue.kind == Service.UC:
        return unconnected.expect(queue, row, memory, packet)
    if is_answer:
        return answers.expect(queue, row, memory, packet)
    if row["due"] == Due.FATAL:
        return dropped("drop_blocked")
    return connected.expect(queue, row, memory, packet)
