"""Compile all that a device runs for another processor: `python -m fanin_nic.daemon.cross --target arm64 FOLDER`.

With FANIN_CACHE_DIR=FOLDER, the same sources and the same minor version of Python, a device on such a processor is
ready without compiling. The entries are those of a device of this machine (`precompile.entries`), whose cache is filled
on the way. Another process compiles them, since one process has one target. Record 0094: how the entries are found, and
what was rejected.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fanin_nic.native import target
from fanin_wire.command_line import Parser

if TYPE_CHECKING:  # imports the device, which must come after `aim`
    from fanin_nic.daemon.precompile import Entry

MODULE = "fanin_nic.daemon.cross"
ENTRIES = "entries-from-input"  # argument of the second process: compile the input


class CompilationFailed(Exception):
    """The message has the compiler's last line."""


def compile_for(name: str, folder: Path, chosen: Sequence[Entry], *, whole: bool = False) -> Path:
    """Compile entries for a target, a row of TARGETS, below a folder for caches; returns the folder of the code.

    whole: they are all entries of a device; its C functions are compiled with them, and the folder is complete. Raises
    CompilationFailed: the folder can not be written, or LLVM fails.
    """
    from fanin_nic.native.cache import ENVIRONMENT_VARIABLE

    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_CPU")}
    environment[ENVIRONMENT_VARIABLE] = str(folder.resolve())
    command = [sys.executable, "-m", MODULE, "--target", name, ENTRIES]
    done = subprocess.run(command, input=pickle.dumps((list(chosen), whole)), env=environment, capture_output=True)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        raise CompilationFailed(said[-1] if said else f"the compiler ended with {done.returncode}")
    return Path(os.fsdecode(done.stdout).strip())


def _compile_input(name: str) -> None:
    """Compile the entries of the input in this process, and print the folder of the code."""
    given = sys.stdin.buffer.read()
    target.aim(target.TARGETS[name])
    from fanin_nic.engine.function_addresses import entry_table
    from fanin_nic.native.compiled import CACHE_FOLDER, mark_complete

    asked = Path(os.environ["FANIN_CACHE_DIR"])
    if not CACHE_FOLDER.is_relative_to(asked):
        raise SystemExit(f"{asked} can not be written; give a writable folder")
    chosen, whole = pickle.loads(given)
    for entry in chosen:
        entry.compile()
    target.record(target.TARGETS[name], CACHE_FOLDER)
    if whole:
        entry_table()
        mark_complete()
    print(CACHE_FOLDER)


def main() -> int:
    parser = Parser(prog=f"python -m {MODULE}", description="Compile device code for another processor.")
    parser.add_argument("--target", required=True, choices=list(target.TARGETS), help="the processor")
    parser.add_argument("folder", type=Path, help="folder for caches; made if it is missing")
    given = parser.parse_args()
    if str(given.folder) == ENTRIES:
        _compile_input(given.target)
        return 0
    from fanin_nic.daemon.precompile import entries

    start = time.monotonic()
    chosen = entries()
    try:
        made = compile_for(given.target, given.folder, chosen, whole=True)
    except CompilationFailed as error:
        print(f"COMPILATION_FAILED: device code for {given.target}: {error}", file=sys.stderr)
        return 1
    files = [file for file in made.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    print(f"device code for {given.target} is in {made}")
    print(f"{len(chosen)} entries, {len(files)} files, {size / 1e6:.1f} MB, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
