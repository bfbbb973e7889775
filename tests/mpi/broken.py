"""Libraries that were broken on purpose: a test that finds nothing wrong with one is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.mpi.conftest import ROOT

FOLDER = ROOT / "host/fanin/mpi"
FLAGS = ("-std=c11", "-O1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")


def build_broken(folder: Path, name: str, line: str, old: str, new: str) -> Path:
    """The shim with one change: `old` is `new` in the only `line` of its source `name` that reads so."""
    text = (FOLDER / name).read_text()
    assert text.count(line) == 1
    (folder / name).write_text(text.replace(line, line.replace(old, new)))
    sources = [path for path in FOLDER.glob("*.c") if path.name != name] + [folder / name]
    sources += (ROOT / "host/fanin/core").glob("*.c")
    includes = [f"-I{ROOT / path}" for path in ("host/fanin/mpi", "host/fanin/core", "protocol/fanin_wire")]
    library = folder / "broken.so"
    link = [f"-Wl,--version-script={FOLDER / 'exports.map'}", "-ldl", "-o", library]
    subprocess.run(["cc", *FLAGS, *includes, *sources, *link], check=True)
    return library
