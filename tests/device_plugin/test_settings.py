"""The settings of the device plugin: wrong ones are refused by name."""

from pathlib import Path

import pytest

from fanin_cluster.placement.classes import Affinity
from fanin_device_plugin.settings import Settings, SettingsInvalid, read_settings


def test_settings(tmp_path: Path) -> None:
    path = tmp_path / "device-plugin.toml"
    path.write_text('affinity = "switch"\nsubnets = {mlx5_0 = "10.1.0.0/24"}\naddresses = {mlx5_0 = "10.1.0.16"}\n')
    found = read_settings(path)
    assert (found.affinity, found.addresses) == (Affinity.SWITCH, {"mlx5_0": "10.1.0.16"})
    assert read_settings(None) == Settings()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("subnets = 3", r"Expected `object`, got `int` - at `\$.subnets`"),
        ("subnet = {}", "unknown field `subnet`"),
        ('affinity = "near"', "affinity"),
        ('domain = "Not a name"', "is no DNS name"),
        ('addresses = {mlx5_0 = "10.1.0.16"}', "addresses has mlx5_0, subnets has not"),
        ("period = 0", r"at `\$.period`"),
        ("=", "device-plugin.toml"),
    ],
)
def test_wrong_settings(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "device-plugin.toml"
    path.write_text(text)
    with pytest.raises(SettingsInvalid, match=cause):
        read_settings(path)
    with pytest.raises(SettingsInvalid, match="can not be read: No such file"):
        read_settings(tmp_path / "none.toml")
