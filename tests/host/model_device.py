"""The device process of these tests: the real control server and rings before a model of the engine.

Arguments: the path of the control socket, and "nic" or "switch".
"""

import select
import signal
import sys

from model_engine import ModelEngine
from numba import types

from fanin_nic.hostif.client import DeviceLimits
from fanin_nic.hostif.rings import complete, fetch, pending, set_sleeping
from fanin_nic.hostif.server import ControlServer

LIMITS = DeviceLimits(max_chunk=8192, slots=4096, address=0x7F000001, max_qp=8, max_cq=8, max_regions=8)
IDLE_MS = 200
DEADLINE_MS = 10


def compile_all() -> None:
    """Before a client waits: an emulated compiler exceeds a client's patience."""
    for function, arguments in ((pending, 1), (fetch, 2), (complete, 2), (set_sleeping, 3)):
        function.compile((types.int64,) * arguments)


def main(path: str, kind: str) -> None:
    compile_all()
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    engine = ModelEngine()
    server = ControlServer(path, engine.status, *((engine, LIMITS) if kind == "nic" else ()))
    engine.server = server
    poller = select.poll()
    for events in (server, server.doorbell_events):
        poller.register(events.fileno(), select.POLLIN)
    while running:
        server.service()
        if engine.progress():
            continue
        set_sleeping(server.doorbells.ctypes.data, len(server.doorbells), 1)
        if not any(pending(queue.sq) for queue in engine.queues.values()):
            poller.poll(DEADLINE_MS if engine.waits() else IDLE_MS)
            server.doorbell_events.poll(0)
        set_sleeping(server.doorbells.ctypes.data, len(server.doorbells), 0)
    server.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
