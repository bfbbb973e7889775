"""A program for the guest: ranks at one end of the link, devices at the other, collectives by rdma://, and kills.

`python -m tests.rdma.host_over_rxe '{"places": {"nic1": ["10.9.1.1", "rxe2"], ...}, "ranks_at": "rxe1", ...}'` prints
the result as JSON: see `main`. The same program makes the same calls over the UNIX sockets.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fanin.mpi import library_path
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import Device, Fabric
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import eventually
from tests.e2e.rank_processes import Kills, Ranks
from tests.e2e.remote_ranks import Pool, calls, failures, long_calls
from tests.rdma.fabric_over_rxe import SWITCH, say
from tests.rdma.fabric_over_rxe import describe as over_rxe
from tests.rdma.machine.programs import GUEST_PROGRAM

PORT = 4792
OF_MPI = {  # all is offloaded, and reported
    "UCX_TLS": "self,sm,tcp",  # else Debian's MPICH would use rxe for its own messages, and fail
    "FANIN_MPI_THRESHOLDS": "all=0-",
    "FANIN_MPI_JOIN": "early",
    "FANIN_MPI_STRICT": "1",
    "FANIN_MPI_REPORT": "1",
}
SECONDS = 600.0  # for 20 s on a processor that is neither emulated nor shared


Objects = dict[str, dict[str, int]]  # of each verbs device: how many of each kind the kernel has


def describe(places: dict[str, tuple[str, str]], port: int, token: Path) -> Fabric:
    """NICs below a switch, all at one end of the link, which serve ranks by RDMA at their addresses and `port`. Their
    packets use verbs devices too: rxe has the UDP port of RoCE."""
    fabric = over_rxe(places)

    def with_rdma(device: Device) -> Device:
        address, verbs_device = places[device.name]
        return replace(device, rdma=f"rdma://{verbs_device}@{address}:{port}", token_file=str(token))

    devices = tuple(with_rdma(device) if device.kind == "nic" else device for device in fabric.devices)
    return check(replace(fabric, devices=devices), fabric.name)


def objects() -> Objects:
    """The kernel's verbs objects of each rxe device, by kind."""
    shown = subprocess.run([*GUEST_PROGRAM, "/run/guest/bin/rdma", "-j", "resource"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    return {row["ifname"]: {kind: row[kind] for kind in ("pd", "cq", "qp", "mr")} for row in json.loads(shown.stdout)}


def assert_given_back(before: Objects) -> None:
    """No queue pair, memory region or other object of ended ranks is left, on either side."""
    eventually(objects, lambda now: now == before, SECONDS)


def addresses_of(wanted: dict[str, Any]) -> list[str]:
    """The NIC's address for the ranks of each node: through the verbs device at their end of the link."""
    nics = [address for name, (address, _) in wanted["places"].items() if name != SWITCH]
    return [f"rdma://{wanted['ranks_at']}@{address}:{PORT}" for address in nics]


def verified(running: Running, wanted: dict[str, Any]) -> dict[str, Any]:
    """Collectives on a route, over each interface in turn (rdma or unix), by the same processes: number, errors."""
    route, ranks = wanted["route"], wanted["ranks"]
    sockets = [str(running.state.socket(nic.name)) for nic in running.fabric.nics]
    made = [*calls(wanted["sizes"]), *long_calls(wanted["long"], sum(ranks))]
    found = []
    with Pool(running, sum(ranks), SECONDS) as pool:
        for interface in wanted["interfaces"]:
            say(f"{route} over {interface}")
            addresses = addresses_of(wanted) if interface == "rdma" else sockets
            of_nodes = [[address] * count for address, count in zip(addresses, ranks, strict=False)]
            found += [f"{interface}, {each}" for each in failures(pool, route, made, of_nodes)]
    return {"calls": len(made) * len(wanted["interfaces"]), "wrong": found}


def kill_all(running: Running, wanted: dict[str, Any], folder: Path, before: Objects) -> list[str]:
    """Kill ranks and devices. Returns the victims: rank or device, and the route of its job. A kill that goes
    unnoticed, or leaves objects behind, is an error."""

    def start(route: str) -> Ranks:
        ranks = Ranks(running, addresses_of(wanted), os.environ, folder, route, [wanted["working_rank"]])
        eventually(objects, lambda now: now != before, SECONDS)
        return ranks

    kills, killed = Kills(running, start, wanted["seed"], SECONDS), []
    for kind, route in (kill.split() for kill in wanted["kills"]):
        victim = kills.kill_rank(route) if kind == "rank" else kills.kill_device(route)
        say(f"killed {victim}")
        assert_given_back(before)
        killed.append(f"{kind} {route}")
    return killed


def run_mpi(command: list[str], address: str) -> dict[str, Any]:
    """An unchanged MPI program under the shim, with the address of a device in FANIN_SOCKET."""
    say(" ".join(command))
    variables = {"FANIN_SOCKET": address, "LD_PRELOAD": str(library_path()), **OF_MPI}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    launcher, options, program = command[0], command[1:-1], command[-1]
    line = [launcher, *options, "env", *assignments, program]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
    return {"code": ended.returncode, "output": ended.stdout, "errors": ended.stderr}


def work(running: Running, wanted: dict[str, Any], folder: Path, before: Objects) -> Any:
    if wanted["do"] == "collectives":
        return verified(running, wanted)
    if wanted["do"] == "kills":
        return kill_all(running, wanted, folder, before)
    return run_mpi(wanted["command"], addresses_of(wanted)[0])


def main() -> None:
    """Entry point. `do`: `collectives` (see `verified`), `kills` of ranks of the program `working_rank` and of devices
    (`kill_all`), or `mpi` (`run_mpi`)."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="fanin-host-") as name:
        token = Path(name) / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        os.environ["FANIN_TOKEN_FILE"] = str(token)
        say("fabric up")
        running = lifecycle.up(describe(wanted["places"], PORT, token), say)
        try:
            before = objects()
            result = work(running, wanted, Path(name), before)
            assert_given_back(before)
            print(json.dumps(result))
            say("done")
        finally:
            lifecycle.down(running.fabric.name)


if __name__ == "__main__":
    main()
