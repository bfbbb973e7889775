"""The rooms of the C code include and call downwards only, no files call each other in a circle, and the driver knows
neither Python nor MPI nor verbs."""

import re
from pathlib import Path

import pytest

from tests.libfanin.calls import HOST, calls_of, circle_of

# From the bottom up; "": tables and status.
CORE = ["", "rdma", "device", "memory", "job", "collectives", "communicator"]
OTHERS = ["binding", "mpi", "nccl_lib", "sharp_lib", "verbs_lib"]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
SOURCES = sorted((HOST / "core").rglob("*.[ch]"))


def room(path: str) -> str:
    """First folder of a path below the driver's."""
    return path.partition("/")[0] if "/" in path else ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(HOST).as_posix())
def test_driver_includes_downwards(path: Path) -> None:
    own = CORE.index(room(path.relative_to(HOST / "core").as_posix()))
    for included in INCLUDE.findall(path.read_text()):
        if included not in ("abi.h", "fanin.h", "ibv.h"):
            assert (HOST / "core" / included).exists(), included
            assert CORE.index(room(included)) <= own, f"{path.name} includes {included}, of a room above its own"


@pytest.mark.process
@pytest.mark.parametrize("library", ["core", *OTHERS])
def test_no_files_call_each_other_in_a_circle(library: str) -> None:
    assert circle_of(calls_of(library)) == []


@pytest.mark.process
def test_driver_calls_downwards() -> None:
    for source, others in calls_of("core").items():
        for other, symbols in others.items():
            assert CORE.index(room(other)) <= CORE.index(room(source)), f"{source} uses {symbols} of {other}"


def test_a_circle_is_found() -> None:
    calls = {"a.c": {"b.c": ["f", "g"]}, "b.c": {"c.c": ["h"]}, "c.c": {"b.c": ["i"]}}
    assert sorted(circle_of(calls)) == ["b.c uses h of c.c", "c.c uses i of b.c"]
    del calls["c.c"]["b.c"]
    assert circle_of(calls) == []


@pytest.mark.parametrize("folder", OTHERS)
def test_bindings_use_the_public_header_only(folder: str) -> None:
    for path in sorted((HOST / folder).rglob("*.[ch]")):
        for included in INCLUDE.findall(path.read_text()):
            beside = (path.parent / included).exists() or (HOST / folder / included).exists()
            assert beside or included in ("abi.h", "fanin.h", "ibv.h"), f"{path.name} includes {included}"


def test_lines_have_at_most_120_columns() -> None:
    others = [path for folder in OTHERS for path in (HOST / folder).rglob("*.[ch]")]
    sources = [*others, *SOURCES]
    texts = {path: path.read_text() for path in sources if path.name != "tables.c"}
    assert [
        f"{path.relative_to(HOST)}:{number}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > 120
    ] == []
