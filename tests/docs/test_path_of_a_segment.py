"""The table of docs/architecture.md leads through the code of one segment without a gap: no function is missing in it.

Each function stands in the file of its row, and is named by a function in its row or above it. Entries are called by
others: the program, the main program of a device, a table of addresses.
"""

import ast
import re
from functools import cache
from typing import NamedTuple

import pytest

from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/architecture.md"
HEAD = "| source | functions | what they do |"
FOLDERS = ("host/fanin", "device/fanin_nic")
ENTRIES = {"collective", "run", "float_kernels", "advance_segment"}
C_FUNCTION = re.compile(r"^(?!#)[A-Za-z][\w\s*]*?\**(\w+)\([^;{]*\)\s*\{", re.M)

pytestmark = pytest.mark.unit


class Row(NamedTuple):
    """A row of the table: a file, by the end of its path, and functions in it."""

    file: str
    functions: list[str]


def rows() -> list[Row]:
    table = PAGE.read_text().split(HEAD)[1].split("\n\n")[0]
    cells = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    return [Row(file.strip(), re.findall(r"`(\w+)`", functions)) for file, functions in cells if "/" in file]


def functions_of_c(text: str) -> dict[str, set[str]]:
    """The words in the body of each function."""
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    begun = [*C_FUNCTION.finditer(code)]
    ends = [*(match.start() for match in begun[1:]), len(code)]
    return {match[1]: set(re.findall(r"\w+", code[match.end() : end])) for match, end in zip(begun, ends, strict=True)}


def functions_of_python(text: str) -> dict[str, set[str]]:
    """The names in the body of each function."""
    return {
        node.name: {name for each in node.body for name in re.findall(r"\w+", ast.unparse(each))}
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }


@cache
def functions_in(file: str) -> dict[str, set[str]]:
    (path,) = (path for folder in FOLDERS for path in (ROOT / folder).rglob(file))
    return functions_of_c(path.read_text()) if file.endswith(".c") else functions_of_python(path.read_text())


def test_every_function_stands_in_its_file() -> None:
    table = rows()
    assert len({row.file for row in table}) <= 22  # the length of the path: more files need a reason
    assert len(table) > 30
    for row in table:
        assert row.functions, row.file
        assert set(row.functions) <= set(functions_in(row.file)), row.file


def test_every_function_is_called_by_one_above_it() -> None:
    named: set[str] = set(ENTRIES)
    for row in rows():
        bodies = functions_in(row.file)
        for function in row.functions:
            named |= bodies[function] - {function}
        assert set(row.functions) <= named, row.file
