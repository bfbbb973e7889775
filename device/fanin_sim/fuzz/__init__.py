"""Storms: thousands of schedules a second, each of the real engine in virtual time, each from one seed.

    from fanin_sim import fuzz
    tally = storm.run(seconds=60, seed=1, processes=2)

A schedule is a scene (`scenes`) and a plan that its seed gives (`plan`): packets are lost, corrupted, copied and late,
links go down, ranks and devices die. Compiled code plays it (`play`) and checks what must hold after every event. What
breaks is made short (`shrink`) and told (`story`).
"""

from __future__ import annotations

from fanin_sim.fuzz.campaign import replay, run
from fanin_sim.fuzz.tally import Failure, Tally

__all__ = ["Failure", "Tally", "replay", "run"]
