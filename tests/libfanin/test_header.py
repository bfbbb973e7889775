"""The public header: it stands alone, in C and C++, and the library exports what it declares and nothing else."""

import re
import shutil
import subprocess

import pytest

from tests.libfanin.conftest import PACKAGE

HEADER = PACKAGE / "include/fanin/fanin.h"


@pytest.mark.parametrize(("language", "standard"), [("c", "c11"), ("c++", "c++17")])
def test_header_stands_alone(language: str, standard: str) -> None:
    compiler = shutil.which("cc" if language == "c" else "c++")
    if compiler is None:
        pytest.skip(f"a compiler of {language}")
    line = [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([*line, f"-I{PACKAGE / 'include'}", "-"], input="#include <fanin/fanin.h>\n", text=True, check=True)


def test_library_exports_what_the_header_declares() -> None:
    declared = set(re.findall(r"\b(fanin_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)))
    if shutil.which("nm") is None:
        pytest.skip("nm")
    listed = subprocess.run(
        ["nm", "--dynamic", "--defined-only", PACKAGE / "libfanin.so"], capture_output=True, text=True, check=True
    )
    exported = {match[1]: match[2] for match in re.finditer(r" T (\w+)@@(\w+)", listed.stdout)}
    assert exported.keys() == declared
    assert set(exported.values()) == {"FANIN_1"}


@pytest.mark.parametrize("library", ["libfanin_mpi.so", "libfanin_verbs.so"])
def test_preloaded_libraries_show_nothing_of_the_driver(library: str) -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm")
    listed = subprocess.run(
        ["nm", "--dynamic", "--defined-only", PACKAGE / library], capture_output=True, text=True, check=True
    )
    assert not re.findall(r" T fanin_(?!verbs_)", listed.stdout)
