"""perftest on NICs of Fanin and on rxe, over the same link of one virtual machine.

`python -m tests.rdma.perftest_beside_rxe` prints a table. Emulation slows code with vector instructions by another
factor than other code: the figures compare the two there, not real machines.
"""

import json
import sys

from .machine import programs
from .machine.guest import Guest, running
from .machine.image import Image, image
from .perftest_pair import COMMANDS

SECONDS = 1200
NAMESPACE = "perftest"  # of the network, for Fanin: rxe has the UDP port of RoCE wherever it is
LINK = "busybox sh /link.sh"
KINDS = ("rxe", "fanin")


def measure(guest_image: Image) -> dict[str, dict[str, float]]:
    """Results of each command by kind of device. Each kind has its own guest."""
    environment = programs.prepare()
    found = {}
    for kind in KINDS:
        with running(guest_image, with_files=True) as machine:
            found[kind] = json.loads(_measure(machine, environment, kind))
            print(f"{kind}: {found[kind]}", file=sys.stderr, flush=True)
    return found


def _measure(machine: Guest, environment: dict[str, str], kind: str) -> str:
    programs.install_verbs(machine)
    if kind == "rxe":
        machine.call("run", command=["busybox", "sh", "-c", LINK])
        return programs.run_module(machine, environment, "tests.rdma.perftest_pair", [kind], SECONDS)
    ip = "/usr/sbin/ip"
    script = f"{ip} netns add {NAMESPACE} && {ip} -n {NAMESPACE} link set lo up"
    script += f" && {ip} netns exec {NAMESPACE} {LINK} no-rxe"
    machine.call("run", command=["busybox", "sh", "-c", script])
    prefix = [ip, "netns", "exec", NAMESPACE]
    return programs.run_module(machine, environment, "tests.rdma.perftest_pair", [kind], SECONDS, prefix)


def main() -> None:
    found = measure(image())
    print("| operation | rxe | Fanin | command |\n| --- | --- | --- | --- |")
    for title, command in COMMANDS.items():
        unit = "us" if "lat" in command else "MB/s"
        rxe, fanin = (f"{found[kind][title]:.4g} {unit}" for kind in KINDS)
        print(f"| {title} | {rxe} | {fanin} | `{command}` |")


if __name__ == "__main__":
    main()
