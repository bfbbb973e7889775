"""Folders of the MPI shim include and call downwards only."""

import re
from pathlib import Path

import pytest

from tests.libfanin.calls import calls_of

SHIM = Path(__file__).parents[2] / "host/fanin/mpi"
# From the bottom up
LAYERS = ["abi", "report", "presence", "thresholds", "settings", "comm", "calls", "requests", "tune", "init", "entry"]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
SOURCES = sorted(SHIM.rglob("*.[ch]"))


def layer(path: str) -> int:
    """Of a file of the shim, by its folder or its name."""
    return LAYERS.index(path.partition("/")[0].partition(".")[0])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(SHIM).as_posix())
def test_shim_includes_downwards(path: Path) -> None:
    name = path.relative_to(SHIM).as_posix()
    for included in INCLUDE.findall(path.read_text()):
        if (SHIM / included).exists():
            assert layer(included) <= layer(name), f"{name} includes {included}, of a layer above its own"


@pytest.mark.process
def test_shim_calls_downwards() -> None:
    for source, others in calls_of("mpi").items():
        for other, symbols in others.items():
            assert layer(other) <= layer(source), f"{source} uses {symbols} of {other}"
