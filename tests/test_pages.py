"""All that the pages name exists: links, files, commands with their options, targets of make, modules, variables."""

import importlib.util
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from fanin_tools.cli.app import app

ROOT = Path(__file__).parents[1]
SPECIFICATION = ROOT / "protocol/fanin_wire/SPEC.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    SPECIFICATION,
    *sorted((ROOT / "docs").glob("*.md")),
]
RECORDS = sorted((ROOT / "docs").glob("*/*.md"))  # dated: links hold, files and commands may be gone
CODE = ("protocol", "device", "host", "tools")
FOLDERS = (*CODE, "fpga_cosim", "tests", "examples", "docs", ".ci")
ENDINGS = "py|c|h|f90|md|pml|toml|json|png|map"
# The user's, or another software's
FOREIGN = {
    "profile.toml",
    "fabric.toml",
    "rdma.toml",
    "fanin.json",
    "program.py",
    "cost.py",
    "cpu.json",
    "costs.json",
    "nic0.toml",
    "hosts.toml",
    "results.json",
    "results.md",
    "picture.png",
    "loss.png",
    "mpif.h",
    "infiniband/verbs.h",
    "rxe_comp.c",
    "rxe_req.c",
    "distributed_test.py",
}
REASONS = {  # why something is not offloaded: the page with its table, the file of the code
    "docs/mpi.md": ("host/fanin/mpi/report.h", r"^    X\((\w+), \""),
    "docs/collectives.md": ("host/fanin/collectives/offload.py", r"^    (\w+) = \"\1\""),
}
PROGRAM = "-- "  # what stands behind it belongs to another program


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_in(page: Path) -> list[str]:
    """All that a page writes as code: a piece of a line, or a line of a block."""
    text = page.read_text()
    blocks = "\n".join(re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S))
    indented = re.findall(r"^    (\S.*)", text, re.M)
    return [*re.findall(r"`([^`\n]+)`", text), *blocks.splitlines(), *indented]


@cache
def paths() -> frozenset[str]:
    """Every file and folder, by each end of its path."""
    found = [*ROOT.glob("*.md"), *(ROOT / part for part in FOLDERS)]
    found += [path for part in FOLDERS for path in (ROOT / part).rglob("*") if "__pycache__" not in path.parts]
    parts = [path.relative_to(ROOT).parts for path in found]
    return frozenset("/".join(each[start:]) for each in parts for start in range(len(each)))


def files_in(code: str) -> list[str]:
    """What can be nothing but files and folders of ours."""
    words = [word.strip(",;:()").rstrip("./") for word in code.split()]
    plain = [word for word in words if re.fullmatch(r"\.?\w[\w./-]*", word)]
    return [word for word in plain if word.partition("/")[0] in FOLDERS or re.search(rf"\w\.({ENDINGS})$", word)]


@pytest.mark.parametrize("page", [*PAGES, *RECORDS], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        if path.startswith("https:"):
            continue
        there = page.parent / path if path else page
        assert there.is_file(), f"{target}: the site has files, no folders"
        headings = re.findall(r"^#+ (.*)", there.read_text(), re.M) if heading else []
        assert not heading or heading in [title.lower().replace(" ", "-") for title in headings], target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_are_there(page: Path) -> None:
    named = {file for code in code_in(page) for file in files_in(code)}
    assert named - FOREIGN <= paths()


def test_every_record_is_listed() -> None:
    index = ROOT / "docs/decisions/README.md"
    listed = set(re.findall(r"\]\(([\w.-]+\.md)\)", index.read_text()))
    assert listed == {page.name for page in index.parent.glob("*.md")} - {index.name}


def test_records_that_code_cites_are_there() -> None:
    records = {path.name[:4] for path in (ROOT / "docs/decisions").glob("0*.md")}
    files = [
        path for part in FOLDERS for path in (ROOT / part).rglob("*") if path.suffix in {".py", ".c", ".h", ".v", ".vh"}
    ]
    told = [found for path in files for found in re.findall(r"[Rr]ecords? (\d{4}(?: and \d{4})*)\b", path.read_text())]
    cited = {number for found in told for number in found.split(" and ")}
    assert len(cited) > 40
    assert cited <= records


def test_every_page_is_listed() -> None:
    index = ROOT / "docs/index.md"
    listed = {(index.parent / target).resolve() for target in re.findall(r"\]\(([^)#]+)\)", index.read_text())}
    assert {page.resolve() for page in PAGES} - {index.resolve()} <= listed


def first_cells(text: str, title: str) -> list[str]:
    """Of the rows of all tables whose first column's title begins so."""
    tables = re.findall(rf"^\| {title}.*\n\|[- |]+\n((?:\|.*\n)+)", text, re.M)
    return [row.split("|")[1] for table in tables for row in table.splitlines()]


def test_architecture_names_existing_folders() -> None:
    """Every path of its tables. They stand there without marks, so that no other test takes them for code."""
    cells = first_cells((ROOT / "docs/architecture.md").read_text(), "path")
    named = {cell.strip() for cell in cells}
    assert len(named) > 35
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_tables_of_files_name_files() -> None:
    """They stand there without their endings."""
    cells = first_cells("\n".join(page.read_text() for page in PAGES), "file")
    named = {file for cell in cells for file in re.findall(r"`([\w.]+)`", cell)}
    assert len(named) > 5
    assert {file for file in named if not {file, f"{file}.py", f"{file}.c", f"{file}.h"} & paths()} == set()


@pytest.mark.parametrize("page", REASONS)
def test_reasons_are_those_of_the_code(page: str) -> None:
    source, pattern = REASONS[page]
    told = re.findall(r"[A-Z_]{2,}", " ".join(first_cells((ROOT / page).read_text(), "reason")))
    assert len(told) > 3
    assert set(told) == set(re.findall(pattern, (ROOT / source).read_text(), re.M))


def command_of(words: list[str]) -> Any:
    """The parser's object of the command that the words after `fanin` begin with."""
    found = typer.main.get_command(app)
    for word in words:
        commands = getattr(found, "commands", {})
        if not commands or word.startswith("-"):
            break
        assert word.strip(",;:") in commands, f"fanin {' '.join(words)}"
        found = commands[word.strip(",;:")]
    return found


def options_of(command: Any) -> set[str]:
    """Options as they are written, those of all its subcommands included."""
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return own.union({"--help"}, *(options_of(each) for each in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_their_options_are_there(page: Path) -> None:
    for line in code_in(page):
        for said in re.findall(r"(?:^|[ /(])fanin ((?:[a-z]|--)[^)|#]*)", line):
            words = said.partition(PROGRAM)[0].split()
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given <= options_of(command_of(words)), line


def test_options_stand_under_their_command() -> None:
    """Each section of the page on the command names options of its command, or of a subcommand."""
    for section in (ROOT / "docs/command-line.md").read_text().split("\n## fanin ")[1:]:
        command = section.splitlines()[0]
        assert set(re.findall(r"`(--[a-z][\w-]*)", section)) <= options_of(command_of(command.split())), command


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_targets_of_make_and_modules_are_there(page: Path) -> None:
    targets = re.findall(r"^([a-z\d-]+):", (ROOT / "Makefile").read_text(), re.M)
    for code in code_in(page):
        assert set(re.findall(r"^make ([a-z\d-]+)", code)) <= set(targets), code
        for module in re.findall(r"python -m ([\w.]+)", code):
            assert importlib.util.find_spec(module), code


def test_variables_are_read_somewhere() -> None:
    code = [path for part in CODE for path in (ROOT / part).rglob("*") if path.suffix in (".py", ".c", ".h")]
    known = set(re.findall(r"\bFANIN_[A-Z_]+\b", "".join(path.read_text() for path in code)))
    known |= set(re.findall(r"\bFANIN_[A-Z_]+\b", (ROOT / "deploy/image/fanin-start").read_text()))
    for path in (ROOT / "tests").rglob("*.py"):  # settings of the tests themselves
        known |= set(re.findall(r'environ\.get\("(FANIN_[A-Z_]+)"', path.read_text()))
    named = set(re.findall(r"\bFANIN_[A-Z_]+\b", "".join(page.read_text() for page in PAGES)))
    assert len(named) > 10
    assert named <= known


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
BARE = re.compile(rf"\binstall (?:-\S+ )*[\"']?fanin\b|(?<![\w/.-])fanin\[(?:{'|'.join(EXTRAS)})\b")
ENDS = {".md", ".toml", ".py", ".c", ".h", ".sh", ".yaml", ".yml", ".service", ".v", ""}


def test_nothing_is_installed_by_the_bare_name() -> None:
    """Nothing called `fanin` is published: whoever registers the name would get our users (fanin_wire.installation)."""
    places = [*(ROOT / folder for folder in (*FOLDERS, "deploy")), ROOT / ".github"]
    inner = [path for place in places for path in place.rglob("*") if "__pycache__" not in path.parts]
    files = [path for path in (*ROOT.glob("*"), *inner) if path.suffix in ENDS and path.is_file()]
    assert len(files) > 500
    assert BARE.search("pip install 'fanin[torch]'")
    assert BARE.search("python with fanin[test]")
    texts = ((path, path.read_text(errors="replace")) for path in files if path != Path(__file__))
    assert not [(name(path), found[0]) for path, text in texts for found in BARE.finditer(text)]
