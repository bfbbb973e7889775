"""`fanin device status|drain`: one device by its control socket, however it was started."""

from pathlib import Path
from typing import Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.help import App
from fanin_tools.cli.output import print_json, reporting

app = App(no_args_is_help=True, help="One device, by its control socket.")

Socket = Annotated[Path, typer.Argument(help="Control socket: the --socket of fanin-nic or fanin-switch.")]


@app.command()
@reporting
def status(socket: Socket, json_output: options.Json = False) -> None:
    """Show whether the device accepts ranks. Exit code 1: it does not answer, or drains."""
    from fanin_tools.fabric.device_query import query_status

    found = query_status(socket)
    if json_output:
        print_json(found)
    else:
        state = "drains" if found["draining"] else "is ready"
        print(f"{found['kind']} {found['name']} at {found['address']} {state}, {len(found['jobs'])} jobs")
    raise typer.Exit(1 if found["draining"] else 0)


@app.command()
@reporting
def drain(socket: Socket, timeout: options.Timeout = None, json_output: options.Json = False) -> None:
    """Let the device take no new job, and wait until its jobs and then the device have ended."""
    from fanin_tools.fabric.drain import drain_devices

    drain_devices({str(socket): socket}, timeout)
    if json_output:
        print_json({"socket": str(socket), "drained": True})
    else:
        print(f"the device at {socket} is drained, and has ended")
