"""Libraries broken on purpose: a test that finds nothing wrong with them is none."""

import subprocess
from pathlib import Path

from tests.mpi.conftest import ROOT

HOST = ROOT / "host/fanin"
FOLDERS = (HOST / "mpi", HOST / "core")
FLAGS = ("-std=c11", "-O1", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")


def build_broken(folder: Path, name: str, line: str, old: str, new: str) -> Path:
    """The shim with one change: in the file `name` below host/fanin, the single `line` has `new` instead of `old`."""
    changed = HOST / name
    text = changed.read_text()
    assert text.count(line) == 1
    copy = folder / changed.name
    copy.write_text(text.replace(line, line.replace(old, new)))
    sources = [path for root in FOLDERS for path in root.rglob("*.c") if path != changed]
    includes = [f"-I{path}" for path in (*FOLDERS, ROOT / "protocol/fanin_wire")]
    library = folder / "broken.so"
    link = [f"-Wl,--version-script={HOST / 'mpi/exports.map'}", "-ldl", "-o", library]
    subprocess.run(["cc", *FLAGS, *includes, *sources, copy, *link], check=True)
    return library
