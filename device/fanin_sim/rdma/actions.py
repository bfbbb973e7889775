"""The actions of a device, performed in the order that the transport demands: memory, packets, completions."""

from numba import int64, uint64

from fanin_nic.native.memory import copy, load_u64, store_be64, store_u64
from fanin_nic.transport.records.accessors import action_at, transport_at
from fanin_nic.transport.records.actions import ActionKind
from fanin_sim.jit import internal
from fanin_sim.kernel.trace import report_violation
from fanin_sim.rdma.codes import Violation
from fanin_sim.rdma.completions import complete
from fanin_sim.rdma.network import send
from fanin_sim.rdma.tables import device_row


@internal
def perform(w, index):
    """Perform the actions of a device."""
    t = transport_at(device_row(w.devices, index).base)
    count = int64(t.action_count)
    for number in range(count):
        change_memory(w, index, action_at(t, uint64(number)))
    for number in range(count):
        if action_at(t, uint64(number)).kind == ActionKind.SEND:
            send(w, index, number)
    for number in range(count):
        if action_at(t, uint64(number)).kind == ActionKind.COMPLETE:
            complete(w, index, action_at(t, uint64(number)))
    t.action_count = 0


@internal
def change_memory(w, index, action):
    """Perform an action that changes memory."""
    is_atomic = action.kind == ActionKind.COMPARE_SWAP or action.kind == ActionKind.FETCH_ADD
    if action.kind != ActionKind.WRITE and not is_atomic:
        return
    device = device_row(w.devices, index)
    length = 8 if is_atomic else int64(action.length)
    start, end = device.memory, device.memory + uint64(device.memory_size)
    if action.remote < start or action.remote > end or uint64(length) > end - action.remote:
        report_violation(w, Violation.STRAY_WRITE, index, length)
    elif action.kind == ActionKind.WRITE:
        copy(action.remote, action.payload, uint64(length))
    else:
        original = load_u64(action.remote)
        store_be64(action.payload, original)
        if action.kind == ActionKind.FETCH_ADD:
            store_u64(action.remote, original + action.operand)
        elif original == action.compare:
            store_u64(action.remote, action.operand)
