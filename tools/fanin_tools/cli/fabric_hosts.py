"""`fanin fabric check` and `fanin fabric job`: the user's own hosts, named by a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import ToolError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from fanin_tools.hosts.check import Report
    from fanin_tools.hosts.description import Hosts

SSH = "ssh -o BatchMode=yes {host}"
COLUMNS = ("host", "device", "address", "MTU", "version", "state")

HostsFile = Annotated[Path, typer.Argument(metavar="HOSTS", help="TOML file: the hosts, their NICs, the switches.")]


@reporting
def check(
    hosts: HostsFile,
    launch: Annotated[str, typer.Option(help="How to start a command on a host.")] = SSH,
    python: Annotated[
        str, typer.Option(metavar="PATH", help="Interpreter with Fanin there. Default: as here.", show_default=False)
    ] = sys.executable,
    json_output: options.Json = False,
) -> None:
    """Check devices on several hosts, the paths between them, and an allreduce. Exit code 1: something is wrong."""
    from fanin_tools.hosts import description
    from fanin_tools.hosts.check import Check
    from fanin_tools.hosts.session import Session

    described = description.read(hosts)
    with Session(described.names, launch, python) as session:
        found = Check(described, session, print_progress).run()
    names = ", ".join(dict.fromkeys(finding.host for finding in found.findings))
    failure = ToolError("HOSTS_DIFFER", f"wrong: {names}", "see each above; docs/several-hosts.md") if names else None
    if json_output:
        print_json(
            {
                "devices": found.devices,
                "findings": found.findings,
                "path": found.path,
                "error": failure and failure.as_dict(),
            }
        )
    else:
        _print(described, found)
    if failure:
        print_progress(f"fanin: {failure}")
        raise typer.Exit(failure.exit_code)


def _print(described: Hosts, found: Report) -> None:
    rows = []
    for device in described.devices():
        said = found.devices.get(device.address, {})
        state = "answers" if said else "does not answer"
        about = [str(said.get("mtu", "")), str(said.get("version", ""))]
        rows.append([device.host, device.kind, device.address, *about, state])
    print_table("devices", COLUMNS, rows)
    for finding in found.findings:
        print(finding)
    if found.path:
        print(f"allreduce over {len(described.hosts)} hosts: every bit is right; {found.path}")


@reporting
def job(
    hosts: HostsFile,
    ranks_per_host: Annotated[
        int, typer.Option(min=1, max=options.MAX_CHILDREN, help="Ranks on each host, in the order of the file.")
    ] = 1,
) -> None:
    """Print the description of a new job over hosts: the file that FANIN_JOB names, for one run of a program."""
    from fanin_tools.hosts import description

    print(description.read(hosts).job(ranks_per_host).to_text(), end="")
