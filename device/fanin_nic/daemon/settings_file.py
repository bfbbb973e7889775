"""The settings of a device in a file: TOML with the fields of DeviceSettings, as a service's /etc/fanin/NAME.toml."""

import tomllib
from pathlib import Path
from typing import Any

from fanin_wire.settings import DeviceSettings, InvalidSetting, convert, fields

REMEDY = "see docs/deployment.md for an example"


def read(path: Path) -> dict[str, Any]:
    """The settings of a file, with types and bounds checked; required ones may be missing. Raises InvalidSetting, whose
    `place` has the file: it can not be read, is not TOML, or a setting is wrong."""
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidSetting(str(path), error.strerror or str(error), REMEDY) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(str(path), f"not TOML: {error}", REMEDY) from None
    stand_in = {name: _stand_in(name) for name, field in fields(DeviceSettings).items() if field.required}
    try:
        convert(stand_in | values, DeviceSettings)
    except InvalidSetting as error:
        raise InvalidSetting(f"{path}: {error.place}", error.cause, error.remedy) from None
    return values


def _stand_in(name: str) -> str:
    """A value for a required setting, which the command line may give."""
    return "127.0.0.1" if name == "address" else "0"
