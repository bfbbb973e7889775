"""Throughput of the UDP port alone between two processes: super-packets, headers and ICRCs, no engine, no DMA."""

import ipaddress
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from fanin_nic.engine.records.actions import ACTION, ActionKind
from fanin_nic.port.sockets import UdpPort
from fanin_tools.bench.network import SharedWords, Task, host_of, network, run_together
from fanin_tools.bench.port_kernels import receive_stream, send_stream
from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape
from fanin_tools.progress import ProgressCallback
from fanin_tools.quantities import render_size
from fanin_wire.fields import HEADER, Opcode
from fanin_wire.limits import DEFAULT_MTU

PAYLOADS = (256, 1024, 4096)  # bytes
BATCH = 120  # packets of one transmit: 8 super-packets of 4 KiB
WINDOW = 4  # batches on the way
VOLUME = 256 << 20  # bytes of one round
MAX_BATCHES = 4000
ROUNDS = 5
SENDER, RECEIVER, RECEIVED = range(3)  # shared words


@dataclass(frozen=True)
class Row:
    """Medians of the rounds. bandwidth: payload bytes per second."""

    payload: int
    packets_per_second: float
    bandwidth: float


def measure(netns: bool, name: str, progress: ProgressCallback) -> list[Row]:
    """Every payload size, from one host to another through a switch (`netns`), or over loopback."""
    compile_all()
    rows = []
    with network(name, Shape(2, 1, netns=netns)) as fabric:
        for payload in PAYLOADS:
            progress(f"payload {render_size(payload)} ...")
            batches = min(MAX_BATCHES, VOLUME // payload // BATCH)
            rates = [_round(fabric, payload, batches) for _ in range(ROUNDS)]
            rows.append(Row(payload, statistics.median(rates), statistics.median(rates) * payload))
    return rows


def compile_all() -> None:
    """Compile the kernels once, before forked processes would each do so."""
    nowhere, words = np.uint64(0), SharedWords(1)
    send_stream(nowhere, nowhere, nowhere, 0, 0, 0, words.address(0))
    receive_stream(nowhere, 0, words.address(0))


def _round(fabric: Fabric, payload: int, batches: int) -> float:
    words = SharedWords(3)
    tasks: list[Task] = [
        (host_of(fabric, "nic0"), lambda: _send(fabric, payload, batches, words)),
        (host_of(fabric, "nic1"), lambda: _receive(fabric, batches, words)),
    ]
    nanoseconds, _ = run_together(tasks)
    if nanoseconds < 0:
        raise ToolError("TIMEOUT", "packets were lost on an idle link", "look at the limits of socket buffers")
    return batches * BATCH / nanoseconds * 1e9


def _send(fabric: Fabric, payload: int, batches: int, words: SharedWords) -> int:
    data = np.ones(payload, np.uint8)
    actions, headers = np.zeros(BATCH, ACTION), np.zeros(BATCH, HEADER)
    actions["kind"], actions["length"], actions["payload"] = ActionKind.SEND, payload, data.ctypes.data
    actions["destination"] = int(ipaddress.IPv4Address(fabric.device("nic1").address))
    headers["opcode"], headers["length"] = Opcode.CONTRIBUTION, payload
    with UdpPort(fabric.device("nic0").address, DEFAULT_MTU) as port:
        words.barrier(SENDER, 2)
        tables = _addresses(actions, headers)
        return int(send_stream(port.state, *tables, BATCH, batches, WINDOW * BATCH, words.address(RECEIVED)))


def _addresses(*tables: Any) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(table.ctypes.data) for table in tables)


def _receive(fabric: Fabric, batches: int, words: SharedWords) -> int:
    with UdpPort(fabric.device("nic1").address, DEFAULT_MTU) as port:
        words.barrier(RECEIVER, 2)
        return int(receive_stream(port.state, batches * BATCH, words.address(RECEIVED)))
