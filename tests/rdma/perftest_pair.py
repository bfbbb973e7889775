"""A program for the guest: perftest between the two ends of its link, on rxe or on NICs of Fanin.

`python -m tests.rdma.perftest_pair rxe` or `... fanin` prints the results of COMMANDS as JSON.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from fanin.verbs_lib import library_path
from tests.verbs_lib.perftest import until_timed

ENDS = {"rxe1": "10.9.0.1", "rxe2": "10.9.1.1"}  # address of each end of the link, by its rxe device
COMMANDS = {  # perftest's command, and the unit of its last column but one, or of its typical time
    "RC WRITE of 1 MiB": "ib_write_bw -m 4096 -s 1048576 -n 100",
    "RC SEND of 1 MiB": "ib_send_bw -m 4096 -s 1048576 -n 100",
    "RC READ of 1 MiB": "ib_read_bw -m 4096 -s 1048576 -n 100 -o 16",
    "RC WRITE of 8 bytes, one way": "ib_write_lat -s 8 -n 500",
    "UD SEND of 8 bytes, one way": "ib_send_lat -c UD -s 8 -n 500",
    "fetch and add": "ib_atomic_lat -A FETCH_AND_ADD -n 500 -o 16",
}
ROW = re.compile(r"^ *\d+ +\d+ +.*\d *$", re.M)
AVERAGE, TYPICAL = 3, 4  # columns: MB a second of a bandwidth, us of a latency
PORT = 18515
LISTENING = re.compile(rf"^\s*\d+: \w+:{PORT:04X} \w+:\w+ 0A ", re.M)
SECONDS = 120
Place = tuple[list[str], Mapping[str, str]]  # options and environment of a program at an end


def gid_index(device: str, address: str) -> int:
    wanted = "ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))
    folder = Path(f"/sys/class/infiniband/{device}/ports/1")
    for gid in sorted(folder.glob("gids/*")):
        if gid.read_text().strip().endswith(wanted) and "v2" in (folder / "gid_attrs/types" / gid.name).read_text():
            return int(gid.name)
    raise AssertionError(f"{device} has no GID of {address}")


def measure(server: Place, client: Place) -> dict[str, float]:
    def figure(command: str) -> float:
        return until_timed(lambda: run_pair(command, server, client), lambda outcome: outcome[1])[0]

    return {title: figure(command) for title, command in COMMANDS.items()}


def run_pair(command: str, server: Place, client: Place) -> tuple[float, str]:
    """MB a second, or us, that the client prints; its errors."""
    line = [*command.split(), "-p", str(PORT), "-F", "-u", "20"]
    print(line, file=sys.stderr, flush=True)
    listener = subprocess.Popen([*line, *server[0]], env=dict(server[1]), stdout=subprocess.DEVNULL)
    try:
        while not any(LISTENING.search(Path(f"/proc/net/{table}").read_text()) for table in ("tcp", "tcp6")):
            assert listener.poll() is None, f"{command}: the server has ended"
            time.sleep(0.01)
        ended = subprocess.run(
            [*line, *client[0], "127.0.0.1"], env=dict(client[1]), capture_output=True, text=True, timeout=SECONDS
        )
        assert ended.returncode == 0, f"{command}: {ended.stdout} {ended.stderr}"
        assert listener.wait(SECONDS) == 0, f"{command}: the server"
        (row,) = ROW.findall(ended.stdout)
        return float(row.split()[TYPICAL if "lat" in command else AVERAGE]), ended.stderr
    finally:
        listener.kill()
        listener.wait()


def on_rxe() -> dict[str, float]:
    places = [(["-d", device, "-x", str(gid_index(device, address))], os.environ) for device, address in ENDS.items()]
    return measure(*places)


def on_fanin() -> dict[str, float]:
    """On a NIC at each end, with the verbs library preloaded. It needs the UDP port of RoCE for itself."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ended:
        places: list[Place] = []
        for number, address in enumerate(ENDS.values()):
            socket = Path(folder, str(number))
            nic = Path(sys.executable).with_name("fanin-nic")
            process = subprocess.Popen([nic, "--name", f"nic{number}", "--address", address, "--socket", socket])
            ended.callback(process.wait)
            ended.callback(process.terminate)
            while not socket.exists():
                assert process.poll() is None, "a NIC has ended"
                time.sleep(0.01)
            preloaded = {"LD_PRELOAD": str(library_path()), "FANIN_SOCKET": str(socket)}
            places.append((["-d", "fanin0", "-x", "0"], os.environ | preloaded))
        return measure(*places)


if __name__ == "__main__":
    print(json.dumps({"rxe": on_rxe, "fanin": on_fanin}[sys.argv[1]]()))
