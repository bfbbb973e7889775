"""The settings of a device in a file, and its errors."""

from pathlib import Path

import pytest

from fanin_nic.daemon import main
from fanin_wire.settings import InvalidSetting

pytestmark = pytest.mark.unit


def parse(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> main.DeviceSettings:
    monkeypatch.setattr("sys.argv", ["fanin-nic", *map(str, arguments)])
    return main._parse("nic")[0]


def test_file_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "nic0.toml"
    path.write_text('address = "127.0.0.9"\nslots = 64\nlanes = 2\n')
    found = parse(monkeypatch, "--settings", path, "--name", "nic0", "--socket", "/run/x", "--slots", 128)
    assert (found.address, found.slots, found.lanes) == ("127.0.0.9", 128, 2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("slots = 63", "slots: 63 is not a power of two"),
        ('slots = "64"', "slots: '64' is not a whole number"),
        ("lane = 2", "lane: unknown key"),
        ("slots = ", "not TOML"),
        ('address = "here"', "address: 'here' is not an IPv4 address"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "nic0.toml"
    path.write_text(text)
    with pytest.raises(InvalidSetting) as found:
        main.read_settings(path)
    assert str(found.value).startswith(f"{path}: {complaint}")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="No such file or directory; see docs"):
        main.read_settings(tmp_path / "nobody.toml")


def test_what_neither_gives_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nic0.toml"
    path.write_text("slots = 64\n")
    with pytest.raises(SystemExit) as end:
        parse(monkeypatch, "--settings", path, "--name", "nic0", "--socket", "/run/x")
    assert end.value.code == 2
    assert f"address: missing; give --address, or add it to {path}" in capsys.readouterr().err
