"""`fanin sim --rdma`: schedules of ordinary RDMA traffic, and one of them event by event."""

from rich.table import Table

from fanin_sim.rdma import RdmaTally, prepare, replay, run
from fanin_tools.cli.campaign import counts, faults, print_replay, run_campaign

ROWS = {
    "schedules": "schedules",
    "shared": "of them with shared receive queues",
    "connections_made": "connections",
    "deliveries": "packets delivered",
    "succeeded": "requests that have succeeded",
    "failed": "requests ended with an expected error",
    "received_messages": "messages received",
    "completions": "completions, checked",
}


def run_rdma(seconds: float, seed: int, processes: int, schedules: int | None, *, as_json: bool) -> None:
    """Run schedules and print the tally. Arguments and errors are those of `campaign.run_campaign`."""
    run_campaign(prepare, run, tables, seconds, seed, processes, schedules, as_json=as_json)


def run_rdma_trace(seed: int) -> None:
    """Run one seed, and print every event. Raises as `campaign.print_replay`."""
    print_replay(prepare, replay, seed, f"fanin sim --rdma --seed {seed} --trace")


def tables(tally: RdmaTally) -> list[Table]:
    return [counts("ordinary RDMA traffic", ROWS, tally, tally.profiles), faults(tally)]
