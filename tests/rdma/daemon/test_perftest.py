"""perftest between the NIC, with the verbs library preloaded, and rxe: the same program on both ends, unchanged."""

import os
import re
import subprocess
from typing import NamedTuple

import pytest

from fanin.verbs_lib import library_path
from fanin_tools.fabric import namespaces
from tests.rdma.cases import ALL
from tests.verbs_lib.conftest import require
from tests.verbs_lib.perftest import until_timed

from .network import Daemons

SAMPLE = ("ib_send_bw", "ib_read_lat")
COMMANDS = (
    *SAMPLE,
    "ib_write_bw",
    "ib_read_bw",
    "ib_atomic_bw -A FETCH_AND_ADD",
    "ib_atomic_bw -A CMP_AND_SWAP",
    "ib_send_lat",
    "ib_write_lat",
    "ib_atomic_lat",
    "ib_send_bw -c UC",
    "ib_write_bw -c UC",
    "ib_send_lat -c UD",
    "ib_send_bw -b",
    "ib_write_bw -b",
    "ib_write_bw -q 4",
    "ib_write_bw -m 256 -s 20000",
    "ib_write_bw -m 4096 -s 1048576",
    "ib_read_bw -m 4096 -s 1048576",
    "ib_send_bw -m 256 -s 3",
)
ROW = re.compile(r"^ *\d+ +(\d+) .*?([\d.]+)\s*$", re.M)  # iterations; messages a second, or a latency
ITERATIONS = 40
READS = "16"  # Fanin's limit; rxe has 128, and the programs use their own device's
TIMEOUT = "20"  # 4 s, for a busy machine
PORT = 18515
SECONDS = 100
GIDS = {"fanin0": "0", "rxe0": "1"}  # index of the IPv4 address of each device
WAYS = ("fanin to rxe", "rxe to fanin")  # from the client to the server


class Side(NamedTuple):
    """The start command of a program on a device."""

    device: str
    line: list[str]


def side(device: str, command: str) -> Side:
    sizes = [] if " -s " in command or "atomic" in command else ["-s", "4096" if "-c UD" not in command else "1024"]
    if "read" in command or "atomic" in command:
        sizes += ["-o", READS]
    options = ["-d", device, "-x", GIDS[device], "-n", str(ITERATIONS), "-p", str(PORT), "-F", "-u", TIMEOUT, *sizes]
    return Side(device, [*command.split(), *options])


class Program:
    def __init__(self, network: Daemons, line: list[str]) -> None:
        prefix = namespaces.prefix_command(network.fabric.fabric, network.nic.host)
        self.process = subprocess.Popen(
            [*prefix, require(line[0]), *line[1:]],
            env=os.environ | {"FANIN_SOCKET": network.socket, "LD_PRELOAD": str(library_path())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def await_listener(self) -> None:
        """Return when it listens, or has ended."""
        rows = re.compile(rf"^\s*\d+: \w+:{PORT:04X} \w+:\w+ 0A ", re.M)
        tables = [f"/proc/{self.process.pid}/net/{name}" for name in ("tcp", "tcp6")]
        while self.process.poll() is None:
            for table in tables:
                try:
                    with open(table) as file:
                        if rows.search(file.read()):
                            return
                except OSError:  # it has ended
                    break

    def finish(self) -> tuple[int, str]:
        try:
            output, _ = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
        return self.process.returncode, output


def run_pair(network: Daemons, command: str, way: str) -> dict[str, tuple[int, str]]:
    """Exit status and output of both, by device."""
    guest = network.guest
    if way == WAYS[0]:
        line = side("rxe0", command).line
        server = guest.call("start", command=line, port=PORT)
        client = Program(network, [*side("fanin0", command).line, guest.address])
        host = client.finish()
        there = guest.call("finish", program=server, seconds=SECONDS, within=2 * SECONDS)
    else:
        program = Program(network, side("fanin0", command).line)
        program.await_listener()
        line = [*side("rxe0", command).line, network.nic.address]
        started = guest.call("start", command=line, port=0)
        there = guest.call("finish", program=started, seconds=SECONDS, within=2 * SECONDS)
        host = program.finish()
    return {"fanin0": host, "rxe0": (there["status"], there["output"])}


def text_of(ended: dict[str, tuple[int, str]]) -> str:
    """The output of both."""
    return "\n".join(f"{device}: {status}\n{output}" for device, (status, output) in ended.items())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", COMMANDS if ALL else SAMPLE)
def test_programs_end_well(network, command, way):
    ended = until_timed(lambda: run_pair(network, command, way), text_of)
    said = text_of(ended)
    assert [status for status, _ in ended.values()] == [0, 0], said
    client = ended["fanin0" if way == WAYS[0] else "rxe0"][1]
    rows = ROW.findall(client)
    assert rows, said
    assert all(int(iterations) % ITERATIONS == 0 and float(last) > 0 for iterations, last in rows), said
