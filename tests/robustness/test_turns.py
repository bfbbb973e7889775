"""A client with endless requests does not starve the others."""

import os

import numpy as np

from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.engine.engine import Engine, Limits
from fanin_nic.hostif.mapping import CQ_BYTES, SQ_BYTES
from fanin_nic.port.sockets import UdpPort
from fanin_wire import abi
from tests.lanes.rig import aligned

QUEUES = 6
LIMITS = Limits(jobs=2, slots=16, queues=QUEUES, requests=8, regions=4, actions=64, max_chunk=256)


def test_queues_get_their_turn_whatever_the_first_ones_post() -> None:
    """The answers of two full queues take all the room for the effects of requests."""
    port = UdpPort(f"127.67.{os.getpid() // 250 % 250}.{1 + os.getpid() % 250}")
    core = LaneCore(0, Engine(port.address, limits=LIMITS), port)
    core.make_doorbell()
    rings = [(aligned(SQ_BYTES), aligned(CQ_BYTES)) for _ in range(QUEUES)]
    for number, (send, completion) in enumerate(rings):
        core.host.create_queue(0, number, 0, send.ctypes.data, completion.ctypes.data)
    core.refresh([])
    heads = [send[: abi.RING.itemsize].view(abi.RING) for send, _ in rings]
    heads[-1]["producer"] = 1
    for _ in range(QUEUES):
        for head in heads[:-1]:
            head["producer"] = head["consumer"] + np.uint32(abi.SQ_DEPTH)
        core.interrupt()
        core.run()
        core.resume()
    core.close()
    assert heads[-1]["consumer"][0] == 1
