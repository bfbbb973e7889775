"""Options that name a file or a folder: whether it can be read or written is checked before any work."""

import os
from pathlib import Path
from typing import Any

import typer

from fanin_tools.errors import UsageError


def output_file(*names: str, help: str, metavar: str = "FILE") -> Any:
    """A file that the command writes."""
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, callback=_check_file)


def output_folder(*names: str, help: str) -> Any:
    """A folder that the command writes into, and makes if it is missing."""
    return typer.Option(*names, metavar="FOLDER", help=help, show_default=False, callback=_check_folder)


def folder_to_read(help: str) -> Any:
    """A folder that the command reads. The default may be missing."""
    return typer.Option(metavar="FOLDER", help=help, callback=_check_present)


def _check_present(context: typer.Context, param: typer.CallbackParam, value: Path) -> Path:
    source = context.get_parameter_source(param.name or "")
    if source is not None and source.name != "DEFAULT" and not value.is_dir():
        raise UsageError(f"{param.opts[0]} {value} is not a folder", "name another one", "BAD_PATH")
    return value


def _check_file(param: typer.CallbackParam, value: Path | None) -> Path | None:
    if value is None:
        return None
    if value.is_dir():
        raise _refused(param, value, "it is a folder")
    if value.exists() and not os.access(value, os.W_OK):
        raise _refused(param, value, "it may not be written")
    if not value.exists():
        _require_folder(param, value, value.absolute().parent)
    return value


def _check_folder(param: typer.CallbackParam, value: Path | None) -> Path | None:
    if value is not None:
        present = next(each for each in (value.absolute(), *value.absolute().parents) if each.exists())
        _require_folder(param, value, present)
    return value


def _require_folder(param: typer.CallbackParam, value: Path, folder: Path) -> None:
    if not folder.exists():
        raise _refused(param, value, f"there is no folder {folder}")
    if not folder.is_dir():
        raise _refused(param, value, f"{folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(param, value, f"nothing can be made in {folder}")


def _refused(param: typer.CallbackParam, value: Path, cause: str) -> UsageError:
    option = max(param.opts, key=len)
    return UsageError(f"{option} {value} can not be written: {cause}", "name another one", "BAD_PATH")
