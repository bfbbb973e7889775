"""The time of a program before its first collective: import of the library, attach to a device, join of a job."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import fanin
from fanin_tools.bench.samples import Summary
from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.placement import place
from fanin_tools.progress import ProgressCallback

IMPORTS, ATTACHES = 15, 50
# Runs in an interpreter of its own and prints the time of the import, and whether it loaded the compiler.
PROGRAM = """
import json, sys, time
start = time.perf_counter_ns()
import fanin
print(json.dumps([time.perf_counter_ns() - start, "numba" in sys.modules]))
"""


@dataclass(frozen=True)
class Row:
    """One measured step."""

    what: str
    microseconds: Summary


def measure(running: Running, progress: ProgressCallback) -> list[Row]:
    """Measure every step on a fabric of one node."""
    progress("importing ...")
    rows = [Row("import fanin, in a new interpreter", Summary.of([_import() for _ in range(IMPORTS)]))]
    socket = running.state.socket(running.fabric.nics[0].name)
    progress("attaching ...")
    attach = [_timed(lambda: fanin.verbs.Context(socket)) for _ in range(ATTACHES)]
    progress("joining ...")
    join = [_join(running) for _ in range(ATTACHES)]
    return [*rows, Row("attach to the device", Summary.of(attach)), Row("attach, and join a job", Summary.of(join))]


def _import() -> int:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    if found.returncode:
        raise ToolError("PROGRAM_FAILED", f"import fanin: {found.stderr[-300:]}", "install fanin (make install)")
    nanoseconds, with_compiler = json.loads(found.stdout)
    if with_compiler:
        cause = "import fanin has loaded numba, which programs do not need"
        raise ToolError("WRONG_RESULT", cause, "this is a defect: report it with the output of fanin doctor --json")
    return int(nanoseconds)


def _timed(make: Callable[[], fanin.verbs.Context | fanin.Communicator]) -> int:
    start = time.perf_counter_ns()
    made = make()
    end = time.perf_counter_ns()
    made.close()
    return end - start


def _join(running: Running) -> int:
    placement = place(running.fabric, 1, "local")
    path = job_file.write(running, job_file.describe(running, placement))
    try:
        job, socket = fanin.Job.from_file(path), running.state.socket(placement.nics[0].name)
        return _timed(lambda: fanin.Communicator(job, 0, socket))
    finally:
        path.unlink()
