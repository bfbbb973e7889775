"""The switch in Verilog as a device of a fabric: a process that simulates it behind a UDP port and a control socket.

Each datagram goes in as the beats of an Ethernet frame. The simulation runs until it is idle; its frames are sent. The
switch's time is in microseconds since the start of the process.
"""

import json
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fanin_reference.__main__ import MAX_PACKET, opened
from fanin_wire import abi
from fanin_wire.fields import BTH, UDP_PORT, Opcode
from fanin_wire.settings import DeviceSettings
from fpga_cosim.tb import frames
from fpga_cosim.tb.target import RtlTarget

SOURCE_PORT = 0xC000
SEGMENT_INDEX = BTH.size + 30  # also the identification of its IPv4 packet ([3-9])
BATCH = 32  # datagrams that go in together
ROOM = 1 << 17  # beats that may come out of it
TICK_S = 0.05  # as often as the switch looks for silence
WRAP_US = 1 << 40
JOB_STATES = {1: "joining", 2: "active", 3: "aborted", 4: "aborted"}  # of engine_states.vh; 0 is free
REMEMBERED = 4


class Traffic(NamedTuple):
    tx_packets: int = 0
    tx_bytes: int = 0
    rx_packets: int = 0
    rx_bytes: int = 0


class Daemon:
    """The switch with these settings. Raises OSError if an address or the socket is unavailable."""

    def __init__(self, given: DeviceSettings) -> None:
        self._given, self._begun = given, time.monotonic()
        self._rtl = RtlTarget(0, address=given.address, room=ROOM)
        self._inbox, self._outbox = opened(given.address, UDP_PORT), opened(given.address, SOURCE_PORT)
        self._inbox.setblocking(False)
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._counters: Counter[str] = Counter()
        self._links: dict[str, Traffic] = defaultdict(Traffic)
        self._selector = selectors.DefaultSelector()
        self._control.bind(given.socket)
        os.chmod(given.socket, 0o600)
        self._control.listen()
        self._selector.register(self._inbox, selectors.EVENT_READ, self._receive)
        self._selector.register(self._control, selectors.EVENT_READ, self._accept)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        tick = time.monotonic()
        while True:
            for key, _ in self._selector.select(max(0.0, tick - time.monotonic())):
                key.data()
            if time.monotonic() >= tick:
                self._exchange([])
                tick = time.monotonic() + TICK_S

    def close(self) -> None:
        Path(self._given.socket).unlink(missing_ok=True)

    def _receive(self) -> None:
        sent = []
        for _ in range(BATCH):
            try:
                data, (source, port) = self._inbox.recvfrom(MAX_PACKET)
            except BlockingIOError:
                break
            self._count("rx", source, data)
            identification = data[SEGMENT_INDEX] if len(data) > SEGMENT_INDEX else 0
            sent.append(frames.frame(source, self._given.address, port, data, identification))
        self._exchange(sent)

    def _exchange(self, sent: list[bytes]) -> None:
        now_us = round((time.monotonic() - self._begun) * 1e6) % WRAP_US
        for answer in self._rtl.exchange_frames(now_us, sent):
            self._count("tx", answer.destination, answer.data)
            try:
                self._outbox.sendto(answer.data, (answer.destination, UDP_PORT))
            except OSError:  # the kernel may lose some
                self._counters["tx_errors"] += 1

    def _count(self, way: str, address: str, data: bytes) -> None:
        if data and data[0] in list(Opcode):
            self._counters[f"{way}_{Opcode(data[0]).name}"] += 1
        link = self._links[address]
        added = {f"{way}_packets": getattr(link, f"{way}_packets") + 1}
        added[f"{way}_bytes"] = getattr(link, f"{way}_bytes") + len(data)
        self._links[address] = link._replace(**added)

    def _accept(self) -> None:
        connection, _ = self._control.accept()
        connection.setblocking(False)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._serve(connection))

    def _serve(self, connection: socket.socket) -> None:
        """Answer a STATUS; refuse other messages."""
        try:
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            head = np.zeros(1, abi.MESSAGE)
            known = np.frombuffer(data[: abi.MESSAGE.itemsize].ljust(abi.MESSAGE.itemsize, b"\0"), abi.MESSAGE)[0]
            asks = known["version"] == abi.ABI_VERSION and known["type"] == abi.MessageType.STATUS
            status = abi.Status.SUCCESS if asks else abi.Status.NOT_SUPPORTED
            head[0] = (abi.ABI_VERSION, known["type"], known["tag"], status, 0)
            connection.send(head.tobytes() + (json.dumps(self.status()).encode() if asks else b""))
        except OSError:
            self._selector.unregister(connection)
            connection.close()

    def status(self) -> dict[str, Any]:
        """The status of a device (docs/command-line.md). The simulation does not know how many slots are in use."""
        jobs = self._jobs()
        total = 1 << (4 + 5)  # JOBS and LEASE of switch_core
        slots = {"total": total, "leased": sum(job["slots"] for job in jobs), "used": None, "high_water": None}
        return {
            "name": self._given.name,
            "kind": "switch",
            "address": self._given.address,
            "pid": os.getpid(),
            "version": metadata.version("fanin"),
            "draining": False,
            "uptime_s": round(time.monotonic() - self._begun, 3),
            "mtu": self._given.mtu,
            "lanes": 1,
            "detection_s": self._given.detection,
            "slots": slots,
            "jobs": jobs,
            "links": {address: link._asdict() for address, link in self._links.items()},
            "ordinary": {},
            "verbs": {},
            "counters": {**self._counters, **{f"drop_{name}": count for name, count in self._rtl.drops.items()}},
            "profile": None,
        }

    def _jobs(self) -> list[dict[str, Any]]:
        return [_job(row) for row in self._rtl.jobs() if row["state"] in JOB_STATES]


def _job(row: dict[str, int]) -> dict[str, Any]:
    """Status of a job, from its registers. A remembered one holds nothing."""
    holds = row["state"] != REMEMBERED
    held = {name: row[name] * holds for name in ("slots", "window", "chunk")}
    missing = (row["mask"] & ~row["joined"]) * holds
    status: dict[str, Any] = {"jid": row["jid"], "route": "tree", "state": JOB_STATES[row["state"]], **held}
    return status | {"slots_high_water": None, "children_missing": missing, "lanes": 1}


def serve(given: DeviceSettings) -> int:
    """Run the switch until SIGTERM or SIGINT. Returns the exit code: 1 if it did not start."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        daemon = Daemon(given)
    except OSError as error:
        print(f"{given.name} (rtl) at {given.address}: {error}", file=sys.stderr)
        return 1
    try:
        daemon.run()
    except SystemExit:
        return 0
    finally:
        daemon.close()
    return 0
