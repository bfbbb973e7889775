"""The RTL broken in one place at a time: the tests of the broken module must fail.

    python -m fpga_cosim.tb.mutants [NAME_OR_MODULE ...]

A mutant is a copy of the RTL with one text replaced, against which the tests named beside it run. Verilator must take
it without a warning: an error of a tool proves nothing about the tests.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fpga_cosim.tb.tools import BUILD, ROOT, RTL, missing


class Mutant(NamedTuple):
    """name: the error. module: the file. test: the folder or file of tests that must fail."""

    name: str
    module: str
    right: str
    wrong: str
    test: str = ""


def _mutants(module: str, entries: dict, test: str = "") -> Iterator[Mutant]:
    for name, entry in entries.items():
        if isinstance(entry, dict):  # of a file of tests
            yield from _mutants(module, entry, name)
        else:
            yield Mutant(name, module, *entry, test)


SOURCE = Path(__file__).with_suffix(".toml")
MUTANTS = tuple(each for entry in tomllib.loads(SOURCE.read_text()).items() for each in _mutants(*entry))
CAUGHT, ALIVE, INVALID = "caught", "ALIVE", "INVALID"


def folder_of(mutant: Mutant) -> Path:
    return BUILD / "mutants" / mutant.name.replace(" ", "_")


def make(mutant: Mutant) -> Path:
    folder = folder_of(mutant) / "rtl"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RTL, folder)
    source = folder / f"{mutant.module}.v"
    source.write_text(source.read_text().replace(mutant.right, mutant.wrong))
    return folder


def outcome(mutant: Mutant) -> tuple[str, str]:
    """The verdict of the tests: CAUGHT, ALIVE or INVALID, the last with their output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--packets=20000"]
    command += [str(ROOT / "fpga_cosim/tb" / (mutant.test or mutant.module))]
    environment = {**os.environ, "FANIN_RTL": str(make(mutant))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if "ToolFailed" in done.stdout or done.returncode not in (0, 1):
        return INVALID, done.stdout[-3000:] + done.stderr
    return (CAUGHT if done.returncode else ALIVE), ""


def chosen(names: Sequence[str]) -> list[Mutant]:
    """The mutants of these names or modules; without names all. Raises ValueError for an unknown name."""
    known = {each.name for each in MUTANTS} | {each.module for each in MUTANTS}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"{unknown[0]!r} is neither a mutant nor a module with one: see {SOURCE.relative_to(ROOT)}")
    return [each for each in MUTANTS if not names or each.name in names or each.module in names]


def main() -> int:
    """Try the mutants of the given names or modules. Exit code 1 if one is not caught."""
    for tool, remedy in missing().items():
        print(f"fanin: NOT_SUPPORTED: {tool} is missing: {remedy}")
    if missing():
        return 1
    try:
        wanted = chosen(sys.argv[1:])
    except ValueError as error:
        print(f"fanin: INVALID_REQUEST: {error}")
        return 1
    caught = 0
    for mutant in wanted:
        verdict, printed = outcome(mutant)
        caught += verdict == CAUGHT
        print(f"{verdict:7}  {mutant.module}: {mutant.name}", flush=True)
        if verdict == INVALID:
            print(printed)
            print(f"fanin: INVALID_REQUEST: {mutant.name!r} does not compile, so its tests did not run; mend it")
        shutil.rmtree(folder_of(mutant), ignore_errors=True)
    print(f"{caught} of {len(wanted)} caught")
    return int(caught < len(wanted))


if __name__ == "__main__":
    sys.exit(main())
