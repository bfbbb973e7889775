"""`fanin doctor`."""

from __future__ import annotations

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.doctor.check import Finding, Level

STYLES = {Level.OK: "green", Level.LIMITED: "yellow", Level.MISSING: "yellow", Level.BROKEN: "bold red"}


@reporting
def doctor(json_output: options.Json = False) -> None:
    """Say what this machine can do and what is missing for the rest. Fails only if nothing can work."""
    from fanin_tools.doctor import software, system

    findings = [*software.look(), *system.look()]
    if json_output:
        print_json(findings)
    else:
        _print_table(findings)
    raise typer.Exit(1 if any(finding.level == Level.BROKEN for finding in findings) else 0)


def _print_table(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="this machine", title_justify="left")
    for column in ("subject", "state", "found", "needed for", "what to do"):
        table.add_column(column)
    for finding in findings:
        state = f"[{STYLES[finding.level]}]{finding.level}[/]"
        table.add_row(finding.subject, state, finding.detail, finding.enables, finding.remedy)
    Console().print(table)
