"""The device of this process: found as MPI programs find theirs, or a NIC that is started for the run.

All ranks of a group exchange through its store what they found. The groups of a process share its device, also groups
whose ranks are threads. The last group that releases the device detaches.
"""

import ipaddress
import json
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

from fanin.driver import complaint, ffi, library
from fanin.errors import FaninError, InvalidRequest, NoDevice, NotSupported, Timeout
from fanin.job import Job, JobNode
from fanin.membership.member import DeviceConnection
from fanin_torch.local_fabric import READY_SECONDS, LocalFabric, Settings
from fanin_torch.registered_memory import RegisteredMemory
from fanin_wire.limits import MAX_JOB_CHUNK

T = TypeVar("T")
PLACE = ffi.typeof("struct fanin_place *")
NICS = ffi.typeof("struct fanin_nic[]")
MAX_NICS = int(ffi.typeof("enum fanin_nic_limit").relements["FANIN_MAX_NICS"])
START_ONE = (
    "Bring a fabric up (fanin fabric up), or set FANIN_SOCKET on every rank to the socket of its NIC. "
    "Ranks that are all on one machine get a NIC for the run if none of them has one."
)
MAX_TEXT = 300  # bytes of a text that names fabrics


@dataclass(frozen=True)
class Place:
    address: str = ""
    ring: int | None = None
    switches: tuple[str, ...] = ()

    @classmethod
    def of_struct(cls, place: Any) -> Self:
        """From a struct fanin_place, which need not outlive this."""
        switches = tuple(map(_address, list(place.hop)[: place.hops]))
        return cls(_address(place.address), place.ring - 1 if place.ring else None, switches)


@dataclass
class Device:
    """This process's connection to its NIC, and the NIC's place. fabric: set if the NIC was started for the run."""

    connection: DeviceConnection
    place: Place
    memory: RegisteredMemory
    fabric: LocalFabric | None = None

    @classmethod
    def open(cls, socket: str, place: Place, fabric: LocalFabric | None = None) -> Self:
        """Attach to the NIC, which knows its own address; the caller is its first user. place: switches above it."""
        connection = DeviceConnection(socket)
        connection.take()
        own = replace(place, address=_address(connection.context.query_device().address))
        return cls(connection, own, RegisteredMemory(connection.pd), fabric)

    def release(self) -> None:
        """One user less. The last lets go of a NIC of the run, and of memory kept for later tensors."""
        global _device
        with _taking:
            self.connection.release()
            if not self.connection.context.closed:
                return
            if self.fabric is not None:
                self.fabric.leave()
            if _device is self:
                _device = None


_taking = threading.Lock()  # between the last group that releases a device and one that takes it
_device: Device | None = None  # of this process, while a group uses it


def _take() -> Device | None:
    """This process's device, with one user more; None if no group uses one."""
    with _taking:
        if _device is None or _device.connection.context.closed:
            return None
        _device.connection.take()
        return _device


def device_of(store: Any, rank: int, size: int) -> Device:
    """The device of this process, which its first group opens, and each group releases. All `size` ranks of a group
    call this: for some it may be the first group.

    Raises NoDevice on all ranks if one has none, Timeout if ranks have not come within the store's time.
    """
    global _device
    device = _take()
    try:
        nics = [] if device is not None else _nics()
        mine = {"host": _host(), "network": _network(), "nics": len(nics), "has_device": device is not None}
        rows = _tell_all(store, "nics", rank, size, mine)
        if device is not None and all(row["has_device"] for row in rows):
            return device
        problem = _start_one()
        try:
            device = device or _open(store, rank, rows, nics)
        except FaninError as error:
            problem = str(error)
        # Others may be starting a NIC, which takes longer than some stores wait.
        problems = _tell_all(store, "devices", rank, size, None if device else problem, READY_SECONDS)
        lacking = [other for other, found in enumerate(problems) if found]
        if device is None or lacking:
            raise NoDevice(f"ranks {', '.join(map(str, lacking))} have no device", remedy=problems[lacking[0]])
    except BaseException:
        if device is not None:
            device.release()
        raise
    _device = device
    return device


def _open(store: Any, rank: int, rows: list[dict[str, Any]], nics: list[tuple[str, Place]]) -> Device | None:
    """rows: what each rank has found; nics: what this one has. None if it found nothing."""
    if _need_a_fabric(rows):
        fabric = LocalFabric.join(store, rank)
        try:
            return Device.open(fabric.socket, _switches_of_environment(Place()), fabric)
        except BaseException:
            fabric.leave()
            raise
    if not nics:
        return None
    beside = [other for other, row in enumerate(rows) if row["host"] == rows[rank]["host"]]
    socket, place = nics[_choice(beside.index(rank), len(beside), len(nics))]
    return Device.open(socket, _switches_of_environment(place))


def _need_a_fabric(rows: list[dict[str, Any]]) -> bool:
    """Whether no rank has a NIC, and one NIC can serve all, which see the same loopback addresses."""
    places = {(row["host"], row["network"]) for row in rows}
    return len(places) == 1 and not any(row["nics"] or row["has_device"] for row in rows)


def job_of(device: Device, store: Any, rank: int, size: int, settings: Settings) -> tuple[Job, list[str]]:
    """The job of a group; and for each rank a text, equal for ranks that can open sockets to each other. The members
    exchange their places, and the longest segments of their NICs."""
    mine = {
        "place": asdict(device.place),
        "jid": secrets.randbits(32) or 1,
        "key": secrets.randbits(32),
        "settings": settings._asdict(),
        "longest": device.connection.context.query_device().max_chunk,
        "domain": _domain() if settings.messages == "auto" else f"rank {rank}",
    }
    rows = _tell_all(store, "places", rank, size, mine)
    nodes: dict[Place, list[int]] = {}
    for number, place in enumerate(row["place"] for row in rows):
        nodes.setdefault(Place(place["address"], place["ring"], tuple(place["switches"])), []).append(number)
    agreed = rows[0]["settings"]
    longest = min(MAX_JOB_CHUNK, *(row["longest"] for row in rows))
    job = Job(
        jid=rows[0]["jid"],
        key=rows[0]["key"],
        nodes=tuple(JobNode(place.address, tuple(ranks), place.switches, place.ring) for place, ranks in nodes.items()),
        route=agreed["route"],
        chunk=1 << (longest.bit_length() - 1),
        slots=agreed["slots"],
        reproducible=agreed["reproducible"],
    )
    return job, [row["domain"] for row in rows]


def _start_one() -> str:
    """The remedy without a NIC. It names fabrics that are up, under another name or in another folder."""
    words = ffi.new("char[]", MAX_TEXT)
    library().fanin_name_fabrics(words, MAX_TEXT)
    others = ffi.string(words).decode()
    return f"{START_ONE} Up are {others}." if others else START_ONE


def _nics() -> list[tuple[str, Place]]:
    """Socket and place of each NIC of this host."""
    nics, elsewhere = ffi.new(NICS, MAX_NICS), ffi.new("uint32_t *")
    count = library().fanin_find_nics(nics, elsewhere)
    return [(ffi.string(nic.socket).decode(), Place.of_struct(nic.place)) for nic in nics[0:count]]


def _choice(rank: int, size: int, choices: int) -> int:
    """Which of a host's NICs a rank takes: blocks of consecutive ranks, the first ones longer, as in `fanin run`."""
    length, longer = divmod(size, choices)
    if rank < longer * (length + 1):
        return rank // (length + 1)
    return longer + (rank - longer * (length + 1)) // length


def _switches_of_environment(place: Place) -> Place:
    """What lies above the NIC, by FANIN_SWITCHES and FANIN_RING if they are set."""
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


def _host() -> str:
    """Equal for processes of one host."""
    return _kernel(lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip())


def _network() -> int:
    """Equal for processes of one network namespace of a host."""
    return _kernel(lambda: os.stat("/proc/self/ns/net").st_ino)


def _domain() -> str:
    """Equal for processes of one user that can open sockets to each other."""
    users = Path("/proc/self/ns/user")
    return f"{_host()} {_network()} {users.stat().st_ino if users.exists() else 0} {os.geteuid()}"


def _kernel(read: Callable[[], T]) -> T:
    """What /proc shows; NotSupported if it is hidden."""
    try:
        return read()
    except OSError as error:
        cause = f"the kernel does not show {error.filename}: {error.strerror}"
        raise NotSupported(cause, remedy="Let this process see all of /proc, without hidepid or subset.") from None


def _tell_all(store: Any, what: str, rank: int, size: int, mine: Any, extra: float = 0.0) -> list[Any]:
    """What every rank says, by rank. extra: seconds to wait beside the store's time. Timeout names silent ranks."""
    keys = [f"fanin/{what}/{other}" for other in range(size)]
    store.set(keys[rank], json.dumps(mine))
    limit = store.timeout + timedelta(seconds=extra)
    try:
        store.wait(keys, limit)
    except RuntimeError:  # each kind of store has an error of its own; one that has failed raises here, too
        if missing := [other for other, key in enumerate(keys) if not store.check([key])]:
            late = Timeout(
                f"ranks {', '.join(map(str, missing))} of a group of {size} did not arrive within "
                f"{limit.total_seconds():g} s",
                remedy="See what these ranks do instead, or give init_process_group a longer timeout.",
            )
            late.missing_ranks = tuple(missing)
            raise late from None
    return [json.loads(store.get(key)) for key in keys]


def _address(number: int) -> str:
    return str(ipaddress.IPv4Address(number))
