"""Targets by name, as on the command line."""

import ipaddress
import os
from pathlib import Path

from fanin_conform.agents.remote import ENDPOINT
from fanin_conform.targets.target import Target
from fanin_conform.targets.udp import UdpTarget

PREFIX, NIC_PREFIX = "udp://", "nic://"
ENGINE, ENGINE_NIC, RTL = "engine", "engine-nic", "rtl"


class TargetInvalid(ValueError):
    """A target that can not be opened; `remedy` says what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy


def open_target(
    name: str, local: str, count: int, group: str = "", agent: str = "", number: int = 0, wave: Path | None = None
) -> Target:
    """Open "engine", "engine-nic", "rtl", "udp://ADDRESS" or "nic://ADDRESS".

    Args:
        local: first address of the tester; "": an unlikely one of the loopback network.
        count: addresses of the tester, from `local` on.
        group: the multicast address at which the device sends results to all its children; "" if none.
        agent: of a NIC: HOST:PORT, or a command.
        number: of several targets of this process at one device on the loopback network, each with other addresses.
        wave: of "rtl": a file for the waveform of all signals.

    Raises TargetInvalid for an unknown target, an unusable address, or no waveform; AgentError if no agent answers.
    """
    if wave is not None and name != RTL:
        raise TargetInvalid(f"{name!r} has no waveform", f"leave --wave out, or use --target {RTL}")
    if name in (ENGINE, ENGINE_NIC):
        from fanin_conform.targets.engine import EngineNicTarget, EngineTarget  # loads the compiled engine

        return EngineNicTarget(count) if name == ENGINE_NIC else EngineTarget(count)
    if name == RTL:
        from fanin_conform.targets.rtl import RtlMissing, open_rtl

        try:
            return open_rtl(count, wave)
        except RtlMissing as lacking:
            raise TargetInvalid(str(lacking), lacking.remedy) from None
        except OSError as error:
            raise TargetInvalid(f"{wave}: {error.strerror}", "give a file that can be written (--wave)") from None
    if not name.startswith((PREFIX, NIC_PREFIX)):
        names = f"{ENGINE}, {ENGINE_NIC}, {RTL}, or {PREFIX} or {NIC_PREFIX}"
        raise TargetInvalid(f"{name!r} is not a target", f"use {names} and the address of a device")
    if name.startswith(NIC_PREFIX) and not agent:
        raise TargetInvalid("a NIC needs an agent", "give --agent HOST:PORT or --agent COMMAND (docs/conformance.md)")
    try:
        address = ipaddress.IPv4Address(name.removeprefix(PREFIX).removeprefix(NIC_PREFIX))
        first = ipaddress.IPv4Address(local) if local else _loopback(address) + number * count
        if group and not ipaddress.IPv4Address(group).is_multicast:
            cause = f"{group} is not a multicast address"
            raise TargetInvalid(cause, "use one from 224.0.0.0 to 239.255.255.255 (--group)")
        opened = UdpTarget(str(address), str(first), count, group)
        if name.startswith(NIC_PREFIX):
            opened.connect(agent)
        return opened
    except TargetInvalid:
        raise
    except ValueError as error:
        raise TargetInvalid(str(error), "write four numbers, as in 192.0.2.1") from None
    except OSError as error:
        raise TargetInvalid(f"{error}", "give addresses of this host whose UDP port 4791 is free (--local)") from None


def is_nic(name: str) -> bool:
    """Whether a target of this name is a NIC."""
    return name == ENGINE_NIC or name.startswith(NIC_PREFIX)


def opens_several(name: str, local: str, agent: str = "") -> bool:
    """Whether a device can be opened several times: with implicit addresses, and an agent that is a command, since an
    agent at a port serves one suite after the other."""
    if local or not name.startswith((PREFIX, NIC_PREFIX)) or ENDPOINT.fullmatch(agent):
        return False
    try:
        return ipaddress.IPv4Address(name.removeprefix(PREFIX).removeprefix(NIC_PREFIX)).is_loopback
    except ValueError:
        return False


def _loopback(address: ipaddress.IPv4Address) -> ipaddress.IPv4Address:
    if not address.is_loopback:
        raise TargetInvalid(f"{address} is not on this host", "give the first address of the tester (--local)")
    number = os.getpid()
    return ipaddress.IPv4Address(f"127.{200 + (number >> 8) % 32}.{number % 256}.1")
