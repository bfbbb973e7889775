"""Which C file of a library uses which other one, by the symbols of their object files."""

import os
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy
import pytest

ROOT = Path(__file__).parents[2]
HOST = ROOT / "host/fanin"
FLAGS = ["-std=c11", "-O0", "-w", "-fPIC", "-pthread"]
# Beside the library's own folder, the driver's and that of the formats. As in setup.py.
FURTHER_FLAGS = {
    "binding": [f"-I{sysconfig.get_path('include')}", "-isystem", numpy.get_include()],
    "sharp_lib": [f"-I{HOST / 'sharp_lib/include'}"],
}

Calls = dict[str, dict[str, list[str]]]


@cache
def calls_of(library: str) -> Calls:
    """For each C file below a folder of the host, the files there that it uses, with the symbols, functions and data.

    Each file is compiled alone. So calls within a file, and those of inline functions that it includes, count for it.
    """
    if shutil.which("nm") is None:
        pytest.skip("nm")
    folder = HOST / library
    sources = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.c"))
    with TemporaryDirectory(prefix="fanin-calls-") as place, ThreadPoolExecutor(os.cpu_count()) as threads:
        symbols = list(threads.map(lambda source: symbols_of(library, source, Path(place)), sources))
    defined_in = {symbol: source for source, (defined, _) in zip(sources, symbols, strict=True) for symbol in defined}
    calls: Calls = {source: {} for source in sources}
    for source, (_, used) in zip(sources, symbols, strict=True):
        for symbol in sorted(used & defined_in.keys()):
            calls[source].setdefault(defined_in[symbol], []).append(symbol)
    return calls


def symbols_of(library: str, source: str, place: Path) -> tuple[set[str], set[str]]:
    """The symbols that a file defines for others, and those that it uses of others."""
    target = place / f"{source.replace('/', '-')}.o"
    includes = [f"-I{folder}" for folder in (HOST / library, HOST / "core", ROOT / "protocol/fanin_wire")]
    compiler = shlex.split(os.environ.get("CC", "cc"))
    options = [*FLAGS, *includes, *FURTHER_FLAGS.get(library, [])]
    subprocess.run([*compiler, *options, "-c", str(HOST / library / source), "-o", str(target)], check=True)
    listed = subprocess.run(["nm", "--extern-only", target], capture_output=True, text=True, check=True)
    kinds = [(words[-2], words[-1]) for words in map(str.split, listed.stdout.splitlines())]
    return {name for kind, name in kinds if kind not in "Uw"}, {name for kind, name in kinds if kind in "Uw"}


def circle_of(calls: Calls) -> list[str]:
    """A circle of calls, a line for each of its files; empty if there is none."""
    try:
        TopologicalSorter(calls).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]  # it lists predecessors, which are those that are called
        return [f"{one} uses {', '.join(calls[one][other])} of {other}" for one, other in pairwise(circle)]
    return []
