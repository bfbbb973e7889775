"""Folders of the verbs library include and call downwards only."""

import re
from pathlib import Path

import pytest

from tests.libfanin.calls import calls_of

LIBRARY = Path(__file__).parents[2] / "host/fanin/verbs_lib"
# From the bottom up
LAYERS = [
    *("abi", "events", "registry", "objects", "errors", "inheritance", "device", "memory", "completions"),
    *("collectives", "queue_pairs", "refusals", "context"),
]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
SOURCES = sorted(LIBRARY.rglob("*.[ch]"))


def layer(path: str) -> int:
    """Of a file of the library, by its folder or its name."""
    return LAYERS.index(path.partition("/")[0].partition(".")[0])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_library_includes_downwards(path: Path) -> None:
    name = path.relative_to(LIBRARY).as_posix()
    for included in INCLUDE.findall(path.read_text()):
        if (LIBRARY / included).exists():
            assert layer(included) <= layer(name), f"{name} includes {included}, of a layer above its own"


@pytest.mark.process
def test_library_calls_downwards() -> None:
    for source, others in calls_of("verbs_lib").items():
        for other, symbols in others.items():
            assert layer(other) <= layer(source), f"{source} uses {symbols} of {other}"
