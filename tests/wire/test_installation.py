"""Remedies that install name the source: nothing called `fanin` is published."""

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path

import pytest

from fanin_wire import installation

ROOT = Path(__file__).parents[2]


class Recorded(metadata.Distribution):
    """A distribution that pip has recorded as installed from `url`."""

    def __init__(self, url: str) -> None:
        self.url, self.real = url, metadata.distribution("fanin")

    def read_text(self, filename: str) -> str | None:
        return json.dumps({"url": self.url}) if filename == "direct_url.json" else self.real.read_text(filename)

    def locate_file(self, path: object) -> Path:
        return Path("/")


def installed_from(monkeypatch: pytest.MonkeyPatch, source: Path) -> str:
    """The arguments of pip for the extra `plot` after an installation from this file or folder."""
    monkeypatch.setattr(installation, "CHECKOUT", Path("/no/checkout"))
    recorded = Recorded(source.as_uri())
    monkeypatch.setattr(metadata, "distribution", lambda name: recorded)
    return installation.install_command("plot").removeprefix(f"{sys.executable} -m pip install ")


def test_checkout_is_named() -> None:
    assert installation.install_command("plot") == f"{sys.executable} -m pip install -e '{ROOT}[plot]'"
    assert installation.install_command() == f"{sys.executable} -m pip install -e {ROOT}"
    assert installation.make_command("peers") == f"make -C {ROOT} peers"


def test_wheel_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "the wheels" / "fanin-0.1.0-cp311-abi3-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    assert shlex.split(installed_from(monkeypatch, wheel)) == [f"{wheel}[plot]"]
    assert installation.make_command("peers") == "make peers, in a checkout"


def test_packages_are_named_where_the_wheel_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert installed_from(monkeypatch, tmp_path / "gone.whl") == "'matplotlib<4,>=3.8'"
    assert "PATH" in installation.install_command()
