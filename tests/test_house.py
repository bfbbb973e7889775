"""The rules of the house: which package may import which, how long a file may be, what it may be called."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "fanin_wire": ROOT / "protocol/fanin_wire",
    "fanin_nic": ROOT / "device/fanin_nic",
    "fanin": ROOT / "host/fanin",
    "fanin_tools": ROOT / "tools/fanin_tools",
}
# Who may import whom. Host and device meet at the ABI only, as driver and firmware do.
ALLOWED = {
    "fanin_wire": set(),
    "fanin_nic": {"fanin_wire"},
    "fanin": {"fanin_wire"},
    "fanin_tools": {"fanin", "fanin_nic", "fanin_wire"},
}
# The folders and modules of a package from the bottom up. Each may import only what stands before it.
LAYERS = {
    "fanin_tools": ["errors", "quantities", "fabric", "launch", "stress", "bench", "demo", "doctor", "cli"],
    "fanin_tools.stress": ["tally", "faults", "fuzz", "matrix", "soak"],
}
FORBIDDEN_STEMS = {"util", "utils", "helper", "helpers", "manager", "misc", "common", "data2"}
LONGEST_FILE = 450  # lines
SOURCES = [path for package in PACKAGES.values() for path in sorted(package.rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def imported_packages(path: Path) -> set[str]:
    """First names of everything that a file imports, at any depth of it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_run_one_way(package: str) -> None:
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files
    for path in files:
        ours = imported_packages(path) & PACKAGES.keys() - {package}
        assert ours <= ALLOWED[package], f"{name(path)} imports {sorted(ours - ALLOWED[package])}"


def folder_of(package: str) -> Path:
    first, *rest = package.split(".")
    return PACKAGES[first].joinpath(*rest)


def imported_modules(path: Path) -> set[str]:
    """Dotted names of everything that a file imports, at any depth of it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("package", LAYERS)
def test_every_folder_and_module_is_in_a_layer(package: str) -> None:
    folder = folder_of(package)
    present = {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert present - {"__init__", "__pycache__"} == set(LAYERS[package])


@pytest.mark.parametrize("package", LAYERS)
def test_layers_import_downwards(package: str) -> None:
    folder, layers = folder_of(package), LAYERS[package]
    for number, layer in enumerate(layers):
        above = {f"{package}.{other}" for other in layers[number + 1 :]}
        files = [folder / f"{layer}.py"] if (folder / f"{layer}.py").exists() else (folder / layer).rglob("*.py")
        for path in files:
            imported = {".".join(each.split(".")[: package.count(".") + 2]) for each in imported_modules(path)}
            assert not imported & above, f"{name(path)} imports {sorted(imported & above)}, which stand above it"


@pytest.mark.parametrize("path", [*SOURCES, *TESTS], ids=name)
def test_file_says_what_it_is_and_stays_short(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE, "one role per file: split it"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_file_is_named_after_its_role(path: Path) -> None:
    assert not {path.stem, path.parent.name} & FORBIDDEN_STEMS


def test_nothing_built_is_checked_in() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("a git checkout")
    built = [line for line in listed.stdout.splitlines() if line.endswith((".so", ".o", ".pyc", ".egg-info"))]
    assert built == []
