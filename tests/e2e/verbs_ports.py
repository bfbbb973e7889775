"""Two ports over verbs devices in one process: `verbs_ports.py DEVICE=ADDRESS DEVICE=ADDRESS`.

One is a stranger at first. Then they exchange packets, also to a group. Each queue pair fails, and a device refuses
what is posted. Each time packets pass again afterwards, both ways; then it prints "whole".
"""

import contextlib
import ctypes
import errno
import ipaddress
import logging
import os
import select
import sys
import time

import numpy as np

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.port.receive import receive
from fanin_nic.port.transmit import transmit
from fanin_nic.port.verbs.port import VerbsPort
from fanin_nic.port.verbs.records import COMPLETION, GRH_DESTINATION, MULTICAST_QUEUE_PAIR
from fanin_nic.port.verbs.sleep import UNTIL_EVENT, longest_sleep
from fanin_wire.fields import HEADER, TRANSPORT_SIZE, Opcode

SECONDS = 120.0
REPEAT_SECONDS, POLL_SECONDS = 0.5, 0.001
NOW_AND_THEN = 200_000_000  # ns: a lane's longest sleep while its queue pair is repaired
ERR = 6  # IBV_QPS_ERR
POST = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
POLL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
GROUP = "239.77.0.1"
PAYLOADS = [bytes([number]) * length for number, length in enumerate((0, 1, 2000, 2000, 2000, 7, 2048, 2048))]


def send(port: VerbsPort, to: str) -> int:
    """Send all payloads; the number of packets that the port took."""
    actions, headers = np.zeros(len(PAYLOADS), ACTION), np.zeros(len(PAYLOADS), HEADER)
    kept = [np.frombuffer(payload or b"\0", np.uint8) for payload in PAYLOADS]
    actions["kind"], actions["destination"] = ActionKind.SEND, int(ipaddress.IPv4Address(to))
    actions["length"] = [len(payload) for payload in PAYLOADS]
    actions["payload"] = [payload.ctypes.data for payload in kept]
    headers["opcode"], headers["position"] = Opcode.CONTRIBUTION, range(len(PAYLOADS))
    tables = np.uint64(actions.ctypes.data), np.uint64(headers.ctypes.data)
    return int(transmit(port.state, *tables, np.uint32(len(PAYLOADS))))


def take(port: VerbsPort) -> list[bytes]:
    """Packets that have come, from CETH to padding."""
    return [
        ctypes.string_at(int(entry["address"]), int(entry["length"])) for entry in port.received[: receive(port.state)]
    ]


def be_wrong(sender: VerbsPort, receiver: VerbsPort) -> None:
    """Send packets with a wrong ICRC, as a stranger's could be. The receiver does not learn their sender."""
    port = sender._tables.port
    address = int(port["address"][0])
    port["address"] = address ^ 1  # which the ICRC covers
    end = time.monotonic() + SECONDS
    while not receiver.drops()["drop_icrc"]:
        assert time.monotonic() < end, f"{sender.drops()} {receiver.drops()}"
        send(sender, receiver.address)
        assert take(receiver) == []
        select.select([], [], [], POLL_SECONDS)
    assert receiver.peers() == {}
    port["address"] = address


def exchange(sender: VerbsPort, receiver: VerbsPort, to: str = "") -> None:
    """Send until a row of packets has come in order; those sent to an unknown or failed queue pair are lost."""
    end = time.monotonic() + SECONDS
    wanted = [payload + bytes(-len(payload) % 4) for payload in PAYLOADS]
    found: list[bytes] = []
    while time.monotonic() < end:
        send(sender, to or receiver.address)
        again = time.monotonic() + REPEAT_SECONDS
        while time.monotonic() < again:
            take(sender)
            found += [packet[TRANSPORT_SIZE:] for packet in take(receiver)]
            if found[-len(wanted) :] == wanted:
                return
            select.select([], [], [], POLL_SECONDS)
    raise TimeoutError(f"{sender.address} to {receiver.address}: {sender.drops()} {receiver.drops()}")


@contextlib.contextmanager
def unmended(port: VerbsPort):
    """Nobody repairs the queue pair meanwhile."""
    port._resolver._recovery_due = time.monotonic() + 2 * SECONDS
    yield
    port._resolver._recovery_due = 0.0
    os.eventfd_write(port._queue_pair.wake_fd, 1)


def is_broken(port: VerbsPort) -> bool:
    return bool(port._queue_pair.record[0]["broken"])


def fail(port: VerbsPort) -> None:
    """Let the queue pair fail while its lane sleeps. The lane is woken. Then it looks now and then, no event that
    nobody takes keeps it awake, and it gives no buffer to a device under repair."""
    verbs = np.uint64(port._queue_pair.state)
    while longest_sleep(verbs) != UNTIL_EVENT:
        take(port)
    with unmended(port):
        port._queue_pair._modify(ERR, 0)
        assert select.select([port.receive_fd], [], [], SECONDS)[0]
        while not is_broken(port):
            take(port)
        held = int(port._queue_pair.record[0]["received"])
        assert held > 0
        assert 0 < longest_sleep(verbs) <= NOW_AND_THEN
        assert take(port) == []
        assert port._queue_pair.record[0]["received"] == held
        assert not select.select([port.receive_fd], [], [], 0)[0]


def refuse(port: VerbsPort, to: str) -> None:
    """Let the device refuse a chain without saying where. No packet of it counts as sent."""
    record, before = port._queue_pair.record, port.drops()["drop_send_error"]
    refusal, accepts = POST(lambda *_: errno.EIO), int(record[0]["post_send"])
    with unmended(port):
        record["post_send"] = ctypes.cast(refusal, ctypes.c_void_p).value
        assert send(port, to) == 0
        record["post_send"] = accepts
        assert port.drops()["drop_send_error"] == before + len(PAYLOADS)
        assert is_broken(port)
        assert port.last_error() == "EIO"


def come_for_group(sender: VerbsPort, receiver: VerbsPort) -> None:
    """A packet to a group is taken if the port is a member, and checked against the group's address.

    These devices can not multicast. So what is sent to the group goes to the receiver's queue pair, and the IP header
    of each datagram names the group.
    """
    pair, verbs = sender._queue_pair, receiver._queue_pair.record
    pair.handles[GROUP] = pair.handles[receiver.address]
    rows: list[int] = []
    end = time.monotonic() + SECONDS
    while not (rows and pair.destinations["handle"][rows[0]]):
        assert time.monotonic() < end
        send(sender, GROUP)
        rows = np.flatnonzero(sender._tables.peers["address"] == int(ipaddress.IPv4Address(GROUP))).tolist()
        select.select([], [], [], POLL_SECONDS)
    assert pair.destinations["queue_pair"][rows[0]] == MULTICAST_QUEUE_PAIR
    pair.destinations["queue_pair"][rows[0]] = receiver._queue_pair.number
    poll_of_device = int(verbs[0]["poll"])

    @POLL
    def poll(queue: int, most: int, completions: int) -> int:
        found = POLL(poll_of_device)(queue, most, completions)
        for number in range(max(0, found)):
            (buffer,) = np.frombuffer(ctypes.string_at(completions + number * COMPLETION.itemsize, 8), np.uint64)
            place = int(verbs[0]["receive_buffers"]) + int(buffer) * int(verbs[0]["receive_size"]) + GRH_DESTINATION
            ctypes.memmove(place, ipaddress.IPv4Address(GROUP).packed, 4)
        return int(found)

    def drop_all(to: str) -> None:
        before = receiver.drops()["drop_icrc"]
        send(sender, to)
        while receiver.drops()["drop_icrc"] < before + len(PAYLOADS):
            assert time.monotonic() < end
            assert take(receiver) == []

    verbs["poll"] = ctypes.cast(poll, ctypes.c_void_p).value
    drop_all(GROUP)  # it is no member
    receiver._tables.port["group"] = int(ipaddress.IPv4Address(GROUP))
    exchange(sender, receiver, to=GROUP)
    drop_all(receiver.address)  # the ICRC covers another address than the header's
    verbs["poll"], receiver._tables.port["group"] = poll_of_device, 0
    del pair.handles[GROUP]


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    with contextlib.ExitStack() as stack:
        ports = [VerbsPort(*place.split("="), mtu=9000) for place in sys.argv[1:]]
        for port in ports:
            stack.callback(port.close)
        one, other = ports
        be_wrong(one, other)
        exchange(one, other)
        exchange(other, one)
        come_for_group(one, other)
        for port in ports:
            fail(port)
        exchange(one, other)
        exchange(other, one)
        refuse(one, other.address)
        exchange(one, other)
        exchange(other, one)
        print("whole")


main()
