"""Every option with a number or a path refuses a wrong one before any work, in every command."""

import inspect
import os
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from fanin_tools.cli import options, output
from fanin_tools.cli.app import app
from fanin_tools.errors import UsageError
from fanin_tools.fabric import lifecycle
from fanin_wire import abi

FILLERS = {list[str]: "true", str: "0,1", Path: __file__}  # of required parameters
BIG = "9" * 30
SOCKETS = {"socket"}  # of a device, which is queried: not a file


class Parameter(NamedTuple):
    """A parameter of a command, as typer gets it."""

    command: tuple[str, ...]
    name: str
    kind: Any
    info: Any
    default: Any

    @property
    def words(self) -> list[str]:
        """The command and the option, to be followed by a value."""
        if isinstance(self.info, typer.models.ArgumentInfo):
            return [*self.command]
        named = [each for each in self.info.param_decls or () if each.startswith("--")]
        return [*self.command, named[0] if named else f"--{self.name.replace('_', '-')}"]

    @property
    def of(self) -> set[Any]:
        """The types of its values."""
        inner = {self.kind, *typing.get_args(self.kind)}
        return inner | {part for each in inner for part in typing.get_args(each)}


def commands(group: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    if group.registered_callback and group.registered_callback.callback:
        yield path, group.registered_callback.callback
    for each in group.registered_commands:
        assert each.callback
        yield (*path, each.name or each.callback.__name__.replace("_", "-")), each.callback
    for inner in group.registered_groups:
        assert inner.typer_instance
        yield from commands(inner.typer_instance, (*path, str(inner.name)))


def parameters() -> Iterator[Parameter]:
    for path, function in commands(app):
        hints = typing.get_type_hints(function, include_extras=True)
        for name, parameter in inspect.signature(function).parameters.items():
            found = hints.get(name, parameter.annotation)
            if hasattr(parameter.annotation, "__metadata__"):  # of an option of a fabric
                found = parameter.annotation
            if hasattr(found, "__metadata__"):
                yield Parameter(path, name, found.__origin__, found.__metadata__[0], parameter.default)


COMMAND: Any = typer.main.get_command(app)
ALL = list(parameters())
NUMBERS = [each for each in ALL if each.of & {int, float}]
PATHS = [each for each in ALL if Path in each.of and each.name not in SOCKETS]


def named(parameter: Parameter) -> str:
    return "-".join((*parameter.command, parameter.name))


def others(parameter: Parameter) -> list[str]:
    """Other words that the command requires."""
    words: list[str] = []
    for each in ALL:
        required = each.command == parameter.command and each.default is inspect.Parameter.empty
        if required and each.name != parameter.name:
            arguments = each.words[len(each.command) :]
            words += [
                *arguments,
                next(value for kind, value in FILLERS.items() if kind in each.of or kind == each.kind),
            ]
    return words


@pytest.fixture(autouse=True)
def nothing_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command that gets as far as devices, ranks or a long computation fails the test."""
    if request.node.get_closest_marker("process"):
        return

    def started(*_: object, **__: object) -> None:
        raise AssertionError("work has begun")

    monkeypatch.chdir(tmp_path)
    for place in ("fanin_tools.fabric.lifecycle.up", "fanin_tools.fabric.lease.leased", "subprocess.Popen"):
        monkeypatch.setattr(place, started)
    monkeypatch.setattr(lifecycle, "find", lambda name: None)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command as `fanin` does. Returns its error if it ends as wrong usage."""

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fanin", *words])
        code = output.obeying(lambda: COMMAND.main(list(words), prog_name="fanin", standalone_mode=False))
        said = capsys.readouterr().err
        assert code == UsageError.EXIT_CODE, f"{code}: {said}"
        return said

    return run


def test_the_walk_finds_the_options() -> None:
    assert len(NUMBERS) > 60
    assert len(PATHS) > 20
    assert options.MAX_CHILDREN == abi.MAX_CHILDREN


@pytest.mark.parametrize("parameter", NUMBERS, ids=named)
def test_number_out_of_range_is_refused(parameter: Parameter, refused: Callable[..., str]) -> None:
    """Each has bounds on both sides. NaN compares with neither."""
    assert parameter.info.min is not None
    assert parameter.info.max is not None
    for value in ("-1", BIG, *(("nan", "inf", "-inf") if float in parameter.of else ())):
        assert parameter.words[-1] in refused(*parameter.words, value, *others(parameter))


@pytest.mark.parametrize("parameter", PATHS, ids=named)
def test_path_that_can_not_be_used_is_refused(parameter: Parameter, refused: Callable[..., str]) -> None:
    assert "/dev/null/file" in refused(*parameter.words, "/dev/null/file", *others(parameter))


@pytest.mark.parametrize("parameter", [each for each in PATHS if each.info.callback], ids=named)
def test_file_where_a_folder_is_and_the_reverse(
    parameter: Parameter, tmp_path: Path, refused: Callable[..., str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    wrong = tmp_path / ("folder" if parameter.info.metavar == "FILE" else "file")
    assert "BAD_PATH" in refused(*parameter.words, str(wrong), *others(parameter))


@pytest.mark.process
def test_reader_that_is_gone_ends_a_command_in_silence() -> None:
    """As in `fanin sim --trace | head`, and `fanin doctor | true`, whose table rich writes."""
    for words in (["sim", "--trace", "--seed", "4711"], ["doctor"], ["fabric", "status", "--json"]):
        reader, writer = os.pipe()
        os.close(reader)
        code = "from fanin_tools.cli.app import main; main()"
        done = subprocess.run([sys.executable, "-c", code, *words], stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        assert done.returncode == output.NO_READER, done.stderr
        assert "fanin: " not in done.stderr


@pytest.mark.process
def test_full_disk_has_a_name() -> None:
    code = "from fanin_tools.cli.app import main; main()"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code, "doctor"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("fanin: BAD_PATH: the output can not be written: No space left on device; ")
    assert "Exception ignored" not in done.stderr
