"""How Fanin came onto this machine, for remedies that install more of it. Nothing called `fanin` is published, so they
name the checkout or the wheel of this installation."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

CHECKOUT = Path(__file__).parents[2]  # where the package lies if it is editable


def is_editable() -> bool:
    return (CHECKOUT / "pyproject.toml").is_file()


def install_command(extra: str = "") -> str:
    """The command that installs Fanin again into this environment, with `extra` of pyproject.toml.

    It names the checkout, folder or wheel of this installation; if that is gone or unknown to pip, the packages of
    `extra`.
    """
    pip = f"{sys.executable} -m pip install"
    wanted = f"[{extra}]" if extra else ""
    if is_editable():
        return f"{pip} -e {shlex.quote(f'{CHECKOUT}{wanted}')}"
    if source := _source():
        return f"{pip} {shlex.quote(f'{source}{wanted}')}"
    if not extra:
        return f"{pip} PATH, with the path of a checkout or a wheel"
    return f"{pip} {shlex.join(_requirements(extra))}"


def make_command(target: str) -> str:
    """How to run a target of the Makefile, which only a checkout has."""
    return f"make -C {shlex.quote(str(CHECKOUT))} {target}" if is_editable() else f"make {target}, in a checkout"


def _source() -> Path | None:
    """The folder or wheel that pip installed (PEP 610), if it still exists."""
    try:
        origin = json.loads(metadata.distribution("fanin").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return None
    url = urlparse(origin.get("url", ""))
    path = Path(unquote(url.path))
    return path if url.scheme == "file" and path.exists() else None


def _requirements(extra: str) -> list[str]:
    """The packages of an extra, as in pyproject.toml."""
    asked = (text.partition(";") for text in metadata.requires("fanin") or ())
    return [package.strip() for package, _, marker in asked if extra in shlex.split(marker)]
