"""How results, progress and errors reach the user: results on the output, everything else on the error output."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import typer

from fanin_tools.errors import ToolError

P = ParamSpec("P")
R = TypeVar("R")
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
            if options.get("json_output"):
                print_json({"error": error.as_dict()})
            say(f"fanin: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return wrapped
