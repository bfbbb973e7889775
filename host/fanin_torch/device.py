"""The device of this process: found as MPI programs find theirs, or a NIC that is started for the run.

All ranks of a group take part: each tells the others through the store of the group what it has found.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from fanin.driver import complaint, ffi, library
from fanin.errors import FaninError, InvalidRequest, NoDevice
from fanin.job import Job, JobNode
from fanin.membership.device_connection import DeviceConnection
from fanin_torch import local_fabric
from fanin_torch.settings import Settings

PLACE = ffi.typeof("struct fanin_place *")
NICS = ffi.typeof("struct fanin_nic[]")
MOST_NICS = int(ffi.typeof("enum fanin_nic_limit").relements["FANIN_MAX_NICS"])
START_ONE = (
    "Bring a fabric up (fanin fabric up), or set FANIN_SOCKET on every rank to the socket of its NIC. "
    "Ranks that are all on one machine get a NIC for the run if none of them has one."
)


@dataclass(frozen=True)
class Place:
    """Where a NIC is, as all ranks must know it."""

    address: str = ""
    ring: int | None = None
    switches: tuple[str, ...] = ()

    @classmethod
    def of_struct(cls, place: Any) -> Self:
        """From a struct fanin_place, which may go away afterwards."""
        switches = tuple(map(_address, list(place.hop)[: place.hops]))
        return cls(_address(place.address), place.ring - 1 if place.ring else None, switches)


@dataclass
class Device:
    """The connection of this process to its NIC, and where the NIC is."""

    connection: DeviceConnection
    place: Place

    @classmethod
    def open(cls, socket: str, place: Place) -> Self:
        """Attach to the NIC, which knows its own address. place: what lies above it."""
        connection = DeviceConnection(socket)
        return cls(connection, replace(place, address=_address(connection.context.query_device().address)))


_device: Device | None = None  # of this process, while a group uses it


def device_of(store: Any, rank: int, size: int) -> Device:
    """The device of this process. The first group opens it, as which all `size` ranks call this.

    Raises:
        NoDevice: a rank has none. All ranks get it.
    """
    global _device
    if _device is None or _device.connection.context.closed:
        _device = _open(store, rank, size)
    return _device


def _open(store: Any, rank: int, size: int) -> Device:
    found = _nics()
    machines = _tell_all(store, "nics", rank, size, [_machine(), len(found)])
    if all(count == 0 for _, count in machines) and len({machine for machine, _ in machines}) == 1:
        found = [(local_fabric.join(store, rank), Place())]
    device, problem = None, f"{START_ONE}"
    try:
        if found:
            socket, place = found[_choice(rank, size, len(found))]
            device = Device.open(socket, _switches_of_environment(place))
    except FaninError as error:
        problem = str(error)
    problems = _tell_all(store, "devices", rank, size, None if device else problem)
    if device is not None and not any(problems):
        return device
    lacking = [other for other in range(size) if problems[other]]
    raise NoDevice(f"ranks {', '.join(map(str, lacking))} have no device", remedy=problems[lacking[0]])


def job_of(device: Device, store: Any, rank: int, size: int, settings: Settings) -> Job:
    """The job of a group: its members exchange their places."""
    mine = [asdict(device.place), secrets.randbits(32) or 1, secrets.randbits(32), settings._asdict()]
    rows = _tell_all(store, "places", rank, size, mine)
    nodes: dict[Place, list[int]] = {}
    for number, (place, *_) in enumerate(rows):
        nodes.setdefault(Place(place["address"], place["ring"], tuple(place["switches"])), []).append(number)
    _, jid, key, agreed = rows[0]
    return Job(
        jid=jid,
        key=key,
        nodes=tuple(JobNode(place.address, tuple(ranks), place.switches, place.ring) for place, ranks in nodes.items()),
        route=agreed["route"],
        slots=agreed["slots"],
        reproducible=agreed["reproducible"],
    )


def _nics() -> list[tuple[str, Place]]:
    """Socket and place of each NIC of this host."""
    nics, elsewhere = ffi.new(NICS, MOST_NICS), ffi.new("uint32_t *")
    count = library().fanin_find_nics(nics, elsewhere)
    return [(ffi.string(nic.socket).decode(), Place.of_struct(nic.place)) for nic in nics[0:count]]


def _choice(rank: int, size: int, choices: int) -> int:
    """Which of `choices` NICs a rank takes: blocks of consecutive ranks, the first ones longer, as in `fanin run`."""
    length, longer = divmod(size, choices)
    if rank < longer * (length + 1):
        return rank // (length + 1)
    return longer + (rank - longer * (length + 1)) // length


def _switches_of_environment(place: Place) -> Place:
    """What lies above the NIC: FANIN_SWITCHES and FANIN_RING in the place of what was found."""
    switches = os.environ.get("FANIN_SWITCHES")
    if not switches:
        return place
    text = f"0.0.0.0 {os.environ.get('FANIN_RING') or '0'} {switches.replace(',', ' ')}"
    given = ffi.new(PLACE)
    if library().fanin_place_of_text(text.encode(), given):
        raise InvalidRequest(
            f"FANIN_SWITCHES is {switches!r}: {complaint()}", remedy="Write addresses with ',' between."
        )
    return Place.of_struct(given[0])


def _machine() -> str:
    """What is equal for processes that see the same loopback addresses."""
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return f"{boot.read().strip()} {os.stat('/proc/self/ns/net').st_ino}"


def _tell_all(store: Any, what: str, rank: int, size: int, mine: Any) -> list[Any]:
    """What every rank says, by rank."""
    store.set(f"fanin/{what}/{rank}", json.dumps(mine))
    return [json.loads(store.get(f"fanin/{what}/{other}")) for other in range(size)]


def _address(number: int) -> str:
    return str(ipaddress.IPv4Address(number))
