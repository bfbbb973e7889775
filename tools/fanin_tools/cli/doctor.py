"""`fanin doctor`."""

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.doctor.check import CheckResult, Level

STYLES = {
    Level.OK: "green",
    Level.LIMITED: "yellow",
    Level.MISSING: "yellow",
    Level.ABSENT: "dim",
    Level.BROKEN: "bold red",
}


@reporting
def doctor(json_output: options.Json = False) -> None:
    """Check what this machine can do, and what is missing for the rest. Fails only if nothing can work."""
    from fanin_tools.doctor import card, remote, software, system

    results = [*software.run_checks(), *system.run_checks(), *card.run_checks(), *remote.run_checks()]
    if json_output:
        print_json(results)
    else:
        _print_table(results)
    raise typer.Exit(1 if any(result.level == Level.BROKEN for result in results) else 0)


def _print_table(results: list[CheckResult]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title="this machine", title_justify="left", box=None)
    for column in ("state", "subject", "found", "needed for"):
        table.add_column(column, overflow="fold")  # paths must stay whole
    for result in results:
        state = Text(result.level, STYLES[result.level])
        table.add_row(state, *map(Text, (result.subject, result.detail, result.enables)))
    Console().print(table)
    if todo := [result for result in results if result.remedy]:
        print("\nwhat to do:")
        for result in todo:
            print(f"  {result.subject}: {result.remedy}")
