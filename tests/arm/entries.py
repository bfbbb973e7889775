"""What tests compile: the entries of device code, and of the simulator, that they call beyond those of a device.

They are found by running the tests on this machine, and compiled here: an emulated compiler takes ten times as long.
As a plugin of pytest (`-p tests.arm.entries`) this module writes them to the file that FANIN_TEST_ARM_ENTRIES names.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fanin_nic.daemon.cross import CompilationFailed, compile_for
from fanin_nic.daemon.entries import Entry

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
    """The entries that tests call. options: of pytest; file: to be written. Raises StepFailed: they fail here, too."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.arm.entries", *options]
    done = subprocess.run(command, env=os.environ | {VARIABLE: str(file)}, capture_output=True, text=True)
    if done.returncode:
        raise StepFailed(f"the tests fail on this machine: {done.stdout[-LAST:]}{done.stderr[-LAST:]}")
    return list(pickle.loads(file.read_bytes()))


def compile_for_tests(target: str, options: Sequence[str], code: Path, file: Path) -> int:
    """Compile what tests call for a target, into the folder for caches `code`. Returns how many entries there are.
    Raises StepFailed."""
    found = of_tests(options, file)
    try:
        compile_for(target, code, found)
    except CompilationFailed as error:
        raise StepFailed(f"what tests call can not be compiled for {target}: {error}") from error
    return len(found)
