"""`fanin capture`: the packets of running devices, as a file for Wireshark."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fanin_tools.cli import files, options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import ToolError
from fanin_tools.progress import print_progress

Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device", "-d", metavar="DEVICE", help="A device of the fabric, or the path of its socket. Default: all."
    ),
]
Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- PROGRAM [ARGUMENTS]...]", show_default=False, help="Runs meanwhile; its end is the end."
    ),
]
Seconds = Annotated[float | None, options.seconds(help="End after so many seconds. Default: at Ctrl-C.")]
Job = Annotated[int | None, typer.Option(min=0, max=0xFFFFFFFF, metavar="JID", help="Only this job.")]
Buffer = Annotated[int, typer.Option(min=1, max=64, metavar="MIB", help="Memory for each lane of each device.")]


@reporting
def capture(
    command: Command = None,
    output: Annotated[Path, files.output_file("-o", "--output", help="In pcapng. Default: fanin.pcapng.")] = Path(
        "fanin.pcapng"
    ),
    device: Devices = None,
    name: options.Name = "default",
    job: Job = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only this kind: result, probe, ordinary, ...; repeatable.")
    ] = None,
    dropped: Annotated[bool, options.flag("--dropped", help="Only packets that a device drops.")] = False,
    ring: Annotated[int | None, options.count(min=1, help="Keep only the last N packets.")] = None,
    seconds: Seconds = None,
    buffer: Buffer = 16,
    json_output: options.Json = False,
) -> None:
    """Capture what devices receive and send, packet by packet, and why they drop one."""
    from fanin_tools.tap import capture as capturing
    from fanin_tools.tap import listen
    from fanin_tools.tap.reader import Wanted
    from fanin_wire.abi import TapFlag

    flags = TapFlag.PACKETS | (0 if job is None else TapFlag.ONE_JOB)
    wanted = Wanted(flags, job or 0, listen.kinds_of(kind or []), listen.units_of(buffer))
    sockets = listen.sockets_of(device or [], name)
    try:
        with listen.listening(sockets, wanted) as taps, listen.bound(seconds, command or []) as has_ended:
            print_progress(f"listening to {', '.join(tap.name for tap in taps)}; Ctrl-C ends it")
            tally = capturing.capture(taps, output, has_ended, only_dropped=dropped, last=ring)
    except OSError as error:
        raise ToolError("BAD_PATH", f"{output} can not be written: {error.strerror}", "name another file") from error
    found: dict[str, Any] = vars(tally)
    if json_output:
        print_json({"file": str(output), **found})
    else:
        print(f"{output}: {tally}")
