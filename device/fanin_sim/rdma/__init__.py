"""The simulator of ordinary RDMA traffic: thousands of random schedules of the real transport a second.

    from fanin_sim import rdma
    tally = rdma.run(seconds=60, seed=1, processes=2)

A schedule consists of two or three devices, their connections, and random requests over them, all of which follow from
its seed. Packets are lost, corrupted, duplicated, reordered and delayed, devices start anew, requests are wrong.
Compiled code (`event_loop`) runs the schedule in virtual time. A model of the memory of all programs says what each
request must have done. Every byte is compared at the end. Each request must end with one completion, and with a status
that the faults explain.
"""

from fanin_sim.rdma.campaign import prepare, replay, run
from fanin_sim.rdma.tally import RdmaTally

__all__ = ["RdmaTally", "prepare", "replay", "run"]
