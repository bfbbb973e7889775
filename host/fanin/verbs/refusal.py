"""The reason of a refused JOIN, in words."""

from typing import Any, Protocol

from fanin.errors import FaninError, Timeout
from fanin.verbs.wc import kind_of_members
from fanin_wire.abi import Status
from fanin_wire.fields import WIRE_VERSION


class Asked(Protocol):
    """What was asked for: a Membership or a Job."""

    @property
    def jid(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def chunk(self) -> int: ...


def refusal(status: int, asked: Asked, reply: Any, missing: str = "") -> FaninError:
    """The exception of a JOIN. `reply`: struct fanin_join_reply, with the missing members or the lease that fits.
    missing: the members in words, after a separator; "": name their bits."""
    detail, remedy = f"could not join job {asked.jid}", ""
    if reply.missing and not missing:
        bits = [bit for bit in range(64) if reply.missing >> bit & 1]
        missing = f"; {kind_of_members(reply.missing_kind)} that are missing (bits): {bits}"
    detail += missing
    if status == Status["NO_RESOURCES"]:
        detail += f"; asked for {asked.slots} slots of {asked.chunk} bytes, {reply.slots} would fit"
        fewer = f"Ask for at most {reply.slots} slots (fanin run --slots), or close" if reply.slots else "Close"
        remedy = f"{fewer} communicators and persistent requests that are not needed: each leases slots of the devices."
    if status == Status["VERSION_MISMATCH"]:
        detail += f"; {_other_version(reply.slots)} and this node's NIC version {WIRE_VERSION}"
    if status == Status["INVALID_REQUEST"]:
        detail += ": the device refuses the description of the job, or that this rank joins it again"
        remedy = "Join with each rank once; see that the devices can have the job's slots and chunk."
    if status == Status["PENDING"]:
        return Timeout(f"{detail}; not all members have joined in time", remedy="Start the members that are missing.")
    return FaninError.of(status, detail, remedy)


def _other_version(version: int) -> str:
    """Names the device with another version; only the one directly below it sees its number."""
    if version:
        return f"the next device on its path speaks version {version} of the wire protocol,"
    return "a device on its path speaks another version of the wire protocol than the device below it,"
