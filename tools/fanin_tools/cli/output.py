"""Output for the user: results on standard output, progress and errors on error output."""

import errno
import functools
import json
import math
import os
import select
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

import typer

from fanin_tools import kernel_files
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress

P = ParamSpec("P")
R = TypeVar("R")
TRACEBACK_VARIABLE = "FANIN_TRACEBACK"
INTERRUPTED = 130  # 128 + SIGINT, as a shell gives it
WRONG = "bold red"
NO_READER = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM
STREAMS = STANDARD_OUTPUT, ERROR_OUTPUT = 1, 2
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WITH_PROGRAM = ("fanin run", "fanin bench program")  # the commands with a program behind --
# The base of the parser's errors: versions of typer use click's parser, or a copy of it.
NO_COMMAND = "NoArgsIsHelpError"  # its message is the help, which some versions print themselves
ParserError: Any = typer.BadParameter.__mro__[1]


def print_json(value: Any) -> None:
    """Dataclasses become objects of their fields."""
    print(json.dumps(value, indent=2, default=asdict))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, wrong: str = "") -> None:
    """Cells are aligned to the right. wrong: a column whose cells are red unless "0"."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # cells are plain text: no markup, and no emoji in 0000:ab:00.0

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(Text(column), justify="right")
    for row in rows:
        styles = [WRONG if column == wrong and cell != "0" else "" for column, cell in zip(columns, row, strict=True)]
        table.add_row(*map(Text, row, styles))
    Console().print(table)


def print_wrong(text: str) -> None:
    """The first line is red on a terminal."""
    from rich.console import Console
    from rich.text import Text

    head, _, rest = text.lstrip("\n").partition("\n")
    print(end="\n" * (len(text) - len(text.lstrip("\n"))))
    Console(soft_wrap=True).print(Text(head, WRONG))
    print(rest)


def reporting(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate a subcommand: an error becomes one line (with --json also an object) and an exit code."""

    @functools.wraps(command)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            _require_numbers(options)
            return command(*arguments, **options)
        except ToolError as error:
            failure = error
        except KeyboardInterrupt:
            failure = _interrupted("Ctrl-C", INTERRUPTED)
        except SystemExit as error:
            if error.code != TERMINATED:  # rich's code for a reader that is gone
                raise typer.Exit(ends_without_reader()) from None
            failure = _interrupted("SIGTERM", TERMINATED)
        except Exception as error:
            if reader_is_gone():
                raise typer.Exit(ends_without_reader()) from None
            if isinstance(error, typer.Exit) or os.environ.get(TRACEBACK_VARIABLE):
                raise
            failure = _unforeseen(error)
        raise typer.Exit(report(failure, as_json=bool(options.get("json_output"))))

    return wrapped


def _require_numbers(given: dict[str, Any]) -> None:
    """Refuse NaN, which passes every comparison with an option's bounds."""
    for name, value in given.items():
        if isinstance(value, float) and math.isnan(value):
            raise UsageError(f"--{name.replace('_', '-')} {value} is not a number", "write one, as in 0.5")


def reader_is_gone() -> bool:
    """Whether standard or error output is a pipe without a reader, as after `| head`."""
    watched = select.poll()
    for descriptor in STREAMS:
        watched.register(descriptor, select.POLLOUT)
    return any(event & select.POLLERR for _, event in watched.poll(0))


def ends_without_reader() -> int:
    """Discard further output. Returns the exit code of a program that SIGPIPE ends."""
    _discard(*STREAMS)
    return NO_READER


def _discard(*descriptors: int) -> None:
    with open(os.devnull, "wb") as nowhere:
        for descriptor in descriptors:
            os.dup2(nowhere.fileno(), descriptor)


def report(failure: ToolError, as_json: bool) -> int:
    """Report a failure to the user, and return the exit code."""
    if as_json:
        print_json({"error": failure.as_dict()})
    print_progress(f"fanin: {failure}")
    return failure.exit_code


def obeying(application: Callable[[], int | None]) -> int:
    """Run the whole command and return its exit code. Errors of the parser are reported as all others."""
    try:
        code = application() or 0
        print(end="", flush=True)
        return code
    except OSError as error:  # of the output: subcommands report all others
        if reader_is_gone():
            return ends_without_reader()
        _discard(STANDARD_OUTPUT)  # else the interpreter retries, and prints an error
        return report(_unforeseen(error), as_json=False)
    except ToolError as error:
        return report(error, as_json=asks_for_json(sys.argv[1:]))
    except typer.Abort:
        return report(_interrupted("Ctrl-C", INTERRUPTED), as_json=asks_for_json(sys.argv[1:]))
    except ParserError as error:
        if type(error).__name__ == NO_COMMAND:
            print(error.format_message().strip(), file=sys.stderr)
            return UsageError.EXIT_CODE
        cause = " ".join(error.format_message().split()).rstrip(".")
        command = error.ctx.command_path if error.ctx else "fanin"
        remedy = f"see {command} --help"
        if command in WITH_PROGRAM and "--" not in sys.argv:
            remedy = f"put -- before the program, whose own options follow it: {command} -n 2 -- PROGRAM; {remedy}"
        return report(UsageError(cause, remedy), as_json=asks_for_json(sys.argv[1:]))


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` is for this command. Arguments after `--` belong to a program."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in ours


def _interrupted(by: str, exit_code: int) -> ToolError:
    """Of a signal. The devices that the command had brought up are down by then."""
    cause = f"{by} ended this command and all processes that it had started"
    return ToolError("INTERRUPTED", cause, "devices that were up before stay up: fanin fabric status", exit_code)


def _unforeseen(error: Exception) -> ToolError:
    """An exception that no subcommand expects is a defect, except two that any import of compiled code may raise: no
    place to keep it, and kernel files that are hidden."""
    from fanin_nic.native.cache import CacheUnavailable

    if isinstance(error, CacheUnavailable):
        return ToolError("COMPILATION_FAILED", error.cause, error.remedy)
    if isinstance(error, OSError) and (failure := kernel_files.missing(error)):
        return failure
    if isinstance(error, OSError) and error.errno in FULL:
        cause = f"{error.filename or 'the output'} can not be written: {error.strerror}"
        return ToolError("BAD_PATH", cause, "make room there, or write to another place")
    cause = f"{type(error).__name__}: {error}"
    return ToolError("INTERNAL_ERROR", cause, f"report this defect with the output under {TRACEBACK_VARIABLE}=1")
