"""Runs schedules: `python -m fanin_sim.rdma [--seed S] [--schedules N | --seconds T] [--processes P] [--trace]`.

Prints the tally as JSON. The exit code is 1 if anything was violated. Tests of defective transports use this command;
`fanin sim --rdma` prints tables for people.
"""

from __future__ import annotations

import argparse
import json
import sys

from fanin_sim.rdma.campaign import replay, run
from fanin_sim.rdma.schedule import describe
from fanin_sim.rdma.trace_format import heading


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the module; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fanin_sim.rdma", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--schedules", type=int, help="number of seeds; without it, --seconds ends the run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="run one seed, and print every event")
    given = parser.parse_args(arguments)
    if given.trace:
        return trace(given.seed)
    seconds = given.seconds if given.schedules is None else float("inf")
    tally = run(seconds, given.seed, given.processes, schedules=given.schedules)
    print(json.dumps(tally.as_dict(), indent=2))
    return 1 if tally.findings else 0


def trace(seed: int) -> int:
    """Run a seed, and print every event; returns the exit code."""
    plan, outcome, lines = replay(seed)
    print(heading(plan))
    for line in lines:
        print(line)
    if outcome.violation:
        print(describe(outcome))
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main())
