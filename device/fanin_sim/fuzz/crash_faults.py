"""What is planned for an event of a device: crashes of ranks, NICs and switches, restarts, links that go down."""

from __future__ import annotations

from numba import int64, uint64

from fanin_nic.engine.engine import KEEPALIVES
from fanin_nic.engine.state import engine_at, queue_at
from fanin_nic.native.memory import copy, fill_zero
from fanin_sim.jit import internal
from fanin_sim.fuzz import event_queue
from fanin_sim.fuzz.blame_check import fail_rank, strike_vertex, suspend, suspend_links
from fanin_sim.fuzz.engine_calls import call_event
from fanin_sim.fuzz.codes import FaultKind, Happening, Step
from fanin_sim.fuzz.request_checks import ABANDONED, OPEN
from fanin_sim.fuzz.tables import NEVER, fault_row, message_row, rank_row, vertex_row
from fanin_sim.fuzz.trace import note
from fanin_sim.fuzz.fault_injection import write_down
from fanin_wire.abi import Status

PARTITION, RANK_CRASH, RESTART = int(FaultKind.PARTITION), int(FaultKind.RANK_CRASH), int(FaultKind.RESTART)
FREEZE, EARLY_LEAVE = int(FaultKind.FREEZE), int(FaultKind.EARLY_LEAVE)
LEAVE_TAG = 0
REBOOT, STRIKE = int(Happening.REBOOT), int(Happening.STRIKE)
NIC_CRASH, SWITCH_CRASH = int(FaultKind.NIC_CRASH), int(FaultKind.SWITCH_CRASH)
RUNNING, LEAVING, GONE, DEAD = int(Step.RUNNING), int(Step.LEAVING), int(Step.GONE), int(Step.DEAD)
PEER_LOST = int(Status["PEER_LOST"])
ALLOWED = 8  # bits of a crash's value: how many actions of the event are still performed
ALL_ACTIONS = 255


@internal
def find_planned(w, index, ordinal):
    """1 + number of what is planned for an event of a device; 0: nothing."""
    for number in range(w.given_count):
        fault = fault_row(w.given, number)
        if fault.kind >= PARTITION and fault.source == index and fault.ordinal == ordinal:
            return number + 1
    return 0


@internal
def give_up(w, number):
    """Nobody waits for the requests of a rank any more."""
    rank = rank_row(w.ranks, number)
    for place in range(rank.posted):
        message = message_row(w.messages, rank.first_message + place)
        if message.status == OPEN:
            message.status = ABANDONED
            w.open_requests -= 1


@internal
def bury(w, number):
    """A rank is gone."""
    rank = rank_row(w.ranks, number)
    if rank.step != GONE and rank.step != DEAD:
        rank.step = DEAD
        fail_rank(w, number)
        give_up(w, number)


@internal
def strike_rank(w, vertex, fault):
    """A rank dies, or leaves in a hurry."""
    rank = rank_row(w.ranks, fault.target)
    if rank.step == GONE or rank.step == DEAD:
        return
    write_down(w, fault.kind, fault.source, fault.target, 0, fault.ordinal, fault.value, w.now)
    if fault.kind == RANK_CRASH:
        bury(w, fault.target)
        call_event(w.on_lose, (int64(vertex.base), rank.queue, PEER_LOST, w.now))
    elif rank.step == RUNNING:
        rank.step = LEAVING
        rank.turn += 1
        fail_rank(w, fault.target)
        give_up(w, fault.target)
        call_event(w.on_leave, (int64(vertex.base), rank.queue, LEAVE_TAG, w.now))


@internal
def strike_at_once(w, index, fault):
    """What happens before the event: to a rank, to links, or the device stands still after it."""
    note(w, STRIKE, index, fault.target, fault.kind, 0, 0, fault.value, fault.ordinal)
    vertex = vertex_row(w.vertices, index)
    if fault.kind == PARTITION:
        vertex.cut_until = w.now + fault.value
        vertex.cut_peer = fault.target
        suspend_links(w, index, fault.target, fault.value)
        write_down(w, PARTITION, index, fault.target, 0, fault.ordinal, fault.value, vertex.cut_until)
    elif fault.kind == FREEZE:
        vertex.frozen_until = w.now + fault.value
        suspend(w, index, fault.value)
        write_down(w, FREEZE, index, fault.target, 0, fault.ordinal, fault.value, vertex.frozen_until)
    else:
        strike_rank(w, vertex, fault)


@internal
def strike(w, index):
    """A device dies after its event, with the ranks of its node; perhaps it comes back."""
    vertex = vertex_row(w.vertices, index)
    fault = fault_row(w.given, vertex.doom - 1)
    note(w, STRIKE, index, index, fault.kind, 0, 0, fault.value, fault.ordinal)
    vertex.doom = 0
    vertex.alive = 0
    vertex.deadline = NEVER
    strike_vertex(w, index)
    for number in range(w.rank_count):
        if rank_row(w.ranks, number).vertex == index:
            bury(w, number)
    until = w.now
    if fault.kind == RESTART:
        until += fault.value >> ALLOWED
        queue.put(w, until, REBOOT, index, 0, 0)
    write_down(w, fault.kind, index, fault.target, 0, fault.ordinal, fault.value, until)


@internal
def expect_event(w, index):
    """An event of a device begins: what is planned for it?"""
    vertex = vertex_row(w.vertices, index)
    vertex.events += 1
    w.events += 1
    planned = find_planned(w, index, vertex.events)
    if planned == 0:
        return
    fault = fault_row(w.given, planned - 1)
    if fault.kind not in (NIC_CRASH, SWITCH_CRASH, RESTART):
        strike_at_once(w, index, fault)
    else:
        vertex.doom = planned
        vertex.allowed = fault.value & ALL_ACTIONS
        if vertex.allowed == ALL_ACTIONS:
            vertex.allowed = NEVER


@internal
def restore(w, index):
    """A device as it was before anything happened."""
    vertex = vertex_row(w.vertices, index)
    copy(vertex.base, vertex.snapshot, uint64(vertex.size))
    fill_zero(vertex.keys, uint64(vertex.watch_size))
    e = engine_at(vertex.base)
    e.first_position = w.first_position
    e.detection = w.detection
    e.keepalive = w.detection // KEEPALIVES
    e.boot_id = uint64(index * 1000 + vertex.boots + 1)
    vertex.alive = 1
    vertex.doom = 0
    vertex.frozen_until = 0
    vertex.deadline = NEVER


@internal
def reboot(w, index):
    """A device that was gone is back; its clients are not."""
    vertex = vertex_row(w.vertices, index)
    vertex.boots += 1
    restore(w, index)
    e = engine_at(vertex.base)
    for number in range(int64(e.queues)):
        queue_at(e, number).active = 0
    note(w, REBOOT, index, index, 0, 0, 0, vertex.boots, 0)
