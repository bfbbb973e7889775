"""The compiled code of tests: entries of device code, and of the simulator, beyond those of a device.

Running the tests on this machine finds them, and they are compiled here: an emulated compiler takes ten times as long.
As a plugin of pytest (`-p tests.arm.entries`) this module writes them to the file in FANIN_TEST_ARM_ENTRIES.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fanin_nic.daemon.cross import CompilationFailed, compile_for
from fanin_nic.daemon.precompile import Entry

from .machine import StepFailed

VARIABLE = "FANIN_TEST_ARM_ENTRIES"
PACKAGES = ("fanin_nic", "fanin_sim")  # whose machine code has a cache
LAST = 2000  # characters


def pytest_sessionfinish() -> None:
    """Write the entries that this process has compiled or loaded."""
    Path(os.environ[VARIABLE]).write_bytes(pickle.dumps(sorted(set(_entries()), key=str)))


def _entries() -> Iterator[Entry]:
    from fanin_nic.native.compiled import Compiled

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for function in vars(module).values():
                if isinstance(function, Compiled):
                    yield from (Entry(function.__module__, function.__name__, kinds) for kinds in function.overloads)


def of_tests(options: Sequence[str], file: Path) -> list[Entry]:
    """The entries that tests call. options: of pytest; file: output. Raises StepFailed if the tests fail here, too."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.arm.entries", *options]
    done = subprocess.run(command, env=os.environ | {VARIABLE: str(file)}, capture_output=True, text=True)
    if done.returncode:
        raise StepFailed(f"the tests fail on this machine: {done.stdout[-LAST:]}{done.stderr[-LAST:]}")
    return list(pickle.loads(file.read_bytes()))


def compile_for_tests(target: str, options: Sequence[str], code: Path, file: Path) -> int:
    """Compile these entries for a target into the cache folder `code`. Returns their number. Raises StepFailed."""
    found = of_tests(options, file)
    try:
        compile_for(target, code, found)
    except CompilationFailed as error:
        raise StepFailed(f"what tests call can not be compiled for {target}: {error}") from error
    return len(found)
