"""Broken engines: each is the real one with one thing changed, and the explorer must see what is wrong with it.

The table says what is changed, in which file, which instance shows it, and what the explorer must report. A mutant is a
copy of the package in a folder of its own, run by a process of its own; folders and machine code are kept beside the
cache of the sound engine's machine code, so only the first run compiles (half a minute of CPU for each).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import fanin_nic
import fanin_wire
from fanin_nic.native.compiled import CACHE_FOLDER

PACKAGE = Path(fanin_nic.__file__).parent
PROTOCOL = Path(fanin_wire.__file__).parents[1]
WAIT_S = 600  # for a first run on a busy machine
OPTIMISE = "1"  # numba compiles faster so, and 0 can not be cached


class Mutant(NamedTuple):
    """One replacement in one file, the instance that shows it, and a part of the report that is due."""

    name: str
    file: str
    old: str
    new: str
    instance: str
    report: str


MUTANTS = (
    Mutant(
        "one version bit instead of positions",
        "engine/segment/slots.py",
        """\
    ahead = distance(position, slot.position)
    if ahead < 0:
        return STALE
    if ahead == 0:
        return CURRENT
    if ahead == job.slots and (slot.state == FINAL or slot.state == DONE):
        return REPLACE
    return VIOLATION
""",
        """\
    version = (U64(position) // U64(job.slots)) & ONE
    if version == (U64(slot.position) // U64(job.slots)) & ONE:
        return CURRENT
    return REPLACE if slot.state == FINAL or slot.state == DONE else STALE
""",
        "tree",
        "POSITION_WENT_BACK",
    ),
    Mutant(
        "a window as large as the lease (N < 2W)",
        "engine/control/lease.py",
        "    job.window = max(1, min(window, job.slots // 2))\n",
        "    job.window = job.slots\n",
        "tree",
        "stuck",
    ),
    Mutant(
        "the result is forgotten once it is sent",
        "engine/segment/complete.py",
        "    elif job.node_mask:\n        fan_out(e, job, slot)\n",
        "    elif job.node_mask:\n        fan_out(e, job, slot)\n        slots.occupy(e, job, slot, DONE)\n",
        "tree",
        "stuck",
    ),
    Mutant(
        "a middle device drops a duplicate that it meets in LOCAL",
        "engine/packet/tree.py",
        """\
    elif slot.state == LOCAL and lowest_bit(job.node_mask) == U64(header.source):
        probe_above(e, job, slot)
""",
        "",
        "chain of switches",
        "stuck",
    ),
    Mutant(
        "a ring frees a slot with the result, unacknowledged",
        "engine/segment/complete.py",
        "    elif not slot.unacked:\n        slots.occupy(e, job, slot, DONE)\n",
        "    slots.occupy(e, job, slot, DONE)\n",
        "ring",
        "stuck",
    ),
    Mutant(
        "a duplicate is computed again",
        "engine/packet/tree.py",
        "    elif verdict == slots.CURRENT and slot.node_missing & bit_of(header.source) == ZERO:\n",
        "    elif verdict == slots.CURRENT and slot.state != OPEN:\n",
        "tree",
        "instead of",
    ),
    Mutant(
        "LEAVE for an unknown job is not acknowledged",
        "engine/packet/parse.py",
        "        leave.acknowledge_leave(e, spare, source, header.source)\n",
        "        count(e, DROP_UNKNOWN_JOB)\n",
        "tree",
        "stuck",
    ),
)


class Verdict(NamedTuple):
    """How the explorer ended on a mutant, and what it printed."""

    code: int
    report: str


def explore(mutant: Mutant) -> Verdict:
    """Run the explorer on a mutant, in a process of its own."""
    folder = build(mutant)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(PROTOCOL)]),
        "FANIN_CACHE_DIR": str(folder / "cache"),
        "NUMBA_OPT": OPTIMISE,
    }
    command = [sys.executable, "-m", "fanin_nic.sim.explorer", mutant.instance]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=WAIT_S)
    return Verdict(done.returncode, done.stdout + done.stderr)


def build(mutant: Mutant) -> Path:
    """The folder with the mutant's package; made at the first time."""
    digest = hashlib.sha256(f"{mutant.old}\0{mutant.new}".encode()).hexdigest()[:12]
    folder = CACHE_FOLDER / f"mutant-{digest}"
    if not folder.exists():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.copytree(PACKAGE, making / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__", "sim"))
        (making / PACKAGE.name / "sim").symlink_to(PACKAGE / "sim")
        change(making / PACKAGE.name / mutant.file, mutant)
        making.rename(folder)
    return folder


def change(path: Path, mutant: Mutant) -> None:
    """Make the replacement; ValueError unless the old text stands there exactly once."""
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: the text to replace is {text.count(mutant.old)} times in {mutant.file}")
    path.write_text(text.replace(mutant.old, mutant.new))
