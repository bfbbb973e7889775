"""A program for the guest: a fabric whose devices have queue pairs of rxe, and collectives over it, verified.

`python -m tests.rdma.fabric_over_rxe '{"places": {"nic1": ["10.9.0.1", "rxe1"], ...}, "setups": [...], "seed": 1}'`
prints what happened, as JSON: see `main`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fanin_tools.fabric import device_query, lifecycle
from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import Device, Fabric, Link
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch.collective_call import COLLECTIVES
from fanin_tools.stress.matrix.combinations import DIMENSIONS, is_valid
from fanin_tools.stress.matrix.pairwise import pairwise_sample
from fanin_tools.stress.matrix.run import run
from fanin_tools.stress.matrix.topologies import JobSetup

SWITCH = "leaf"
ROOM = 8


def describe(places: dict[str, tuple[str, str]]) -> Fabric:
    """NICs below one switch. places: address and verbs device of each."""
    devices = tuple(
        Device(
            kind="switch" if name == SWITCH else "nic",
            name=name,
            host=f"host-{name}",
            address=address,
            ranks=0 if name == SWITCH else ROOM,
            port=f"verbs://{device}",
        )
        for name, (address, device) in places.items()
    )
    links = tuple(Link((name, SWITCH)) for name in places if name != SWITCH)
    return check(Fabric("rxe", devices, links), "rxe")


def say(text: str) -> None:
    """Progress, for the log."""
    print(f"{time.monotonic():.1f} {text}", file=sys.stderr, flush=True)


def counters(running: Running) -> dict[str, dict[str, int]]:
    """The counters of each device that are not 0."""
    found = {}
    for device in running.fabric.daemons:
        counted = device_query.query_status(running.state.socket(device.name))["counters"]
        found[device.name] = {name: value for name, value in counted.items() if value}
    return found


def run_program(running: Running, ranks: int, program: list[str]) -> dict[str, Any]:
    """Exit code and output of a program with pyverbs' own traffic, by the command that a user gives."""
    say(" ".join(program))
    fanin = str(Path(sys.executable).with_name("fanin"))
    command = [fanin, "run", "-n", str(ranks), "--name", running.fabric.name, "--", sys.executable, *program]
    ended = subprocess.run(command, capture_output=True, text=True)
    return {"code": ended.returncode, "output": ended.stdout, "errors": ended.stderr}


def main() -> None:
    """Entry point. The result: calls and failures of the matrix, the counters of each device after it, and how the
    programs ended: a list of [ranks, program]."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    setups = tuple(JobSetup(*setup) for setup in wanted["setups"])
    sample = list(pairwise_sample(DIMENSIONS | {"setup": setups}, is_valid, wanted["seed"]))
    missing = set(COLLECTIVES) - {combination["collective"] for combination in sample}
    assert not missing, f"the sample lacks {missing}"
    say("fabric up")
    running = lifecycle.up(describe(wanted["places"]), say)
    try:
        result = run(running, sample, wanted["seed"], say)
        counted = counters(running)
        ended = [run_program(running, *program) for program in wanted["programs"]]
        print(json.dumps({**result.as_dict(), "counters": counted, "programs": ended}))
        say("done")
    finally:
        lifecycle.down(running.fabric.name)


if __name__ == "__main__":
    main()
