"""Every code block of the pages is run, compiled or parsed, or says in its title why it is not."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.fabric import description_file
from tests.docs.blocks import LANGUAGES, NOT_RUN, PAGES, ROOT, Block, blocks_of, indented_blocks, name
from tests.fabric.fixtures import own_state_folder

BOUND_S = 300  # the code of the devices may have to be compiled
RANKS = 3
PROGRAM = "program.py"
SEPARATOR = "==== end of a command ===="
HEADERS = [ROOT / "host/fanin/include"]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=name)
Folder = Path


def of(page: Path, language: str) -> list[Block]:
    """The blocks of a page in a language, but those that are not run."""
    return [block for block in blocks_of(page) if block.language == language and not block.reason]


@pytest.mark.unit
@EVERY_PAGE
def test_every_block_has_a_language(page: Path) -> None:
    assert indented_blocks(page) == []
    assert page.read_text().count("\n```") <= 2 * len(blocks_of(page)), "a fence that this test does not understand"
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"line {block.line}: choose one of {', '.join(LANGUAGES)}"


@pytest.mark.unit
@EVERY_PAGE
def test_reason_for_not_running_a_block_is_right(page: Path) -> None:
    for block in blocks_of(page):
        if block.reason:
            assert block.language in ("sh", "console", "c"), f"line {block.line}: this language needs no reason"
            assert block.reason in NOT_RUN, f"line {block.line}: choose one of {', '.join(NOT_RUN)}"
            assert re.search(NOT_RUN[block.reason], block.text), f"line {block.line}: nothing in it {block.reason}"


def environment(state: Path) -> dict[str, str]:
    """Of the blocks: the commands of this interpreter's environment come first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "XDG_RUNTIME_DIR": str(state.parent), "COLUMNS": "120"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """Where the blocks of a page are run: with .venv and the examples, and a state folder of its own for fabrics."""
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch) as state:
        (tmp_path / "state").symlink_to(state)
        yield tmp_path


def run(folder: Folder, *command: str) -> str:
    """What a command prints; it must succeed."""
    settings = environment((folder / "state").readlink())
    ended = subprocess.run(
        command, cwd=folder, env=settings, timeout=BOUND_S, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def run_shell(folder: Folder, script: str) -> str:
    return run(folder, "bash", "-euo", "pipefail", "-c", script)


def programs() -> list[object]:
    """Parameters: the pages with blocks of Python, or blocks of the shell that are run."""
    return [
        pytest.param(page, id=name(page))
        for page in PAGES
        if any(block.language in ("python", "sh", "console") and not block.reason for block in blocks_of(page))
    ]


@pytest.mark.parametrize("page", programs())
def test_program_and_commands_of_a_page_run(page: Path, folder: Folder) -> None:
    """The program runs by the commands of the page if they name it, else as ranks or by itself."""
    blocks = [block for block in blocks_of(page) if not block.reason]
    program = "\n".join(block.text for block in blocks if block.language == "python")
    (folder / PROGRAM).write_text(program)
    commands = [block for block in blocks if block.language in ("sh", "console")]
    for block in commands:
        run_commands(folder, block)
    if program and not any(PROGRAM in block.text for block in commands):
        ranks = ["fanin", "run", "-n", str(RANKS), "--"] if "fanin.Communicator(" in program else []
        run(folder, *ranks, sys.executable, PROGRAM)


def run_commands(folder: Folder, block: Block) -> None:
    """Run a block of the shell. Of one with output, compare what each command prints."""
    if block.language == "sh":
        run_shell(folder, block.text)
        return
    assert block.text.startswith("$ "), f"line {block.line}: a block of the console begins with a command"
    first, *others = re.split(r"^\$ ", block.text, flags=re.M)
    assert not first
    parts = [part.partition("\n") for part in others]
    printed = run_shell(folder, f"\necho '{SEPARATOR}'\n".join(command for command, _, _ in parts))
    for (command, _, expected), shown in zip(parts, printed.split(f"{SEPARATOR}\n"), strict=True):
        pattern = re.escape(expected.rstrip()).replace(re.escape("..."), ".*")
        assert not expected.strip() or re.fullmatch(pattern, shown.rstrip(), re.S), f"{command} prints\n{shown}"


@EVERY_PAGE
def test_commands_that_are_not_run_are_commands(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "sh" and block.reason:
            subprocess.run(["bash", "-n", "-c", block.text], check=True)


@pytest.mark.unit
@EVERY_PAGE
def test_tables_can_be_read(page: Path, tmp_path: Path) -> None:
    """Blocks of TOML and JSON. A description of a fabric is one."""
    for block in of(page, "json"):
        json.loads(block.text)
    for block in of(page, "toml"):
        assert tomllib.loads(block.text)
        if "[[device]]" in block.text:
            (tmp_path / "page.toml").write_text(block.text)
            assert description_file.read(tmp_path / "page.toml").devices


@EVERY_PAGE
def test_c_compiles(page: Path, tmp_path: Path) -> None:
    blocks = of(page, "c")
    if blocks and shutil.which("cc") is None:
        pytest.skip("no C compiler is installed (cc)")
    folders = [f"-I{folder}" for folder in HEADERS]
    for block in blocks:
        source = tmp_path / f"line{block.line}.c"
        source.write_text(block.text)
        flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        ended = subprocess.run(["cc", *flags, *folders, str(source)], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
