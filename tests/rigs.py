"""Markers of the tests: what each test needs beyond the interpreter that it runs in.

| marker | means |
| --- | --- |
| unit | starts no process: a test that does so fails |
| process | starts processes: devices, ranks, compilers, the command `fanin` |
| netns | makes network namespaces, which needs root; process as well |
| mpi | runs programs of an MPI, which `make peers` or the system has; process as well |
| deep | searches many states, sizes or seeds, or waits long: 10 seconds and more |
| quick | belongs to `make test-quick` |

Every test is either unit or process. A mark in a file comes first, then the fixtures of the test, then the folder.
`tests/README.md` says which rules are held where.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

NEEDS = ("unit", "process", "netns", "mpi")
FIXTURES = {  # fixture -> what it needs
    "bench": "process",
    "compiler_says": "process",
    "device": "process",
    "fabrics": "process",
    "mpi": "mpi",
    "namespaces_allowed": "netns",
    "own_device": "process",
    "own_switch": "process",
    "running": "process",
    "state_root": "process",
    "summaries": "process",
}
PATHS = {  # folder or file -> what its tests need; all others are unit tests
    "tests/e2e/": "process",
    "tests/host/test_core.py": "process",
    "tests/host/test_driver.py": "process",
    "tests/host/test_misuse.py": "process",
    "tests/mpi/test_fortran.py": "mpi",
    "tests/mpi/test_hosts.py": "mpi",
}
DEEP = (  # folders and files
    "tests/e2e/test_matrix.py",
    "tests/e2e/test_rounds.py",
    "tests/mpi/test_leaks.py",
    "tests/mpi/test_mpi4py_suite.py",
    "tests/sim/test_models.py",
    "tests/sim/test_mutants.py",
)
QUICK_PROCESSES = ("tests/host/", "tests/docs/", "tests/fabric/", "tests/test_house.py")  # beside the unit tests
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}  # audit events

current: list[str] = []  # the unit test that runs, if one does


def pytest_configure(config: pytest.Config) -> None:
    for row in (__doc__ or "").splitlines():
        if row.startswith("| ") and not row.startswith(("| ---", "| marker")):
            name, meaning = (cell.strip() for cell in row.strip("| ").split(" | ", 1))
            config.addinivalue_line("markers", f"{name}: {meaning}")
    sys.addaudithook(refuse_processes)


def refuse_processes(event: str, arguments: tuple[object, ...]) -> None:
    """Audit hook: fails a unit test that starts a process."""
    if event in STARTS and current:
        test = current[0]
        raise AssertionError(f"{test} is marked unit and starts a process: {event} {arguments[:1]}; see tests/rigs.py")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Gives a test the markers that it lacks."""
    needs = needs_of(item)
    for name in needs - {mark.name for mark in item.iter_markers()}:
        item.add_marker(name)
    deep = item.get_closest_marker("deep") or item.nodeid.startswith(DEEP)
    if deep and not item.get_closest_marker("deep"):
        item.add_marker("deep")
    if not deep and (needs == {"unit"} or (needs == {"process"} and item.nodeid.startswith(QUICK_PROCESSES))):
        item.add_marker("quick")


def needs_of(item: pytest.Item) -> set[str]:
    """What a test needs, by its marks, its fixtures and its path."""
    said = {mark.name for mark in item.iter_markers()} & set(NEEDS)
    needs = said or {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    needs |= {need for path, need in PATHS.items() if item.nodeid.startswith(path)} if "unit" not in said else set()
    return needs | {"process"} if needs - {"unit"} else {"unit"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Says to the audit hook whether a unit test runs, with its fixtures."""
    if item.get_closest_marker("unit"):
        current.append(item.nodeid)
    try:
        return (yield)
    finally:
        current.clear()
