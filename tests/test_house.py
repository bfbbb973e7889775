"""The rules of the house: which package, layer and module may import which.

Record 0047 (docs/decisions) says why the layers are a table, and why no file has a cap on its lines.
"""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "fanin_wire": ROOT / "protocol/fanin_wire",
    "fanin_nic": ROOT / "device/fanin_nic",
    "fanin_sim": ROOT / "device/fanin_sim",
    "fanin": ROOT / "host/fanin",
    "fanin_torch": ROOT / "host/fanin_torch",
    "fanin_cluster": ROOT / "host/fanin_cluster",
    "fanin_train": ROOT / "host/fanin_train",
    "fanin_reference": ROOT / "tools/fanin_reference",
    "fanin_agent": ROOT / "tools/fanin_agent",
    "fanin_conform": ROOT / "tools/fanin_conform",
    "fanin_device_plugin": ROOT / "tools/fanin_device_plugin",
    "fanin_image": ROOT / "tools/fanin_image",
    "fanin_tools": ROOT / "tools/fanin_tools",
}
# The packages that each package may import. Host and device meet at the ABI only, as driver and firmware do.
ALLOWED = {
    "fanin_wire": set(),
    "fanin_nic": {"fanin_wire"},
    "fanin_sim": {"fanin_nic", "fanin_wire"},
    "fanin": {"fanin_wire"},
    "fanin_torch": {"fanin", "fanin_wire"},
    "fanin_cluster": {"fanin", "fanin_wire"},
    "fanin_train": {"fanin", "fanin_wire"},
    "fanin_reference": set(),
    "fanin_agent": {"fanin", "fanin_wire"},
    "fanin_conform": {"fanin_nic", "fanin_reference", "fanin_sim", "fanin_wire"},
    "fanin_device_plugin": {"fanin_cluster", "fanin_wire"},
    "fanin_image": {"fanin_nic", "fanin_wire"},
    "fanin_tools": {"fanin", "fanin_cluster", "fanin_conform", "fanin_nic", "fanin_sim", "fanin_train", "fanin_wire"},
}
# The layers of a package, from the lowest to the highest. A layer is a folder or a module of the package; a module
# belongs to the longest name that fits. A layer imports only layers below it. Every module must be in a layer.
LAYERS: dict[str, tuple[str, ...]] = {
    "fanin_nic": (
        "native",
        "engine.kernels",
        "engine.records",
        "engine.slots",
        "engine.output",
        "engine.jobs",
        "engine.segments",
        "engine.packets",
        "engine.requests",
        "engine.liveness",
        "engine",
        "transport.records",
        "transport.output",
        "transport.memory",
        "transport.queue_pairs",
        "transport.requester",
        "transport.responder",
        "transport.datagrams",
        "transport.parse",
        "transport",
        "port",
        "hostif",
        "daemon.splitter",
        "daemon.loop",
        "daemon.lanes",
        "daemon",
    ),
    "fanin_sim": (
        "jit",
        "findings",
        "campaign",
        "fabric",
        "jobs",
        "scenario",
        "model_check",
        "kernel",
        "fuzz",
        "rdma",
        "hostile",
    ),
    "fanin": (
        "errors",
        "timeouts",
        "driver",
        "preloaded",
        "memory",
        "verbs",
        "job",
        "membership",
        "collectives",
        "api",
        "mpi",
        "verbs_lib",
        "nccl_lib",
        "sharp_lib",
    ),
    "fanin_torch": (
        "errors",
        "counts",
        "elements",
        "work",
        "monitored",
        "registered_memory",
        "guard",
        "local_fabric",
        "device",
        "messages",
        "buckets",
        "call",
        "untraced",
        "process_group",
        "registration",
    ),
    "fanin_cluster": ("errors", "topology", "handoff", "placement"),
    "fanin_train": (
        "errors",
        "packing",
        "transfer",
        "staleness.messages",
        "staleness.inbox",
        "staleness.synchronisation",
        "staleness.node",
        "staleness.replica",
        "staleness.simulation",
        "staleness.streams",
        "staleness.trainer",
        "staleness.data_parallel",
        "staleness",
        "replacement.records",
        "replacement.choice",
        "replacement.simulation",
        "replacement.measurement",
        "replacement.recovery",
        "replacement",
    ),
    "fanin_reference": (
        "spec",
        "packets",
        "arithmetic",
        "times",
        "job",
        "device",
        "membership",
        "positions",
        "switch",
        "__main__",
    ),
    "fanin_agent": ("rank", "verbs", "session", "__main__"),
    "fanin_device_plugin": (
        "files",
        "kubelet_api",
        "settings",
        "claims",
        "grants",
        "inventory",
        "resource",
        "daemon",
        "__main__",
    ),
    "fanin_image": ("packages", "cross_compiler", "wheels", "oci", "content", "__main__"),
    "fanin_conform": (
        "values",
        "datagram",
        "profile",
        "agents.agent",
        "targets.transport",
        "agents",
        "targets",
        "capture",
        "faults",
        "nic_faults",
        "verbs.packets",
        "verbs_faults",
        "mutants",
        "listener",
        "fence",
        "tester",
        "verbs",
        "job",
        "below",
        "host",
        "laned",
        "script",
        "scripts",
        "suite",
        "conversation",
        "coverage",
        "report",
        "pytest_plugin",
    ),
    "fanin_tools": (
        "errors",
        "kernel_files",
        "quantities",
        "progress",
        "fabric",
        "tap",
        "launch",
        "hosts",
        "stress.tally",
        "stress.faults",
        "stress.fuzz",
        "stress.matrix",
        "stress.soak",
        "stress",
        "bench",
        "demo",
        "doctor",
        "cli",
    ),
}
# The modules of a package that modules outside of a folder may import from it.
ENTRIES: dict[str, tuple[str, ...]] = {
    "fanin_nic.engine": (
        "fanin_nic.engine.engine",
        "fanin_nic.engine.events",
        "fanin_nic.engine.function_addresses",  # code for another processor has these as well
        "fanin_nic.engine.records",
    ),
    "fanin_nic.transport": (
        "fanin_nic.transport.transport",
        "fanin_nic.transport.events",
        "fanin_nic.transport.records",
    ),
}
SOURCES = [path for package in PACKAGES.values() for path in sorted(package.rglob("*.py"))]
TESTS = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "fpga_cosim").rglob("*.py")])


def module_of(path: Path, package: str) -> str:
    """Dotted name of a file of a package."""
    parts = path.relative_to(PACKAGES[package].parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path, package): path for package in PACKAGES for path in sorted(PACKAGES[package].rglob("*.py"))}


def imported(path: Path, module: str) -> set[str]:
    """Dotted names that a file imports at any depth: of modules, and of what it takes from modules."""
    own = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = own[: len(own) - node.level + 1] if node.level else []
            origin += node.module.split(".") if node.module else []
            names |= {".".join([*origin, alias.name]) for alias in node.names}
    return names


def as_module(name: str) -> str | None:
    """The module of ours that an imported name is, or is taken from; None for others."""
    return name if name in MODULES else parent if (parent := name.rpartition(".")[0]) in MODULES else None


def is_within(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.")


def layer_of(module: str, package: str) -> int | None:
    """Number of the layer of a module; None if it is in none."""
    fitting = [layer for layer in LAYERS[package] if is_within(module, f"{package}.{layer}")]
    return LAYERS[package].index(max(fitting, key=len)) if fitting else None


def imported_modules(module: str) -> set[str]:
    """The modules of ours that a module imports."""
    return {found for name in imported(MODULES[module], module) if (found := as_module(name)) and found != module}


IMPORTS = {module: imported_modules(module) for module in MODULES}


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of the given modules that import each other (strongly connected components, Tarjan 1972)."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    modules = imports.keys()

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(imports[module] & modules):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            start = stack.index(module)
            group, stack[start:] = stack[start:], []
            if len(group) > 1:
                found.append(sorted(group))

    for module in imports:
        if module not in number:
            visit(module)
    return found


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package: str) -> None:
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files
    for path in files:
        packages = {found.partition(".")[0] for found in imported(path, module_of(path, package))}
        ours = packages & PACKAGES.keys() - {package}
        assert ours <= ALLOWED[package], f"{name(path)} imports {sorted(ours - ALLOWED[package])}"


@pytest.mark.parametrize("package", LAYERS)
def test_a_layer_imports_only_those_below_it(package: str) -> None:
    for layer in LAYERS[package]:
        assert any(is_within(module, f"{package}.{layer}") for module in MODULES), f"there is no layer {layer}"
    wrong = []
    for module in MODULES:
        if module == package or not is_within(module, package):
            continue
        layer = layer_of(module, package)
        assert layer is not None, f"{module} is in no layer"
        for other in sorted(IMPORTS[module]):
            if other != package and is_within(other, package):
                below = layer_of(other, package)
                if below is None or below > layer:
                    wrong.append(f"{module} imports {other}")
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_import_each_other(package: str) -> None:
    assert circles({module: IMPORTS[module] for module in MODULES if is_within(module, package)}) == []


@pytest.mark.parametrize("folder", ENTRIES)
def test_a_folder_is_entered_at_its_top(folder: str) -> None:
    """By the other layers of its package; tests and tools may look inside."""
    package = folder.partition(".")[0]
    for module, others in IMPORTS.items():
        if is_within(module, package) and not is_within(module, folder):
            inside = [other for other in others if is_within(other, folder) and other != folder]
            assert all(any(is_within(other, entry) for entry in ENTRIES[folder]) for other in inside), (module, inside)


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=name)
def test_file_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "no docstring"


@pytest.mark.process
def test_nothing_built_is_checked_in() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("a git checkout")
    built = [line for line in listed.stdout.splitlines() if line.endswith((".so", ".o", ".pyc", ".egg-info"))]
    assert built == []


def test_hosted_checks_name_targets_and_scripts() -> None:
    targets = set(re.findall(r"^([a-z\d-]+):", (ROOT / "Makefile").read_text(), re.M))
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    commands = re.findall(r"^ *run: (.*)", workflow, re.M)
    assert {"make wheel", "make docs", ".ci/run", ".ci/oldest"} <= set(commands)
    for command in commands:
        program, *arguments = command.split()
        if program == "make":
            assert set(arguments) <= targets
        elif program.startswith("."):
            assert os.access(ROOT / program, os.X_OK)
