"""Compile everything that a device runs, into the cache: `python -m fanin_nic.daemon.precompile`.

A device does the same before it is ready, so that no client waits for the compiler. The compiled loop takes about as
long as all the rest; with a second core another process compiles it meanwhile. Of processes that begin at the same time
the first one compiles, and the others load the result.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numba import types

from fanin_nic.daemon.lanes import host_port
from fanin_nic.daemon.lanes.ordinary_host import OrdinaryHost
from fanin_nic.daemon.loop import lane
from fanin_nic.daemon.splitter.merge import flush_queue
from fanin_nic.daemon.splitter.splitter import merge_now
from fanin_nic.engine.engine import Engine, Limits
from fanin_nic.hostif import rings
from fanin_nic.hostif.ports import OrdinaryQueuePair, OrdinaryRegion
from fanin_nic.hostif.remote.queue_pair import drain_requests
from fanin_nic.hostif.remote.transfer import post_marker
from fanin_nic.native import shared_words
from fanin_nic.native.compiled import CACHE_FOLDER, COMPLETE, KEEPS, Compiled, mark_complete
from fanin_nic.transport.transport import Limits as TransportLimits
from fanin_wire import abi
from fanin_wire.abi import Service
from fanin_wire.verbs import QueuePairState

SMALL = Limits(jobs=1, slots=8, queues=1, requests=8, regions=2, actions=64, max_chunk=256)
SMALL_TRANSPORT = TransportLimits(
    queue_pairs=1, send_depth=2, receive_depth=2, shared_queues=1, shared_depth=2, regions=1, actions=128, window=2
)
MODULE = "fanin_nic.daemon.precompile"
LOOP = "loop"  # argument: compile the loop only


def precompile() -> None:
    """Compile what the cache lacks, load the rest, and mark the cache folder as complete."""
    with _one_at_a_time():
        if not COMPLETE.exists() and len(os.sched_getaffinity(0)) > 1:
            with subprocess.Popen([sys.executable, "-m", MODULE, LOOP], stdout=subprocess.DEVNULL):
                _precompile_control()
        else:
            _precompile_control()
        lane.prepare()
        mark_complete()


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Wait for a process that compiles into the same folder. Its lock ends with it."""
    with contextlib.ExitStack() as held:
        if KEEPS and not COMPLETE.exists():
            lock = held.enter_context((CACHE_FOLDER / "compiling").open("w"))
            with contextlib.suppress(OSError):  # a file system without locks: each compiles
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _precompile_control() -> None:
    """Call every entry point of the control server once, on an idle engine."""
    engine = Engine("127.0.0.1", limits=SMALL)
    host = host_port.HostPort(engine)
    host.register(0, 1, 0, 1, 1, 0)
    host.deregister(0, 1)
    host.join(0, np.zeros(1, abi.JOIN)[0])
    host.leave(0, 0)
    host.destroy_queue(0)
    host.end_job(0, host_port.End(int(abi.Status.ABORTED), 0, 0, 0))
    engine.fail(0, abi.Status.ABORTED, 0)
    _precompile_transport()
    nothing = np.zeros(1, np.uint64)
    rings.set_sleeping(nothing.ctypes.data, 0, 0)
    host_port.flush_queue.compile((types.int64,) * 4)
    merge_now.compile((types.int64,))
    flush_queue.compile((types.int64,) * 2)
    shared_words.prepare()
    drain_requests.compile((types.int64,))
    post_marker.compile((types.int64,))


def _precompile_transport() -> None:
    ordinary = OrdinaryHost("127.0.0.1", 1500, SMALL_TRANSPORT)
    key = ordinary.register(0, OrdinaryRegion(0, 1, 0, 0, 0))
    shared = ordinary.create_shared(0, 0, 0)
    queue_pair = OrdinaryQueuePair(Service.RC, 0, 0, 0, False, 0, 0, shared)
    row, _ = ordinary.create(0, queue_pair)
    ordinary.modify(row, QueuePairState.ERR, {})
    ordinary.destroy(row)
    ordinary.destroy_shared(shared)
    ordinary.deregister(key)


class Entry(NamedTuple):
    """A compiled function, by module and name, and the types of its arguments."""

    module: str
    name: str
    arguments: tuple[types.Type, ...]

    def compile(self) -> None:
        """Make its machine code in this process, or load it from the cache."""
        getattr(import_module(self.module), self.name).compile(self.arguments)


def entries() -> list[Entry]:
    """The entries of a device: all that `precompile` compiles or loads in this process, so no second list is needed."""
    precompile()
    functions = dict.fromkeys(_compiled_functions())
    return sorted(
        (
            Entry(function.__module__, function.__name__, kinds)
            for function in functions
            for kinds in function.overloads
        ),
        key=str,
    )


def _compiled_functions() -> Iterator[Compiled]:
    """All compiled functions of loaded modules; one that several import comes several times."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "fanin_nic":
            yield from (value for value in vars(module).values() if isinstance(value, Compiled))


def main() -> None:
    start = time.monotonic()
    if sys.argv[1:] == [LOOP]:
        lane.prepare()
    else:
        precompile()
    print(f"compiled code of the device is in {CACHE_FOLDER} ({time.monotonic() - start:.1f} s)")


if __name__ == "__main__":
    main()
