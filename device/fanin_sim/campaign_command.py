"""Command of a schedule fuzzer: `python -m MODULE [--seed S] [--schedules N | --seconds T] [--processes P] [--trace]`.

Prints the tally as JSON. The exit code is 1 after a violation. Tests of defective devices use these commands; `fanin
sim` prints tables for people.
"""

import json
import sys
from collections.abc import Callable, Sequence

from fanin_sim.campaign import Replay, Tell
from fanin_sim.findings import Tally
from fanin_wire.command_line import Parser

LINE_SECONDS = 15.0  # between two lines about the progress


def main(
    module: str,
    run: Callable[..., Tally],
    replay: Callable[[int], Replay],
    arguments: Sequence[str] | None = None,
) -> int:
    """Entry point; returns the exit code. run, replay: those of the fuzzer that `module` names."""
    parser = Parser(prog=f"python -m {module}", description="Runs schedules.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--schedules", type=int, help="number of seeds; without it, --seconds ends the run")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="run one seed, and print every event")
    given = parser.parse_args(arguments)
    if given.trace:
        return _trace(replay(given.seed))
    seconds = given.seconds if given.schedules is None else float("inf")
    tally = run(seconds, given.seed, given.processes, schedules=given.schedules, tell=_teller())
    print(json.dumps(tally.as_dict(), indent=2))
    return 1 if tally.findings else 0


def _teller() -> Tell:
    """Prints a line at times on the error output."""
    due = LINE_SECONDS

    def tell(seconds: float) -> None:
        nonlocal due
        if seconds >= due:
            due += LINE_SECONDS
            print(f"running schedules ... {seconds:.0f} s", file=sys.stderr, flush=True)

    return tell


def _trace(replayed: Replay) -> int:
    print(replayed.heading)
    for line in replayed.lines:
        print(line)
    if replayed.violation:
        print(replayed.violation)
    return 1 if replayed.violation else 0
