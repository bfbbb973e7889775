"""The kind of port for a device, and refusals before anything is opened."""

import contextlib
from typing import Any

import pytest

from fanin_nic.port.opening import open_ports
from fanin_nic.port.port import PortError
from fanin_nic.port.sockets import UdpPort
from fanin_wire.settings import DeviceSettings, InvalidSetting, convert


def settings(address: str, **changed: Any) -> DeviceSettings:
    values = {"name": "nic0", "address": address, "socket": "/nowhere"}
    return convert(values | changed, DeviceSettings)


def test_udp_is_what_nobody_asks_for(address: str) -> None:
    with contextlib.closing(open_ports(settings(address))[0]) as port:
        assert isinstance(port, UdpPort)
        assert port.mtu == 65535  # the most of all: that of the loopback interface is larger


def test_what_verbs_lack_is_named(address: str) -> None:
    with pytest.raises(PortError, match="2 lanes are not supported over verbs://rxe0; use lanes = 1"):
        open_ports(settings(address, port="verbs://rxe0", lanes=2))


@pytest.mark.parametrize(
    "port", ["", "tcp", "verbs://", "verbs://a b", "verbs:rxe0", "verbs-raw://mlx5_0", "verbs://mlx5_0?ud"]
)
def test_ports_that_there_are_not(port: str) -> None:
    with pytest.raises(InvalidSetting, match=r"use udp, or verbs:// .*, with \?raw for a RAW_PACKET queue pair"):
        settings("127.0.0.1", port=port)
