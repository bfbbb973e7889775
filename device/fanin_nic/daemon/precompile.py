"""Compile everything that a device runs, into the cache: `python -m fanin_nic.daemon.precompile`.

A device does the same before it says that it is ready, so that no client ever waits for the compiler.
"""

from __future__ import annotations

import time

import numpy as np
from numba import types

from fanin_nic.daemon.lanes import flushing, host_port
from fanin_nic.daemon.loop import lane
from fanin_nic.daemon.splitter.flushing import flush_queue
from fanin_nic.daemon.splitter.splitter import merge_now
from fanin_nic.engine.engine import Engine, Limits
from fanin_nic.hostif import rings
from fanin_nic.native.compiled import CACHE_FOLDER, COMPLETE
from fanin_wire import abi

SMALL = Limits(jobs=1, slots=8, queues=1, requests=8, regions=2, actions=64, max_chunk=256)


def precompile() -> None:
    """Call every compiled entry point once, on an engine that does nothing."""
    engine = Engine("127.0.0.1", limits=SMALL)
    host = host_port.HostPort(engine)
    host.register(0, 1, 0, 1, 1, 0)
    host.deregister(0, 1)
    host.join(0, np.zeros(1, abi.JOIN)[0])
    host.leave(0, 0)
    host.destroy_queue(0)
    host.end_job(0, host_port.End(int(abi.Status["ABORTED"]), 0, 0))
    engine.fail(0, abi.Status["ABORTED"], 0)
    nothing = np.zeros(1, np.uint64)
    rings.set_sleeping(nothing.ctypes.data, 0, 0)
    flushing.flush_queue.compile((types.int64,) * 4)
    merge_now.compile((types.int64,))
    flush_queue.compile((types.int64,) * 2)
    lane.prepare()
    if not COMPLETE.exists():
        COMPLETE.touch()


def main() -> None:
    """Entry point of the module."""
    start = time.monotonic()
    precompile()
    print(f"compiled code of the device is in {CACHE_FOLDER} ({time.monotonic() - start:.1f} s)")


if __name__ == "__main__":
    main()
