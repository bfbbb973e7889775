"""The ports of a device, of the kind that its settings name."""

from __future__ import annotations

from collections.abc import Sequence

from fanin_nic.port.port import Port, PortError
from fanin_nic.port.sockets import open_udp_ports
from fanin_nic.port.verbs.port import VerbsPort
from fanin_wire.settings import RAW_SUFFIX, VERBS_PREFIX, DeviceSettings


def open_ports(settings: DeviceSettings) -> Sequence[Port]:
    """A port for each lane. Raises PortError."""
    if settings.port.startswith(VERBS_PREFIX):
        return [_open_verbs(settings)]
    return open_udp_ports(
        settings.address, settings.mtu, settings.lanes, settings.receive_buffer, settings.parent_group or None
    )


def _open_verbs(settings: DeviceSettings) -> VerbsPort:
    """The port on a verbs device. It has one lane."""
    if settings.lanes > 1:
        raise PortError(f"{settings.lanes} lanes are not there over {settings.port}; use lanes = 1")
    name, mark, _ = settings.port.removeprefix(VERBS_PREFIX).partition(RAW_SUFFIX)
    group = settings.parent_group or None
    return VerbsPort(name, settings.address, settings.mtu, settings.receive_buffer, group=group, raw=bool(mark))
