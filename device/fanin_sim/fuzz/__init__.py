"""The schedule fuzzer: it runs thousands of random schedules a second of the real engine, in virtual time.

    from fanin_sim import fuzz
    tally = fuzz.run(seconds=60, seed=1, processes=2)

A schedule is a workload (`workloads`) and a plan (`plan`), and follows from its seed. Packets are lost, corrupted,
duplicated and delayed, links go down, ranks and devices crash. Compiled code (`event_loop`) runs the schedule and
checks the invariants after every event. A schedule that violates one is shrunk (`campaign`) and printed
(`trace_format`).
"""

from fanin_sim.fuzz.campaign import FuzzTally, prepare, replay, run

__all__ = ["FuzzTally", "prepare", "replay", "run"]
