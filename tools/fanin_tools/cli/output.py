"""Output for the user: results on the standard output, progress and errors on the error output."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import typer

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress

P = ParamSpec("P")
R = TypeVar("R")
TRACEBACK_VARIABLE = "FANIN_TRACEBACK"
INTERRUPTED = 130  # 128 + SIGINT, as a shell gives it
TERMINATED = 143  # 128 + SIGTERM
WITH_PROGRAM = ("fanin run", "fanin bench program")  # the commands with a program behind --
# The base of all errors of the parser. Some versions of typer use the parser of click, others a copy of it.
ParserError: Any = typer.BadParameter.__mro__[1]


def print_json(value: Any) -> None:
    """Print a result for programs. Dataclasses become objects of their fields."""
    print(json.dumps(value, indent=2, default=asdict))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a result for people, with cells aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # a cell is what it says: no markup, and no emoji in 0000:ab:00.0

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(Text(column), justify="right")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def reporting(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate a subcommand: an error becomes one line (with --json also an object) and an exit code."""

    @functools.wraps(command)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return command(*arguments, **options)
        except ToolError as error:
            failure = error
        except KeyboardInterrupt:
            failure = _interrupted("Ctrl-C", INTERRUPTED)
        except SystemExit:
            failure = _interrupted("SIGTERM", TERMINATED)
        except Exception as error:
            if isinstance(error, typer.Exit) or os.environ.get(TRACEBACK_VARIABLE):
                raise
            failure = _unforeseen(error)
        raise typer.Exit(report(failure, as_json=bool(options.get("json_output"))))

    return wrapped


def report(failure: ToolError, as_json: bool) -> int:
    """Report a failure to the user and return the exit code."""
    if as_json:
        print_json({"error": failure.as_dict()})
    print_progress(f"fanin: {failure}")
    return failure.exit_code


def obeying(application: Callable[[], int | None]) -> int:
    """Run the whole command and return its exit code. Errors of the parser are reported as all other errors."""
    try:
        return application() or 0
    except typer.Abort:
        return report(_interrupted("Ctrl-C", INTERRUPTED), as_json=asks_for_json(sys.argv[1:]))
    except ParserError as error:
        cause = " ".join(error.format_message().split()).rstrip(".")
        if not cause:  # without a command the parser has shown the help
            return UsageError.EXIT_CODE
        command = error.ctx.command_path if error.ctx else "fanin"
        remedy = f"see {command} --help"
        if command in WITH_PROGRAM and "--" not in sys.argv:
            remedy = f"put -- before the program, whose own options follow it: {command} -n 2 -- PROGRAM; {remedy}"
        return report(UsageError(cause, remedy), as_json=asks_for_json(sys.argv[1:]))


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is an argument of this command. Arguments after `--` belong to a program."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _interrupted(by: str, exit_code: int) -> ToolError:
    """The error for a signal. The devices that the command had brought up are down when it is reported."""
    cause = f"{by} has ended this command and all processes that it had started"
    return ToolError("INTERRUPTED", cause, "devices that were up before stay up: fanin fabric status", exit_code)


def _unforeseen(error: Exception) -> ToolError:
    """The error for an exception that no subcommand expects: it is a defect of this command, unless compiled code can
    be kept nowhere, which any import of such code may find."""
    from fanin_nic.native.cache import CacheUnavailable

    if isinstance(error, CacheUnavailable):
        return ToolError("COMPILATION_FAILED", error.cause, error.remedy)
    cause = f"{type(error).__name__}: {error}"
    return ToolError("INTERNAL_ERROR", cause, f"report this defect with the output under {TRACEBACK_VARIABLE}=1")
