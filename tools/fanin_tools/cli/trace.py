"""`fanin trace`: the life of each segment on running devices, as a file for Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fanin_tools.cli import files, options
from fanin_tools.cli.capture import Buffer, Command, Devices, Job, Seconds
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import ToolError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from fanin_tools.tap.segments import Call


@reporting
def trace(
    command: Command = None,
    output: Annotated[Path, files.output_file("-o", "--output", help="In JSON. Default: fanin.json.")] = Path(
        "fanin.json"
    ),
    device: Devices = None,
    name: options.Name = "default",
    job: Job = None,
    calls: Annotated[int, options.count(help="Slowest calls to show.")] = 5,
    seconds: Seconds = None,
    buffer: Buffer = 2,  # a buffer in the cache costs the devices least
    json_output: options.Json = False,
) -> None:
    """Record the life of each segment: posted, in, sent, result, released; and show who was late in slow calls."""
    from fanin_tools.tap import chrome, listen, segments
    from fanin_tools.tap.reader import Wanted
    from fanin_wire.abi import TapFlag

    flags = TapFlag.SEGMENTS | (0 if job is None else TapFlag.ONE_JOB)
    wanted = Wanted(flags, job or 0, units=listen.units_of(buffer))
    sockets = listen.sockets_of(device or [], name)
    with listen.listening(sockets, wanted) as taps, listen.bound(seconds, command or []) as has_ended:
        devices = [tap.name for tap in taps]
        print_progress(f"listening to {', '.join(devices)}; Ctrl-C ends it")
        events, missed = segments.record(taps, has_ended)
        _write(output, chrome.trace(events, devices))  # even if the program has failed
    slowest = segments.calls_of(events)[:calls]
    if json_output:
        found = [call._asdict() | {"posted_last": call.posted_last(), "last_in": call.last_in()} for call in slowest]
        print_json({"file": str(output), "steps": len(events), "missed": missed, "calls": found})
        return
    if slowest:
        columns = ["device", "job", "message", "time", "segments", "posted last", "last in"]
        print_table("slowest calls", columns, [_row(call) for call in slowest])
    print(f"{output}: {len(events)} steps of segments; {missed} were missed")


def _row(call: Call) -> list[str]:
    time = f"{(call.end - call.begin) / 1e6:.3f} ms"
    return [call.device, str(call.jid), str(call.message), time, str(call.segments), call.posted_last(), call.last_in()]


def _write(output: Path, trace: dict[str, Any]) -> None:
    try:
        output.write_text(json.dumps(trace))
    except OSError as error:
        raise ToolError("BAD_PATH", f"{output} can not be written: {error.strerror}", "name another file") from error
