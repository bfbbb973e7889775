"""The results of a demonstration as tables that fit into 80 columns."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from fanin_tools.demo import scene
from fanin_tools.demo.accounting import LinkTraffic
from fanin_tools.demo.allreduce import RouteResult
from fanin_tools.demo.collectives import CollectiveResult
from fanin_tools.demo.expected_traffic import NOTHING, Payload
from fanin_tools.demo.scene import NetworkResult
from fanin_tools.demo.section_result import SectionResult
from fanin_tools.demo.sections import DemoResult
from fanin_tools.quantities import counted, render_size, render_time

VECTOR_COLUMNS = ("rank", "vector")
SCENE_COLUMNS = ("link", "CONTRIBUTION", "RESULT", "there", "back", "expected")
RESULT_COLUMNS = ("route", "ranks", "bytes", "verified", "time", "slots used", "PROBEs")
LINK_COLUMNS = ("route", "device", "up", "down", "expected", "headers")
COLLECTIVE_COLUMNS = ("collective", "bytes", "verified")
SECTION_COLUMNS = ("section", "route", "with", "outcome")
TEXT_COLUMNS = ("rank", "vector", "link", "route", "device", "verified", "collective", *SECTION_COLUMNS)
WRONG = "bold red"


def tables(shown: DemoResult) -> Iterator[Table]:
    """Those with rows."""
    parts = (
        *([vectors()] if shown.networks else []),
        *map(network, shown.networks),
        results(shown.outcomes),
        links(shown.outcomes),
        collectives(shown.rows),
        section_results(shown.section_results),
    )
    return (table for table in parts if table.row_count)


def last_line(shown: DemoResult) -> Text:
    """The outcome of the whole demonstration."""
    count = len(shown.parts)
    if wrong := sum(not part.verified for part in shown.parts):
        return Text(f"{wrong} of {counted(count, 'result')} are wrong", WRONG)
    return Text(f"{counted(count, 'result')}: every bit is numpy's", "green")


def vectors() -> Table:
    """The scene's data: the first elements of some ranks, and of numpy's sum."""
    table = _table(f"{scene.NODES} nodes with {scene.RANKS_PER_NODE} ranks each", VECTOR_COLUMNS)
    table.caption, table.caption_justify = f"allreduce of {render_size(scene.MESSAGE_BYTES)} in 3 networks", "left"
    for name, elements in scene.vectors().items():
        table.add_row(name, " ".join(map(str, elements)) + " ...")
    return table


def network(shown: NetworkResult) -> Table:
    """The scene in one network: for each link the packets and the payload that its devices counted."""
    where = "cables between namespaces" if shown.netns else "loopback"
    table = _table(f"{shown.network} ({where})", SCENE_COLUMNS)
    for link in shown.links:
        results = f"<- {link.results}" if shown.route == "tree" else f"{link.results} ->"
        payload = map(render_size, link.payload)
        ends = f"{link.near} -- {link.far}"
        table.add_row(ends, f"{link.contributions} ->", results, *payload, _both_ways(link.expected))
    told = "every bit on every rank is numpy's" if shown.verified else _wrong(shown.wrong)
    again = f", {counted(shown.probes, 'PROBE')}" if shown.probes else ""
    table.caption, table.caption_justify = f"{told}, {render_time(shown.seconds)}{again}", "left"
    return table


def results(outcomes: list[RouteResult]) -> Table:
    table = _table("allreduce in the network devices", RESULT_COLUMNS)
    for outcome in outcomes:
        table.add_row(
            outcome.route,
            f"{outcome.ranks} on {outcome.nodes}",
            render_size(outcome.bytes),
            ", ".join(outcome.checked) if outcome.verified else _wrong(outcome.wrong),
            render_time(outcome.seconds),
            f"{outcome.use.slots} of {outcome.use.lease}",
            str(outcome.use.probes),
            style=None if outcome.verified else WRONG,
        )
    return table


def links(outcomes: list[RouteResult]) -> Table:
    """For each device of a route: payload without headers, beside the expected payload."""
    table = _table("payload on the links", LINK_COLUMNS)
    for outcome in outcomes:
        for name, link in outcome.use.links.items():
            expected = outcome.expected.get(name, NOTHING)
            if expected != NOTHING or link.wire_up:
                up, down = render_size(link.payload_up), render_size(link.payload_down)
                table.add_row(outcome.route, name, up, down, _both_ways(expected), _overhead(link))
        table.add_section()
    return table


def collectives(rows: list[CollectiveResult]) -> Table:
    """With the time of each collective over each route."""
    routes = list(rows[0].seconds) if rows else []
    table = _table("collectives", (*COLLECTIVE_COLUMNS, *routes))
    for row in rows:
        wrong = [f"{route} {_wrong(count)}" for route, count in row.wrong.items() if count]
        times = [render_time(row.seconds[route]) for route in routes]
        verified = ", ".join(wrong) or "every bit"
        style = None if row.verified else WRONG
        table.add_row(row.collective, render_size(row.bytes) if row.bytes else "-", verified, *times, style=style)
    return table


def section_results(rows: list[SectionResult]) -> Table:
    table = _table("more than one collective after the other", SECTION_COLUMNS)
    for row in rows:
        outcome = row.outcome if row.verified else f"NO: {row.outcome}"
        table.add_row(row.section, row.route, row.setting, outcome, style=None if row.verified else WRONG)
    return table


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in TEXT_COLUMNS else "right")
    return table


def _wrong(elements: int) -> str:
    return f"NO: {counted(elements, 'element')}"


def _both_ways(expected: Payload) -> str:
    up, down = map(render_size, expected)
    return f"{up} each way" if expected.up == expected.down else f"{up}, {down}"


def _overhead(link: LinkTraffic) -> str:
    """Of the sent IP packets, as a share of the payload."""
    return f"{(link.wire_up - link.payload_up) / link.payload_up:.2%}" if link.payload_up else "-"
