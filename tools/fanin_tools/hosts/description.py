"""The file that names a set of hosts: their NICs, and the switches above them."""

import secrets
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from fanin.errors import InvalidRequest
from fanin.job import Job, JobNode
from fanin_tools.errors import UsageError
from fanin_tools.launch.job_file import chunk_for
from fanin_wire import settings
from fanin_wire.abi import MAX_CHILDREN
from fanin_wire.settings import Address, Mtu, OptionalMulticastAddress, Settings

NIC_SOCKET, SWITCH_SOCKET = "/run/fanin/nic0/control.sock", "/run/fanin/switch0/control.sock"  # of the units


class Host(Settings, frozen=True):
    """A host with a NIC.

    name: as the launcher knows it. switches: addresses of the switches above its NIC, the lowest first; None: the only
    switch of the file. ring: of the NICs on one plain switch, as FANIN_RING; 0: none.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, extra={"remedy": "write it as the launcher knows it"})]
    address: Address
    socket: str = NIC_SOCKET
    switches: tuple[Address, ...] | None = None
    ring: Annotated[int, msgspec.Meta(ge=0)] = 0


class Switch(Settings, frozen=True):
    """A switch that computes.

    host: where fanin-switch runs; "": another device, which can not be queried. group: the multicast address of its
    results, as its --group.
    """

    address: Address
    host: str = ""
    socket: str = SWITCH_SOCKET
    group: OptionalMulticastAddress = ""


class Device(NamedTuple):
    host: str
    kind: str
    address: str
    socket: str

    def __str__(self) -> str:
        return f"{self.kind} {self.address} of {self.host}"


class Hosts(Settings, frozen=True):
    """mtu: bytes of the largest IP packet that the network between them should carry; None: as the devices have it."""

    hosts: tuple[Host, ...] = msgspec.field(name="host")
    switches: tuple[Switch, ...] = msgspec.field(name="switch", default=())
    mtu: Mtu | None = None

    @property
    def names(self) -> list[str]:
        """The hosts on which something runs, each once."""
        return list(dict.fromkeys(device.host for device in self.devices()))

    def devices(self) -> Iterator[Device]:
        """Those that can be queried, NICs first."""
        for host in self.hosts:
            yield Device(host.name, "nic", host.address, host.socket)
        for switch in self.switches:
            if switch.host:
                yield Device(switch.host, "switch", switch.address, switch.socket)

    def device(self, address: str) -> Device | None:
        """By address; None for a switch that can not be queried."""
        return next((device for device in self.devices() if device.address == address), None)

    def switches_above(self, host: Host) -> tuple[str, ...]:
        """Their addresses."""
        if host.switches is not None:
            return host.switches
        return tuple(switch.address for switch in self.switches) if len(self.switches) == 1 else ()

    def job(self, ranks_per_host: int = 1) -> Job:
        """A new job of all hosts. Raises UsageError if the file describes none."""
        nodes = [
            JobNode(
                host.address,
                tuple(range(number * ranks_per_host, (number + 1) * ranks_per_host)),
                self.switches_above(host),
                host.ring - 1 if host.ring else None,
            )
            for number, host in enumerate(self.hosts)
        ]
        try:
            jid, key = 1 + secrets.randbelow(0xFFFFFFFE), secrets.randbits(32)
            return Job(jid, key, tuple(nodes), chunk=chunk_for(self.mtu) if self.mtu else 0)
        except InvalidRequest as error:
            raise UsageError(
                error.detail, "correct the file of the hosts; docs/several-hosts.md has examples"
            ) from None


def read(path: Path) -> Hosts:
    """Raises UsageError NO_DESCRIPTION if the file can not be read, INVALID_REQUEST with the place of an error."""
    try:
        found = settings.convert(tomllib.loads(path.read_text()), Hosts)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a readable TOML file", "NO_DESCRIPTION") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}", "correct it there") from None
    except settings.InvalidSetting as error:
        raise UsageError(f"{path}: {error.place}: {error.cause}", error.remedy) from None
    _check(found, str(path))
    return found


def _check(found: Hosts, source: str) -> None:
    if not 0 < len(found.hosts) <= MAX_CHILDREN * MAX_CHILDREN:
        raise UsageError(f"{source}: host: {len(found.hosts)} of them", "name one or more, as [[host]]")
    addresses = [*(host.address for host in found.hosts), *(switch.address for switch in found.switches)]
    for what, values in (("name", [host.name for host in found.hosts]), ("address", addresses)):
        if twice := next((value for value in values if values.count(value) > 1), ""):
            raise UsageError(f"{source}: {what}: {twice!r} occurs twice", "give every device its own")
    known = {switch.address for switch in found.switches}
    for host in found.hosts:
        if unknown := [address for address in host.switches or () if address not in known]:
            raise UsageError(
                f"{source}: host {host.name}: there is no [[switch]] {unknown[0]}", "add it, or correct it"
            )
    if len(found.switches) > 1 and any(host.switches is None for host in found.hosts):
        cause = f"{source}: there are {len(found.switches)} switches, and a host does not say which are above its NIC"
        raise UsageError(cause, 'add switches = ["ADDRESS", ...] to each host, the lowest first')
    found.job()
