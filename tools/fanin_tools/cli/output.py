"""How results, progress and errors reach the user: results on the output, everything else on the error output."""

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

P = ParamSpec("P")
R = TypeVar("R")
TRACEBACK_VARIABLE = "FANIN_TRACEBACK"
INTERRUPTED = 130  # 128 + SIGINT, as a shell gives it
# What the parser raises. typer has its parser from click or carries it along, by version; the base is the same.
ParserError: Any = typer.BadParameter.__mro__[1]


def print_progress(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """A result for programs. Dataclasses are objects of their fields."""
    print(json.dumps(value, indent=2, default=asdict))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A result for people: numbers with their units, aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def reporting(command: Callable[P, R]) -> Callable[P, R]:
    """Decorator of every subcommand: errors become one line (with --json: an object) and an exit code."""

    @functools.wraps(command)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return command(*arguments, **options)
        except ToolError as error:
            failure = error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if isinstance(error, typer.Exit) or os.environ.get(TRACEBACK_VARIABLE):
                raise
            failure = _defect(error)
        raise typer.Exit(report(failure, as_json=bool(options.get("json_output"))))

    return wrapped


def report(failure: ToolError, as_json: bool) -> int:
    """Tell the user of a failure; the exit code."""
    if as_json:
        print_json({"error": failure.as_dict()})
    print_progress(f"fanin: {failure}")
    return failure.exit_code


def obeying(application: Callable[[], int | None]) -> int:
    """Run the whole command; its exit code. What the parser does not take is reported as every other error is."""
    try:
        return application() or 0
    except typer.Abort:
        return INTERRUPTED
    except ParserError as error:
        cause = " ".join(error.format_message().split()).rstrip(".")
        if not cause:  # called without a command: the parser has shown the help
            return UsageError.EXIT_CODE
        command = error.ctx.command_path if error.ctx else "fanin"
        return report(UsageError(cause, f"see {command} --help"), as_json=asks_for_json(sys.argv[1:]))


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is among the arguments of this command; behind `--` they are those of a program."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _defect(error: Exception) -> ToolError:
    """An exception that nobody foresaw is a defect of this command, not of its user."""
    cause = f"{type(error).__name__}: {error}"
    return ToolError("INTERNAL_ERROR", cause, f"report this defect with the output under {TRACEBACK_VARIABLE}=1")
