"""Descriptions of fabrics as TOML."""

import tomllib
from pathlib import Path

from fanin_tools.errors import UsageError
from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import DescriptionError, Device, Fabric, invalid_settings_of
from fanin_wire import settings


def read(path: Path) -> Fabric:
    """Raises UsageError NO_DESCRIPTION if the file can not be read, DescriptionError if the description is wrong."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DescriptionError(f"{path}: line {line}", "it is not UTF-8", "save the file as UTF-8") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a readable TOML file", name="NO_DESCRIPTION") from error


def parse(text: str, source: str) -> Fabric:
    """source: its file name, for messages."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DescriptionError(source, str(error), "correct the TOML there") from error
    with invalid_settings_of(source):
        fabric = settings.convert(table, Fabric)
    return check(fabric, source)


def render(fabric: Fabric) -> str:
    """As TOML, from which `parse` reads the same fabric."""
    scalars = ("name", "mtu", "netns", "lanes", "detection")
    lines = [_assignment(key, getattr(fabric, key)) for key in scalars]
    for device in fabric.devices:
        lines += ["", "[[device]]", *(_assignment(key, getattr(device, key)) for key in settings.fields(Device))]
    for link in fabric.links:
        ends = ", ".join(f'"{end}"' for end in link.ends)
        lines += ["", "[[link]]", f"ends = [{ends}]", _assignment("rate", link.rate)]
    return "\n".join(lines) + "\n"


def _assignment(key: str, value: str | float) -> str:
    # No name, address or rate holds a character that TOML escapes: check() refuses it.
    return f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {str(value).lower()}"
