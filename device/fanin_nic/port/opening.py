"""The ports of a device, of the kind in its settings."""

from collections.abc import Sequence

from fanin_nic.port.port import Port, PortError
from fanin_nic.port.sockets import interface_of, open_udp_ports
from fanin_nic.port.verbs.port import VerbsPort
from fanin_wire.limits import MAX_MTU, MIN_MTU
from fanin_wire.settings import RAW_SUFFIX, VERBS_PREFIX, DeviceSettings

ETHERNET_MTU = 1500  # if the kernel does not know the interface of the address


def open_ports(settings: DeviceSettings) -> Sequence[Port]:
    """A port for each lane. Raises PortError."""
    if settings.port.startswith(VERBS_PREFIX):
        return [_open_verbs(settings)]
    return open_udp_ports(
        settings.address, path_mtu(settings), settings.lanes, settings.receive_buffer, settings.parent_group or None
    )


def path_mtu(settings: DeviceSettings) -> int:
    """Bytes of a device's longest IP packet: as set, else as its interface carries. PortError if that is less."""
    found = interface_of(settings.address)
    if found is None:
        return settings.mtu or ETHERNET_MTU
    remedy = f"raise that of the interface (ip link set {found.name} mtu {settings.mtu or MIN_MTU})"
    if found.mtu < (settings.mtu or MIN_MTU):
        if found.mtu >= MIN_MTU:
            remedy = f"use --mtu {found.mtu}, or leave it out, or {remedy}"
        cause = f"network interface {found.name} of {settings.address} carries packets of {found.mtu} bytes"
        raise PortError(f"{cause}, MTU {settings.mtu or MIN_MTU} needs more; {remedy}")
    return settings.mtu or min(found.mtu, MAX_MTU)


def _open_verbs(settings: DeviceSettings) -> VerbsPort:
    """The port on a verbs device, which has one lane."""
    if settings.lanes > 1:
        raise PortError(f"{settings.lanes} lanes are not supported over {settings.port}; use lanes = 1")
    name, mark, _ = settings.port.removeprefix(VERBS_PREFIX).partition(RAW_SUFFIX)
    group = settings.parent_group or None
    return VerbsPort(name, settings.address, settings.mtu, settings.receive_buffer, group=group, raw=bool(mark))
