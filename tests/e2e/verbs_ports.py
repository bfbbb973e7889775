"""Two ports over verbs devices in one process: `verbs_ports.py DEVICE=ADDRESS DEVICE=ADDRESS`.

They exchange packets. Then each queue pair fails. "whole" is printed when packets have come through again, both ways.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import logging
import select
import sys
import time

import numpy as np

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.port.receive import receive
from fanin_nic.port.transmit import transmit
from fanin_nic.port.verbs.port import VerbsPort
from fanin_wire.fields import HEADER, TRANSPORT_SIZE, Opcode

SECONDS = 120.0
REPEAT_SECONDS, POLL_SECONDS = 0.5, 0.001
ERR = 6  # IBV_QPS_ERR
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
    """The packets that have come, from CETH to padding."""
    return [
        ctypes.string_at(int(entry["address"]), int(entry["length"])) for entry in port.received[: receive(port.state)]
    ]


def exchange(sender: VerbsPort, receiver: VerbsPort) -> None:
    """Send until a whole row of packets has come through in its order. What is sent while a queue pair is not known, or
    has failed, is lost."""
    end = time.monotonic() + SECONDS
    wanted = [payload + bytes(-len(payload) % 4) for payload in PAYLOADS]
    found: list[bytes] = []
    while time.monotonic() < end:
        send(sender, receiver.address)
        again = time.monotonic() + REPEAT_SECONDS
        while time.monotonic() < again:
            take(sender)  # where a queue pair that has failed is noticed
            found += [packet[TRANSPORT_SIZE:] for packet in take(receiver)]
            if found[-len(wanted) :] == wanted:
                return
            select.select([], [], [], POLL_SECONDS)
    raise TimeoutError(f"{sender.address} to {receiver.address}: {sender.drops()} {receiver.drops()}")


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    with contextlib.ExitStack() as stack:
        ports = [VerbsPort(*place.split("="), mtu=9000) for place in sys.argv[1:]]
        for port in ports:
            stack.callback(port.close)
        one, other = ports
        exchange(one, other)
        exchange(other, one)
        for port in ports:
            port._queue_pair._modify(ERR, 0)
        exchange(one, other)
        exchange(other, one)
        print("whole")


main()
