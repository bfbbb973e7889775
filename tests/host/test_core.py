"""The driver core as C: it compiles without a warning, and exports what its header declares, no more."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

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
    assert sorted(line.split()[-1] for line in listing.splitlines()) == sorted(
        [*DECLARED, "fanin_look_into", "fanin_repeatable"]
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("standard", ["c11", "gnu17"])
def test_sources_compile_without_a_warning(standard, tmp_path):
    sources = sorted(str(path) for path in HEADER_PATH.parent.glob("*.c"))
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    command = ["cc", f"-std={standard}", "-O2", *warnings, f"-I{ABI_PATH.parent}", "-fPIC", "-shared", "-pthread"]
    result = subprocess.run(
        [*command, *sources, "-o", str(tmp_path / "core.so")], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
