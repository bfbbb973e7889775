"""Hostile packets against the transport of ordinary RDMA traffic, judged by the rules of the specification.

    from fanin_sim import hostile
    tally = hostile.run(seconds=60, seed=1, processes=2)

A life is a device with queue pairs in all states and requests under way, an attacker that knows all about them, and
honest traffic beside them. An oracle says what each packet must do: under which name it is counted, which bytes it
writes, which requests it ends. A guard lies around every region.
"""

from fanin_sim.hostile.campaign import HostileTally, replay, run

__all__ = ["HostileTally", "replay", "run"]
