"""The driver core and the extension as C: no warnings, and exactly the header's exports."""

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from fanin import _binding
from fanin.driver import HEADER_PATH, LIBRARY_PATH, library
from fanin_wire.abi import HEADER_PATH as ABI_PATH

DECLARED = sorted(set(re.findall(r"\b(fanin_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER_PATH.read_text(), flags=re.S))))


def test_declared_functions_are_there():
    assert len(DECLARED) > 15
    for name in DECLARED:
        assert hasattr(library(), name)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm (binutils)")
def test_nothing_else_is_exported():
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(LIBRARY_PATH)], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1].partition("@")[0] for line in listing.splitlines()}
    assert sorted(name for name in names if not name.startswith("FANIN_")) == DECLARED  # versions apart


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("standard", ["c11", "gnu17"])
def test_sources_compile_without_a_warning(standard, tmp_path):
    core = HEADER_PATH.parent
    sources = sorted(str(path) for path in core.rglob("*.c"))
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    command = ["cc", f"-std={standard}", "-O2", *warnings, f"-I{ABI_PATH.parent}", f"-I{core}"]
    command += ["-fPIC", "-shared", "-pthread"]
    result = subprocess.run(
        [*command, *sources, "-o", str(tmp_path / "core.so")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_extension_compiles_without_a_warning(tmp_path):
    """Against the limited API, with the headers of this interpreter and of numpy."""
    binding = HEADER_PATH.parents[1] / "binding"
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
    includes = [f"-I{folder}" for folder in (HEADER_PATH.parent, ABI_PATH.parent, sysconfig.get_path("include"))]
    includes += ["-isystem", np.get_include()]
    result = subprocess.run(
        ["cc", "-std=c11", "-O2", *warnings, *includes, "-fsyntax-only", *map(str, binding.glob("*.c"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm (binutils)")
def test_extension_shares_the_library():
    """It has no driver core of its own: `fanin.verbs` and communicators use one."""
    path = str(Path(_binding.__file__))
    listing = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    names = [line.split() for line in listing.splitlines()]
    assert ["U", "fanin_call"] in [[kind, name.partition("@")[0]] for *_, kind, name in names]
    loaded = Path("/proc/self/maps").read_text()
    assert len({line.split()[-1] for line in loaded.splitlines() if line.endswith("libfanin.so")}) == 1
