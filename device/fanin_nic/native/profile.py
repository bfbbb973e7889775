"""Where the time of a lane goes: if it is profiled, the clock is read between the stages of its work (some 20 ns each).

`lap(profile, stage)` adds the time since the last lap to `stage`. `profile`: address of a PROFILE record; 0: do
nothing.
"""

import enum
import time

import numpy as np
from numba import uint64

from fanin_nic.native.compiled import compiled
from fanin_nic.native.libc import monotonic_ns
from fanin_nic.native.memory import load_u64, store_u64


class Stage(enum.IntEnum):
    POST = 0  # doorbells: work requests taken from the rings
    READ_AND_REDUCE = 1  # registered memory of ranks read, and added up
    DMA_READ = 2  # ordinary memory of ranks read
    REDUCE = 3  # contributions, results and probes of others taken in
    ENCAPSULATE = 4  # headers and ICRCs of packets to send
    SEND = 5  # the kernel, in sendmmsg
    RECEIVE = 6  # the kernel, in recvmmsg
    CHECK = 7  # headers and ICRCs of packets received
    DMA_WRITE = 8  # results into the memory of ranks
    COMPLETE = 9  # completions stored, and their clients woken
    TIMERS = 10  # what is due: probes, keep-alives
    LOOK = 11  # nothing to do
    YIELD = 12
    SLEEP = 13  # each a wake-up
    ORDINARY = 14  # ordinary traffic: packets taken in, requests begun, timers
    CONTROL = 15  # Python: the control socket, joins, leaves


# Nanoseconds of the last lap, and for each stage its nanoseconds and laps.
PROFILE = np.dtype([("since", "u8"), ("stages", [("ns", "u8"), ("laps", "u8")], (len(Stage),))])
STAGES, STAGE_SIZE, LAPS = uint64(8), uint64(16), uint64(8)  # offsets in it


@compiled
def lap(profile, stage):
    if profile:
        now = uint64(monotonic_ns())
        place = profile + STAGES + uint64(stage) * STAGE_SIZE
        store_u64(place, load_u64(place) + now - load_u64(profile))
        store_u64(place + LAPS, load_u64(place + LAPS) + uint64(1))
        store_u64(profile, now)


class Profile:
    def __init__(self) -> None:
        self._record = np.zeros(1, PROFILE)

    def begin(self) -> int:
        """Count from now on; the address of the record."""
        self._record[:] = 0
        self._record["since"] = time.monotonic_ns()
        return int(self._record.ctypes.data)

    def stages(self) -> dict[str, tuple[int, int]]:
        """Nanoseconds and laps of each stage, by its name in small letters."""
        rows = self._record["stages"][0]
        return {stage.name.lower(): (int(rows[stage]["ns"]), int(rows[stage]["laps"])) for stage in Stage}
