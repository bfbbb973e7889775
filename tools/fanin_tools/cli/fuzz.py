"""`fanin sim --fuzz` and `fanin sim --trace`: the schedule fuzzer, and one schedule event by event."""

from rich.table import Table

from fanin_sim.fuzz import FuzzTally, prepare, replay, run
from fanin_tools.cli.campaign import counts, faults, print_replay, run_campaign

PERCENT = 100
ROWS = {
    "schedules": "schedules",
    "deliveries": "packets delivered",
    "packets_lost": "packets lost",
    "requests": "requests",
    "failed_requests": "requests ended with an expected error",
    "peer_lost_reports": "PEER_LOST reports, checked",
    "slot_shortages": "jobs refused for lack of slots",
}
NAMES = {
    "wraps": "uses of a slot",
    "duration_ms": "virtual time, ms",
    "slowest_ms": "last fault to last end of a request, ms",
}


def run_fuzzer(seconds: float, seed: int, processes: int, schedules: int | None, *, as_json: bool) -> None:
    """Run schedules and print the tally. Arguments and errors are those of `campaign.run_campaign`."""
    run_campaign(prepare, run, tables, seconds, seed, processes, schedules, as_json=as_json)


def run_trace(seed: int) -> None:
    """Run one seed, and print every event. Raises as `campaign.print_replay`."""
    print_replay(prepare, replay, seed, f"fanin sim --seed {seed} --trace")


def tables(tally: FuzzTally) -> list[Table]:
    table = counts("schedules", ROWS, tally, tally.profiles)
    full, minutes = tally.counts["full"], max(tally.seconds, 1e-9) / 60
    table.add_row("full schedules (docs/simulator.md)", f"{full}, {full / minutes:.0f} a minute")
    return [table, faults(tally), distributions(tally)]


def distributions(tally: FuzzTally) -> Table:
    table = Table(title="per schedule (rounded down to half a power of two)", title_justify="left")
    for column in ("", "min", "10 %", "median", "90 %", "max"):
        table.add_column(column, justify="right" if column else "left")
    for name, distribution in tally.distributions.items():
        cells = [str(distribution.quantile(share / PERCENT)) for share in (0, 10, 50, 90, 100)]
        table.add_row(NAMES.get(name, name), *cells)
    return table
