"""Runs on each host for `fanin fabric check`: answers lines of JSON, {"do": name, ...}, until its input ends."""

import json
import os
import socket
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from fanin_nic.port import sockets
from fanin_tools.errors import ToolError
from fanin_tools.fabric.device_query import query_status
from fanin_tools.hosts import probe

ELEMENTS = 1 << 18  # of the allreduce: 1 MiB, many segments
ARP_TABLE, BOOT_ID = Path("/proc/net/arp"), Path("/proc/sys/kernel/random/boot_id")
Reply = dict[str, Any]


def hello(addresses: list[str]) -> Reply:
    """This host, and which of `addresses` are its own. network: equal for all that share a network stack."""
    network = f"{BOOT_ID.read_text().strip()} {os.stat('/proc/self/ns/net').st_ino}"
    return {
        "version": metadata.version("fanin"),
        "network": network,
        "own": [address for address in addresses if sockets.interface_of(address) is not None],
        "hardware": sorted(_hardware_addresses()),
    }


def _hardware_addresses() -> set[str]:
    found = (sockets.ask(name, sockets.GET_HARDWARE_ADDRESS) for _, name in socket.if_nameindex())
    return {answer[2:8].hex(":") for answer in found if answer}


def neighbours() -> Reply:
    """Hardware addresses by IPv4 address, as this host has learnt them."""
    rows = [line.split() for line in ARP_TABLE.read_text().splitlines()[1:]] if ARP_TABLE.exists() else []
    return {"neighbours": {row[0]: row[3] for row in rows if int(row[2], 16)}}


def status(socket: str) -> Reply:
    found = query_status(Path(socket))
    wanted = ("kind", "address", "version", "draining", "mtu", "lanes", "detection_s")
    return {name: found[name] for name in wanted} | {"probes": found["counters"][probe.COUNTER]}


def allreduce(job: str, rank: int, socket: str, seconds: float) -> Reply:
    """Join a job as one of its ranks, and verify an allreduce."""
    import numpy as np

    import fanin

    with tempfile.NamedTemporaryFile("w") as file:
        file.write(job)
        file.flush()
        described = fanin.Job.from_file(file.name)
    with fanin.Communicator(described, rank, socket, timeout=seconds) as communicator:
        data = communicator.alloc(ELEMENTS, np.int32)
        data[:] = np.arange(ELEMENTS) * (rank + 1)
        total = communicator.allreduce(data, timeout=seconds)
        expected = np.arange(ELEMENTS, dtype=np.int32) * (communicator.size * (communicator.size + 1) // 2)
        return {"wrong": int((total != expected).sum()), "path": communicator.path}


COMMANDS = {each.__name__: each for each in (hello, neighbours, status, probe.send, allreduce)}


def execute(line: str) -> Reply:
    from fanin.errors import FaninError
    from fanin_wire.status import status_entry

    command = json.loads(line)
    try:
        return COMMANDS[command.pop("do")](**command)
    except ToolError as error:
        return {"failed": error.as_dict()}
    except FaninError as error:
        name = status_entry(error.status).name
        return {"failed": {"name": name, "cause": error.detail or name, "remedy": error.remedy}}
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        return {"failed": {"name": "INTERNAL_ERROR", "cause": cause, "remedy": "report this defect"}}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(execute(line)), flush=True)


if __name__ == "__main__":
    main()
