"""Time in the model checker. Time stands still; the passing of time is an event of a device.

After each event, times, learnt intervals and repetition counters are reset, so that states that differ in nothing else
become one.
"""

import numpy as np

from fanin_nic.engine.packets import header_prediction
from fanin_nic.engine.records.tables import JobState
from fanin_sim.fabric.device import Device, Packet
from fanin_sim.fabric.placement import PARENT, RING_NEXT, RING_PREVIOUS

NOT_DUE = 2**62
UNANSWERED = 200  # more repetitions than any device makes
LAST_HEARD = {PARENT: "heard", RING_NEXT: "heard_next", RING_PREVIOUS: "heard_previous"}
# Members that are reset after each event, with their value.
JOB_CONSTANTS = {
    "retries": 0,
    "rto": 10**9,
    "reorder": 10**6,
    "srtt": 0,
    "rttvar": 0,
    "answered_at": 0,
    "deadline": NOT_DUE,
    "high_water": 0,
    "unanswered_configs": 0,
    "config_is_short": 0,
    "short_answers": 0,
    "path_proved_at": 0,
    "stalled_ns": 0,
}
# The other bytes of a predicted header are not compared.
HEADER_MASK = np.frombuffer(header_prediction.HEADER_MASK, np.uint8)
SLOT_CONSTANTS = {"retries": 0, "deadline": NOT_DUE, "first_probe_at": 0, "last_probe_at": 0}
ENGINE_CONSTANTS = {"next_deadline": NOT_DUE, "next_nak": 0, "slots_high_water": 0}


def expire_timers(device: Device, now: int) -> list[Packet]:
    """Lets all timers of a device expire. Returns the packets sent."""
    header, tables = device.engine.header, device.engine.tables
    first = int(header["rto"])
    tables["jobs"]["deadline"] = 0
    header["rto"] = tables["jobs"]["rto"] = 0  # the time since the last answer is long
    tables["slots"]["deadline"] = 0
    device.engine.tick(now)
    header["rto"] = first
    return device.perform()


def age_job(device: Device, now: int) -> list[Packet]:
    """Lets the job of a device age: no member was heard for the ageing time. Returns the packets sent."""
    header, tables = device.engine.header, device.engine.tables
    ageing = int(header["ageing"])
    header["ageing"] = 0
    tables["children"]["heard"] = 0
    for name in LAST_HEARD.values():
        tables["jobs"][name] = 0
    device.engine.tick(now)
    header["ageing"] = ageing
    return device.perform()


def silence_neighbours(device: Device, bitmap: int, *, below: bool) -> None:
    """Marks neighbours as silent for the detection time.

    Args:
        bitmap: children of a switch by their bits, or neighbours of a NIC (see `fabric.placement.neighbours`).
        below: whether the bitmap is of children.
    """
    tables = device.engine.tables
    for bit in range(bitmap.bit_length()):
        if not bitmap >> bit & 1:
            continue
        if below:
            tables["children"][bit]["heard"] = 0
        else:
            tables["jobs"][0][LAST_HEARD[bit]] = 0


def abandon_leave(device: Device, now: int) -> list[Packet]:
    """Lets a device stop repeating LEAVE, as no answer has come. Returns the packets sent."""
    job = device.engine.tables["jobs"][0]
    job["retries"] = UNANSWERED
    job["deadline"] = job["leaving_since"] = 0
    device.engine.tick(now)
    return device.perform()


def canonicalize(device: Device) -> None:
    """Resets all fields that depend on time, and clears the leftovers of a finished job, to merge states."""
    engine = device.engine
    for name, value in ENGINE_CONSTANTS.items():
        engine.header[name] = value
    job, slots = engine.tables["jobs"][:1], engine.tables["slots"]
    if job["state"][0] == JobState.FREE:
        for table in (job, slots, engine.tables["children"], engine.tables["payload"]):
            table.view(np.uint8)[:] = 0
        return
    for name, value in JOB_CONSTANTS.items():
        job[name] = value
    for name, value in SLOT_CONSTANTS.items():
        slots[name] = value
    engine.tables["children"]["predicted_header"] &= HEADER_MASK
    if engine.header["is_switch"]:  # on a switch these two only tell whether a result has left just now
        job["lost_at"], slots["sent_at"] = 0, 0
    np.minimum(slots["unanswered"], 1, out=slots["unanswered"])  # the number of PROBEs affects only times
