"""What every status of CQEs, control packets and driver calls means, and its remedy.

One table for the code, the command line and SPEC.md. The codes are `enum fanin_status` of `abi.h`.
"""

from __future__ import annotations

from typing import NamedTuple

from fanin_wire.abi import Status


class StatusEntry(NamedTuple):
    """remedy: a sentence that says what to do."""

    code: int
    name: str
    meaning: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.meaning} {self.remedy}"


# (name, meaning, remedy), in the order of the codes
_ROWS = (
    ("SUCCESS", "The operation is complete.", "Nothing is to be done."),
    (
        "PENDING",
        "The operation has begun and waits for others, who are named.",
        "Wait, or start the members that are missing.",
    ),
    (
        "BUFFER_ERROR",
        "A length, chunk or seg does not fit the lease of the job or the buffer.",
        "Give buffers of the same length on every rank, and post in order with the chunk that the job was granted.",
    ),
    (
        "LOCAL_PROTECTION_ERROR",
        "An address is outside the registered region, the region lacks the right, or its memory could be taken away.",
        "Give memory that the operation may read or write, and that stays until the request has ended. Memory to "
        "register is a memfd of ordinary pages, sealed with F_SEAL_SHRINK: Communicator.alloc (fanin_allocate in C) "
        "makes it.",
    ),
    (
        "PEER_LOST",
        "A process, device or link of the job has gone silent or has restarted.",
        "See who is named. Go on without them by Communicator.shrink (fanin_shrink in C), or repair what has failed "
        "and start the program again.",
    ),
    (
        "TIMEOUT",
        "The deadline of the work request passed before all members had posted.",
        "See which member is named as missing, or give a longer timeout or none.",
    ),
    (
        "OP_MISMATCH",
        "Members posted different operations, data types, lengths, roots, counts or orders for one position.",
        "Make every rank call the same collectives in the same order with the same operation, root, type and length.",
    ),
    (
        "NOT_CONFIGURED",
        "The device does not know the job.",
        "Join before posting. If the job was known, its device has restarted or has given it up: start the program "
        "again.",
    ),
    (
        "JID_IN_USE",
        "Another job, with another key, holds this job id on a device of the path.",
        "Choose another job id, or start the program again when the other job has left or has aged out.",
    ),
    (
        "NO_RESOURCES",
        "A device of the path has too few free slots, queues or job entries, or this client has its share of them.",
        "Ask for fewer slots (fanin run --slots, FANIN_MPI_SLOTS), or close communicators that are not needed.",
    ),
    (
        "ABORTED",
        "A member ended the job, or another operation of it has failed.",
        "See the first error of all ranks, which names the cause. If all ranks live, go on by Communicator.dup "
        "(fanin_dup in C); else start the program again.",
    ),
    (
        "FLUSHED",
        "The request was still queued when its queue pair was destroyed or its job ended.",
        "Wait for a request before you close its communicator or queue pair. If the job had ended, its first error "
        "names the cause.",
    ),
    (
        "NOT_SUPPORTED",
        "The device does not implement what was asked for.",
        "Use an operation and a data type that devices compute (Communicator.capabilities, fanin_is_supported in C), "
        "and a route that the fabric has.",
    ),
    (
        "INVALID_REQUEST",
        "A field of the request contradicts another one or the job.",
        "Correct the request; the device has done nothing.",
    ),
    (
        "VERSION_MISMATCH",
        "The two sides speak different versions of the protocol or of the host interface.",
        "Install the same version of Fanin on every host and restart the devices.",
    ),
    (
        "DEVICE_LOST",
        "The device has ended or has detached this client, or it stands still and does not wake up.",
        "Start the device again (fanin fabric restart starts one of a fabric of this machine), then the program.",
    ),
    (
        "QUEUE_FULL",
        "The send queue has no free entry.",
        "Take completions from the completion queue before posting more.",
    ),
    (
        "NO_DEVICE",
        "No device answers at the given socket.",
        "Check the path of the socket and that the device is running.",
    ),
    (
        "PERMISSION_DENIED",
        "The caller may not use the device, the memory or the job.",
        "Run as the user that owns the device, or have its owner grant access.",
    ),
    (
        "MEMBERS_MISMATCH",
        "Members described the job differently: other members, order, route or parameters.",
        "Give every rank the same description of the job.",
    ),
    (
        "CQ_OVERRUN",
        "A completion queue was full when the device had another completion; the job was ended.",
        "Take completions before posting more, or use a completion queue for each queue pair; then start the program "
        "again.",
    ),
    (
        "TOO_FEW_LANES",
        "A switch of the path has fewer lanes than the NICs of the job.",
        "Start every switch with at least as many lanes as the NICs have (--lanes), or the NICs with fewer.",
    ),
    (
        "DRAINING",
        "A device of the path takes no new job, because it ends when the jobs that run on it have ended.",
        "Wait until the device is up again, or start the program where the devices take jobs.",
    ),
    (
        "PATH_MTU",
        "The path to a device of the job carries headers and loses packets with data: its MTU is too small for them, "
        "or a packet filter takes long packets.",
        "See which devices are named. Start the devices with the smallest MTU of the path (--mtu), or raise the MTU of "
        "every interface and switch on it.",
    ),
)

# Those that come with the address of a device, if it is known
NAMING_A_DEVICE = (int(Status.PEER_LOST), int(Status.PATH_MTU))  # no set: compiled code has none

STATUSES: dict[int, StatusEntry] = {
    int(Status[name]): StatusEntry(int(Status[name]), name, meaning, remedy) for name, meaning, remedy in _ROWS
}


def status_entry(code: int) -> StatusEntry:
    """The row of a status code; for a code of a later version one that says so."""
    unknown = StatusEntry(
        int(code),
        f"STATUS_{int(code)}",
        "This version does not know the status.",
        "Use the same version of Fanin on every host.",
    )
    return STATUSES.get(int(code), unknown)
