"""The schema of settings: each error names the setting, the value, the cause and the remedy."""

from typing import Any

import pytest

from fanin_wire import abi, limits, settings
from fanin_wire.settings import DeviceSettings, InvalidSetting, JobSettings, convert, validate

GOOD = {"name": "nic0", "address": "127.77.0.1", "socket": "/tmp/nic0.sock"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 3}, "lanes: 3 is not a power of two; use for example 2"),
        ({"lanes": 32}, "lanes: 32 is out of range; use 1 to 16"),
        ({"lanes": "two"}, "lanes: 'two' is not a whole number; give a whole number"),
        ({"lanes": True}, "lanes: True is not a whole number; give a whole number"),
        ({"mtu": 1279}, "mtu: 1279 is out of range; use 1280 to 65535"),
        ({"slots": 1}, "slots: 1 is out of range; use 2 to 1048576"),
        ({"detection": 0.1}, "detection: 0.1 is out of range; use 0.2 to 3600.0"),
        ({"address": "nic0"}, "address: 'nic0' is not an IPv4 address; write four numbers, as in 127.77.0.1"),
        ({"address": ""}, "address: '' is not an IPv4 address; write four numbers, as in 127.77.0.1"),
        (
            {"address": "0.0.0.0"},
            "address: 0.0.0.0 stands for all addresses of a machine, and a device has one; write ",
        ),
        ({"address": "239.1.2.3"}, "address: 239.1.2.3 is not one machine's address; write four numbers"),
        ({"address": "255.255.255.255"}, "address: 255.255.255.255 is not one machine's address; write four numbers"),
        ({"address": "fd00::1"}, "address: 'fd00::1' is not an IPv4 address; write four numbers"),
        ({"group": "10.0.0.1"}, "group: 10.0.0.1 is not a multicast address; use one of 239.0.0.0/8"),
        ({"receive_buffer": 0}, "receive_buffer: 0 is out of range; use 1 or more"),
        ({"receive_buffer": "large"}, "receive_buffer: 'large' is not a whole number; give a whole number"),
        ({"colour": "red"}, "colour: unknown key; use name, address, socket, mtu"),
    ],
)
def test_wrong_device_setting_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        convert(GOOD | changes, DeviceSettings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("address", ["240.0.0.1", "255.255.255.254"])
def test_addresses_of_class_e_are_allowed(address: str) -> None:
    assert convert(GOOD | {"address": address}, DeviceSettings).address == address


def test_missing_setting_is_named() -> None:
    with pytest.raises(InvalidSetting, match="socket: missing; add socket"):
        convert({"name": "nic0", "address": "127.77.0.1"}, DeviceSettings)


def test_choice_that_is_not_known_is_answered_with_the_choices() -> None:
    with pytest.raises(InvalidSetting, match="reproducible: 'often' is not known; use one of none, run, shape"):
        convert({"reproducible": "often"}, JobSettings)


def test_numbers_may_be_text_where_a_command_line_gives_them() -> None:
    text = {"lanes": "4", "detection": "2.5", "mtu": "1500", "receive_buffer": "4096"}
    found = convert(GOOD | text, DeviceSettings, from_text=True)
    assert (found.lanes, found.detection, found.mtu, found.receive_buffer) == (4, 2.5, 1500, 4096)
    with pytest.raises(InvalidSetting, match="lanes: '4' is not a whole number"):
        convert(GOOD | text, DeviceSettings)


@pytest.mark.parametrize("slots", [0, 2, limits.MAX_JOB_SLOTS * 2])
def test_bounds_of_constructed_settings_are_checked_on_request(slots: int) -> None:
    with pytest.raises(InvalidSetting, match="slots"):
        validate(JobSettings(slots=slots))


def test_constructed_settings_are_never_without_the_checks_of_their_own() -> None:
    with pytest.raises(InvalidSetting, match="slots: 12 is not a power of two; use for example 256"):
        JobSettings(slots=12)
    assert validate(JobSettings()) == JobSettings()


def test_defaults_lie_within_their_bounds() -> None:
    assert convert(GOOD, DeviceSettings) == DeviceSettings(**GOOD)
    assert convert({}, JobSettings) == JobSettings()


def test_every_option_of_the_daemons_is_described() -> None:
    assert all(settings.description(field) for field in settings.fields(DeviceSettings).values())


def test_lanes_fit_the_bitmaps_of_the_host_interface() -> None:
    assert limits.MAX_LANES <= abi.MAX_CHILDREN
