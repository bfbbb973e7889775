"""The simulator of ordinary RDMA traffic: thousands of random schedules of the real transport a second.

    from fanin_sim import rdma
    tally = rdma.run(seconds=60, seed=1, processes=2)

A schedule is two or three devices, their connections, and random requests over them, all from its seed. Packets are
lost, corrupted, duplicated, reordered and delayed, devices restart, requests are wrong. Compiled code (`event_loop`)
runs it in virtual time. A model of the memory of all programs says what each request must have done; every byte is
compared at the end. Each request must end with one completion, and with a status that the faults explain.
"""

from fanin_sim.rdma.campaign import RdmaTally, prepare, replay, run

__all__ = ["RdmaTally", "prepare", "replay", "run"]
