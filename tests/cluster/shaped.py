"""Hand-offs over shaped links between namespaces, as a table: `shaped.py [RATE] [SIZE]`, as root, on an idle machine.

Every link is a cable between two NICs in namespaces. The data go to 8 processes of node 2 by broadcasts.

| row | carries |
| --- | --- |
| k links | the data, once, in k stripes; the fastest of five |
| a copy for each GPU | the data eight times, as sends to each GPU would carry them |
| a link is cut | the data, once; link 0 goes down when its first chunk has arrived |
"""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from fanin_tools.fabric import lifecycle, namespaces
from fanin_tools.fabric.description import Fabric, Link
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.quantities import parse_rate, parse_size
from tests.cluster.sending_node import GPUS
from tests.e2e.fabrics import silent, statuses
from tests.fabric.fixtures import own_state_folder
from tests.ordinary.sides import sockets

LINKS = 4
BOUND_S = 120.0
RUNS = 5
DETECTION = 3.0


def described(rate: str) -> Fabric:
    """`LINKS` cables, each between a NIC of node 1 and one of node 2."""
    fabric = make("handoff", Shape(2 * LINKS, GPUS, direct=True, netns=True, rate=rate, detection=DETECTION))
    cables = tuple(Link((f"nic{each}", f"nic{LINKS + each}"), rate) for each in range(LINKS))
    return msgspec.structs.replace(fabric, links=cables)


def carried(running: Running, links: int, sizes: list[int], **options: Any) -> tuple[list[float], int, list[Any]]:
    """Transfers over the first links. Returns the seconds of each, the bytes of all, and the failed links."""
    ends = list(zip(sockets(running), (nic.address for nic in running.fabric.nics), strict=True))
    told = {"first": ends[:links], "second": ends[LINKS : LINKS + links], "sizes": sizes}
    told |= {"kill": 0, "senders": 1, "tensors": 0, **options}
    before = sent(running)
    command = [sys.executable, "-m", "tests.cluster.broadcast_ranks", json.dumps(told)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [each["error"] for each in said if "error" in each]
    if wrong or len(said) != GPUS + 1:
        raise SystemExit(f"fanin: a transfer has failed: {wrong or done.stderr}")
    seconds = [
        max(each["ended"][number] for each in said) - min(each["begun"][number] for each in said)
        for number in range(len(sizes))
    ]
    return seconds, sent(running) - before, said[0]["failed"][-1]


def sent(running: Running) -> int:
    """Bytes on the wire out of the NICs of node 1, headers included."""
    found = statuses(running)
    return sum(link["tx_bytes"] for nic in range(LINKS) for link in found[f"nic{nic}"]["links"].values())


def main() -> None:
    rate, size = (*sys.argv[1:], *("1gbit", "32M")[len(sys.argv) - 1 :])
    data, bytes_per_second = parse_size(size), parse_rate(rate) / 8
    print(f"| {size} to {GPUS} processes, links of {rate} | seconds | D/(k B) | ratio | bytes on the wire / D |")
    print("| --- | --- | --- | --- | --- |")
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        running = lifecycle.up(described(rate), silent)

        def row(name: str, seconds: float, least: float, wire: float) -> None:
            print(f"| {name} | {seconds:.3f} | {least:.3f} | {seconds / least:.2f} | {wire / data:.3f} |", flush=True)

        for links in (1, 2, LINKS):
            seconds, wire, _ = carried(running, links, [data] * RUNS)
            row(f"{links} links", min(seconds), data / links / bytes_per_second, wire / RUNS)
        seconds, wire, _ = carried(running, 1, [data] * GPUS)
        row("a copy for each GPU, 1 link", sum(seconds), GPUS * data / bytes_per_second, wire)
        nic = running.fabric.nics[0]
        cut = namespaces.prefix_command(running.fabric, nic.host)
        cut += ["ip", "link", "set", namespaces.interface(running.fabric, 0, nic), "down"]
        seconds, wire, failed = carried(running, 2, [data], cut=cut)
        if failed != [0]:
            raise SystemExit(f"fanin: link 0 has been cut, and {failed} have failed")
        row("2 links, one is cut (with its detection)", seconds[0], data / bytes_per_second, wire)


if __name__ == "__main__":
    main()
