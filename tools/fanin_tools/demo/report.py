"""The outcomes of a demonstration as two tables: what came out, and what each NIC's links carried."""

from __future__ import annotations

from rich.table import Table

from fanin_tools.demo.accounting import LinkUse
from fanin_tools.demo.demo import Outcome
from fanin_tools.quantities import counted, render_size, render_time

RESULT_COLUMNS = ("route", "ranks", "bytes", "verified", "time", "slots used", "PROBEs")
LINK_COLUMNS = ("route", "NIC", "up", "down", "expected each way", "headers")


def results(outcomes: list[Outcome]) -> Table:
    """One row per route."""
    table = _table("allreduce in the network devices", RESULT_COLUMNS)
    for outcome in outcomes:
        verified = ", ".join(outcome.checked) if outcome.verified else f"NO: {counted(outcome.wrong, 'element')}"
        table.add_row(
            outcome.route,
            f"{outcome.ranks} on {outcome.nodes}",
            render_size(outcome.bytes),
            verified,
            render_time(outcome.seconds),
            f"{outcome.use.slots} of {outcome.use.lease}",
            str(outcome.use.probes),
            style=None if outcome.verified else "bold red",
        )
    return table


def links(outcomes: list[Outcome]) -> Table:
    """One row per NIC of each route that leaves its node: payload bytes without headers, beside the expectation."""
    table = _table("payload on the links", LINK_COLUMNS)
    for outcome in outcomes:
        for name, link in outcome.use.links.items():
            if outcome.expected_payload or link.wire_up:
                up, down = render_size(link.payload_up), render_size(link.payload_down)
                table.add_row(outcome.route, name, up, down, render_size(outcome.expected_payload), _overhead(link))
        table.add_section()
    return table


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("route", "NIC", "verified") else "right")
    return table


def _overhead(link: LinkUse) -> str:
    """Bytes of sent IP packets that are not payload, as a share of the payload."""
    return f"{(link.wire_up - link.payload_up) / link.payload_up:.2%}" if link.payload_up else "-"
