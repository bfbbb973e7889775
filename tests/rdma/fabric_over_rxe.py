"""A program for the guest: a fabric whose devices have queue pairs of rxe, and verified collectives over it.

`python -m tests.rdma.fabric_over_rxe '{"places": {"nic1": ["10.9.0.1", "rxe1"], ...}, "setups": [...], "seed": 1}'`
prints the result as JSON: see `main`.
"""

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
GROUP = "239.77.0.1"  # of the switch
ROOM = 8
DOWN = 0  # the end of the link whose interface goes down: rxe1's
CHECK = ["-m", "tests.rdma.port_over_rxe", "rxe1", "10.9.0.3"]  # an address that no device has
WAIT_SECONDS, POLL_SECONDS = 120.0, 0.05


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
            group=GROUP if name == SWITCH else "",
        )
        for name, (address, device) in places.items()
    )
    links = tuple(Link((name, SWITCH)) for name in places if name != SWITCH)
    return check(Fabric("rxe", devices, links), "rxe")


def say(text: str) -> None:
    """A line of progress for the log."""
    print(f"{time.monotonic():.1f} {text}", file=sys.stderr, flush=True)


def counters(running: Running) -> dict[str, dict[str, int]]:
    """The nonzero counters of each device."""
    found = {}
    for device in running.fabric.daemons:
        counted = device_query.query_status(running.state.socket(device.name))["counters"]
        found[device.name] = {name: value for name, value in counted.items() if value}
    return found


def run_program(running: Running, ranks: int, program: list[str]) -> dict[str, Any]:
    """Run a program with pyverbs' own traffic, by the user's command. Returns exit code and output."""
    say(" ".join(program))
    ended = subprocess.run(command_of(running, ranks, program), capture_output=True, text=True)
    return {"code": ended.returncode, "output": ended.stdout, "errors": ended.stderr}


def command_of(running: Running, ranks: int, program: list[str]) -> list[str]:
    """The command that runs a program as a job. Each rank may report its end."""
    fanin = [str(Path(sys.executable).with_name("fanin")), "run", "-n", str(ranks), "--name", running.fabric.name]
    return [*fanin, "--keep-going", "--", sys.executable, *program]


def status(running: Running, name: str) -> dict[str, Any]:
    return device_query.query_status(running.state.socket(name))


def await_port(running: Running, state: str) -> dict[str, Any]:
    """nic1's status of its verbs device as soon as its port has this state."""
    end = time.monotonic() + WAIT_SECONDS
    while (found := status(running, "nic1")["verbs"])["port"] != state:
        if time.monotonic() > end:
            raise TimeoutError(f"{found}")
        time.sleep(POLL_SECONDS)
    return dict(found)


def set_port(state: str) -> None:
    """Set the interface of rxe1 down or up, by the guest's own programs, outside of this root."""
    say(f"port {state}")
    outside = ["/proc/1/root/usr/bin/busybox", "chroot", "/proc/1/root", "/usr/bin/busybox", "sh", "/port.sh"]
    subprocess.run([*outside, state, str(DOWN)], check=True)


def open_port(*limit: str) -> str:
    """The output of a port on rxe1 that opens now."""
    return subprocess.run([sys.executable, *CHECK, *limit], capture_output=True, text=True, check=True).stdout.strip()


def lose_port(running: Running, ranks: int) -> dict[str, Any]:
    """Take the interface of rxe1 down during a job, and up again. Returns the ends of the job's ranks, the error of a
    port that opens meanwhile, nic1's status then and later, its log, and the end of a later job."""
    command = command_of(running, ranks, ["-m", "tests.rdma.sums", "0"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "begun\n"
        set_port("down")
        meanwhile = await_port(running, "down")
        refused = open_port()
        ended = [line for line in job.stdout.read().split("\n") if line not in ("begun", "")]
    say(" ".join(ended))
    set_port("up")
    then = await_port(running, "active")
    after = run_program(running, ranks, ["-m", "tests.rdma.sums", "20"])
    log = running.state.log("nic1").read_text()
    return {"ended": ended, "refused": refused, "meanwhile": meanwhile, "then": then, "log": log, "after": after}


def main() -> None:
    """Entry point. The result: calls and failures of the matrix, the counters of each device after it, what the switch
    sent to its group, the ends of the programs (a list of [ranks, program]), the outputs of ports with little and
    enough lockable memory, and of a port that went down."""
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    setups = tuple(JobSetup(*setup) for setup in wanted["setups"])
    sample = list(pairwise_sample(DIMENSIONS | {"setup": setups}, is_valid, wanted["seed"]))
    missing = set(COLLECTIVES) - {combination["collective"] for combination in sample}
    assert not missing, f"the sample lacks {missing}"
    say("fabric up")
    running = lifecycle.up(describe(wanted["places"]), say)
    try:
        result = run(running, sample, wanted["seed"], say)
        found = {"counters": counters(running), "to_group": status(running, SWITCH)["links"][GROUP]["tx_packets"]}
        found["programs"] = [run_program(running, *program) for program in wanted["programs"]]
        found["ports"] = [open_port("little"), open_port()]
        found["lost"] = lose_port(running, wanted["ranks"])
        print(json.dumps({**result.as_dict(), **found}))
        say("done")
    finally:
        lifecycle.down(running.fabric.name)


if __name__ == "__main__":
    main()
