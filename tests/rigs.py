"""Markers of the tests: what each test needs beyond the interpreter that it runs in.

Every test is either `unit` or `process`. It has the markers that its file gives it, and those that follow from its
fixtures and its path. `tests/README.md` says which rules are held where.
"""

import sys
from collections.abc import Iterator

import pytest

MARKERS = {
    "unit": "starts no process; a test that does so fails",
    "process": "starts processes: devices, ranks, compilers, the command fanin",
    "netns": "makes network namespaces, which needs root; has the marker process as well",
    "mpi": "runs programs of an MPI, of `make peers` or of the system; has the marker process as well",
    "deep": "searches many states, sizes or seeds, or waits long: 10 seconds and more",
    "quick": "belongs to `make test-quick`",
}
NEEDS = ("unit", "process", "netns", "mpi")
TOGETHER, WAITING, ALONE, LONG = PARTS = ("together", "waiting", "alone", "long")  # of a whole run: `.ci/tests`
WAITING_PATHS = {  # folder or file -> why its tests with processes share the cores with nothing but each other
    "tests/e2e/test_dead_devices.py": "deaths, by their deadlines",
    "tests/e2e/test_dead_ranks.py": "deaths, by their deadlines",
    "tests/e2e/test_deadlines.py": "time-outs",
    "tests/e2e/test_faults.py": "deaths and hangs, by their deadlines",
    "tests/e2e/test_lost_device.py": "deaths, by their deadlines",
    "tests/e2e/test_rdma_host.py": "deaths and hangs, by their deadlines",
    "tests/e2e/test_rounds.py": "deaths and hangs, by their deadlines",
    "tests/e2e/test_shrink.py": "deaths, by their deadlines",
    "tests/host/test_failures.py": "deaths and hangs, by their deadlines",
    "tests/libfanin/test_stopped_device.py": "deaths and hangs, by their deadlines",
    "tests/training/replacement/": "deaths, by their deadlines",
}
ALONE_PATHS = {  # folder or file -> why its tests with processes have the machine for themselves
    "tests/bench/test_parts.py": "it measures",
    "tests/bench/test_peers.py": "ranks that never sleep",
    "tests/e2e/test_accounting.py": "it counts every packet, also those sent again by a deadline",
    "tests/e2e/test_footprint.py": "it measures processor time",
    "tests/lanes/": "several busy threads in each device",
    "tests/mpi/": "the ranks of an MPI never sleep",
    "tests/nccl_lib/": "four processes that never sleep",
    "tests/robustness/test_devices.py": "jobs beside a flood of packets",
    "tests/sharp_lib/": "four processes that never sleep",
    "tests/tools/test_end_to_end.py": "it looks for processes that are left behind",
    "tests/tools/test_killed_soak.py": "it looks for processes that are left behind",
}
SEARCH = "tests/sim/model_check/test_explorer.py::test_nothing_bad_can_happen"
LONG_TESTS = {  # how the names of tests begin that take minutes -> what of them the other parts have
    "tests/docs/test_change_a_rule.py": "every other block of the pages",
    "tests/mpi/test_mpi4py_suite.py::test_collectives[openmpi-2-ring": "that suite by other ways",
    "tests/mpi/test_thresholds.py::test_tune_measures_and_keeps[openmpi": "the same with MPICH",
    f"{SEARCH}[a short broadcast over levels]": "short broadcasts below one switch",
    f"{SEARCH}[a short broadcast, mixed tree]": "short broadcasts below one switch",
    f"{SEARCH}[mixed tree]": "a tree, a chain of switches",
    f"{SEARCH}[short broadcasts in a chain]": "short broadcasts below one switch",
    f"{SEARCH}[tree, window 2]": "a tree",
    "tests/sim/mutation/test_mutants.py::test_fault_is_caught": "each fault can be built into the engine",
    "tests/sim/mutation/test_mutants.py::test_sound_engine_passes": "the checks, of the engine as it is",
}
FIXTURES = {  # fixture -> what it needs
    "bench": "process",
    "compiler_says": "process",
    "device": "process",
    "fabrics": "process",
    "guest": "process",
    "mpi": "mpi",
    "namespaces_allowed": "netns",
    "own_device": "process",
    "own_switch": "process",
    "running": "process",
    "state_root": "process",
}
PATHS = {  # folder or file -> what its tests need; all others are unit tests
    "tests/bench/test_comparison.py": "process",
    "tests/dissector/test_dissector.py": "process",
    "tests/docs/": "process",
    "tests/e2e/": "process",
    "tests/host/test_core.py": "process",
    "tests/hosts/": "process",
    "tests/host/test_driver.py": "process",
    "tests/host/test_misuse.py": "process",
    "tests/libfanin/test_header.py": "process",
    "tests/libfanin/test_programs.py": "process",
    "tests/mpi/test_fortran.py": "mpi",
    "tests/mpi/test_hosts.py": "mpi",
    "tests/rdma/daemon/": "netns",
    "tests/sim/fuzz/test_campaign.py": "process",
    "tests/verbs_lib/": "process",
}
DEEP = (
    "tests/host/test_failures.py::test_device_that_hangs",
    "tests/mpi/test_leaks.py",
    "tests/mpi/test_mpi4py_suite.py",
)
QUICK_PROCESSES = ("tests/docs/", "tests/fabric/", "tests/host/", "tests/test_house.py")  # quick beside the unit tests
NOT_QUICK = ("tests/sim/",)  # unit tests that are left out; a mark `quick` takes a file in again
STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}  # audit events

current: list[str] = []  # the unit test that runs, if one does


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=PARTS, help="of the selected tests, those of one part of a whole run: .ci/tests")


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
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
    deep = item.get_closest_marker("deep") is not None or item.nodeid.startswith(DEEP)
    belongs = needs | ({"deep"} if deep else {"quick"} if is_quick(item, needs) else set())
    for marker in sorted(belongs - {mark.name for mark in item.iter_markers()}):
        item.add_marker(marker)
    if item.config.pluginmanager.hasplugin("xdist"):
        item.add_marker(pytest.mark.xdist_group(group_of(item)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of the other part."""
    part = config.getoption("--part")
    if part is None:
        return
    others = [item for item in items if part_of(item) != part]
    items[:] = [item for item in items if part_of(item) == part]
    config.hook.pytest_deselected(items=others)


def part_of(item: pytest.Item) -> str:
    """The part of a whole run to which a test belongs."""
    if item.nodeid.startswith(tuple(LONG_TESTS)):
        return LONG
    if item.get_closest_marker("unit"):
        return TOGETHER
    for part, paths in ((WAITING, WAITING_PATHS), (ALONE, ALONE_PATHS)):
        if item.nodeid.startswith(tuple(paths)):
            return part
    return TOGETHER


def group_of(item: pytest.Item) -> str:
    """The tests that run one after the other, in one process of pytest-xdist."""
    if (part := part_of(item)) == ALONE:
        return ALONE
    file = item.nodeid.partition("::")[0]
    if part == WAITING:
        return file
    if item.get_closest_marker("unit") or file.startswith("tests/sim/"):
        return file
    return "/".join(file.split("/")[:2])  # a folder, because its rig may take the default port of some program


def needs_of(item: pytest.Item) -> set[str]:
    """What a test needs, by its marks, its fixtures and its path."""
    needs = {mark.name for mark in item.iter_markers()} & set(NEEDS)
    if "unit" in needs:
        return needs
    needs |= {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    needs |= {need for path, need in PATHS.items() if item.nodeid.startswith(path)}
    return needs | {"process"} if needs else {"unit"}


def is_quick(item: pytest.Item, needs: set[str]) -> bool:
    """Whether a test that is not deep belongs to `make test-quick`."""
    if needs == {"unit"}:
        return not item.nodeid.startswith(NOT_QUICK)
    return needs == {"process"} and item.nodeid.startswith(QUICK_PROCESSES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Says to the audit hook whether a unit test runs, with its fixtures."""
    if item.get_closest_marker("unit"):
        current.append(item.nodeid)
    try:
        return (yield)
    finally:
        current.clear()
