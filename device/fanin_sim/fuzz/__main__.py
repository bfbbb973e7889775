"""Play schedules: `python -m fanin_sim.fuzz [--seed S] [--schedules N | --seconds T] [--processes P] [--trace]`.

Exits with 1 when something was broken, and prints the shortest schedule that breaks it. For tests of broken engines;
people use `fanin sim --storm`.
"""

from __future__ import annotations

import argparse
import json
import sys

from fanin_sim.fuzz.campaign import replay, run
from fanin_sim.fuzz.schedule import describe
from fanin_sim.fuzz.trace_format import Story


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the module; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fanin_sim.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--schedules", type=int, help="so many seeds; without it, for --seconds")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="play one seed, and print every event")
    given = parser.parse_args(arguments)
    if given.trace:
        return trace(given.seed)
    seconds = given.seconds if given.schedules is None else float("inf")
    tally = run(seconds, given.seed, given.processes, schedules=given.schedules)
    print(json.dumps(tally.as_dict(), indent=2))
    return 1 if tally.failures else 0


def trace(seed: int) -> int:
    """Play a seed, and print every event."""
    plan, outcome, lines = replay(seed)
    print(Story(plan).heading())
    for line in lines:
        print(line)
    if outcome.violation:
        print(describe(outcome))
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main())
