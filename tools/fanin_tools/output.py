"""How results, progress and errors reach the user: results on the output, everything else on the error output."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer

from fanin_tools.errors import ToolError

P = ParamSpec("P")
R = TypeVar("R")
TRACEBACK_VARIABLE = "FANIN_TRACEBACK"
INTERRUPTED = 130  # 128 + SIGINT, as a shell gives it


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """A result for programs."""
    print(json.dumps(value, indent=2))


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
        if options.get("json_output"):
            print_json({"error": failure.as_dict()})
        say(f"fanin: {failure}")
        raise typer.Exit(failure.exit_code)

    return wrapped


def _defect(error: Exception) -> ToolError:
    """An exception that nobody foresaw is a defect of this command, not of its user."""
    cause = f"{type(error).__name__}: {error}"
    return ToolError("INTERNAL_ERROR", cause, f"report this defect with the output under {TRACEBACK_VARIABLE}=1")
