"""Subcommands of `fanin bench` for single parts of the data path, and for goodput while packets are lost."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fanin_tools.cli import files, options
from fanin_tools.cli.fabric import FabricOptions
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress
from fanin_tools.quantities import counted, parse_size, render_size, render_time
from fanin_wire.limits import MAX_DEVICES, MAX_LANES


def add_to(app: typer.Typer) -> None:
    for command in (streams, loss, fairness, engine, memory, port, start, sizing):
        app.command(command.__name__)(command)


@reporting
def streams(
    ranks: Annotated[str, typer.Option(help="Numbers of ranks on the node.")] = "1,2,4,8",
    nodes: Annotated[
        int | None,
        typer.Option(
            min=2, max=MAX_DEVICES, help="Hosts, a namespace and a rank each, instead of one node. Needs root."
        ),
    ] = None,
    sizes: Annotated[str, typer.Option(help="Bytes of a rank's block, as in 8,512,4K.")] = "8,64,512,4K",
    default_settings: Annotated[
        bool, options.flag("--default-settings", help="Offload as for any program, not every call.")
    ] = False,
    into: Annotated[Path | None, files.output_file(help="Write the table there as well.")] = None,
    peers: Annotated[Path, files.folder_to_read("The peers' environments (make peers makes it).")] = Path(".bench"),
    name: options.Name = "streams",
    json_output: options.Json = False,
) -> None:
    """Operations a second in streams of short collectives: each MPI alone, and with every call on Fanin."""
    from fanin_tools.bench import setups
    from fanin_tools.bench import streams as bench_streams
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    counts, lengths = (nodes,) if nodes else _rank_counts(ranks), setups.parse_sizes(sizes)
    bench_streams.check_sizes(lengths)
    forced = not default_settings
    fabric = FabricOptions(nodes, 1, netns=True) if nodes else FabricOptions(1, max(counts))
    with leased(Plan(name, fabric.shape()), print_progress) as running:
        rows = bench_streams.measure(running, peers, counts, lengths, print_progress, forced)
    if into is not None:
        into.write_text(bench_streams.markdown(rows, nodes or 1, forced))
    if json_output:
        print_json({"rows": rows})
        return
    columns, cells = bench_streams.cells(rows, forced)
    print_table("operations a second, in thousands", columns, cells)
    for remark in bench_streams.remarks(rows):
        typer.echo(remark)


@reporting
def loss(
    size: Annotated[str, typer.Option("--bytes", help="Length of the message.")] = "16M",
    rounds: Annotated[int, options.count(min=1, help="Turns of each route and rate of loss.")] = 3,
    plot: Annotated[
        Path | None, files.output_file(help="Draw the result as this picture, and write the table beside it.")
    ] = None,
    name: options.Name = "loss",
    json_output: options.Json = False,
) -> None:
    """Goodput of allreduce over tree and ring while packets are lost. Needs root and nftables."""
    from fanin_tools.bench import loss_report
    from fanin_tools.bench.compare import sizes_that_fit
    from fanin_tools.bench.loss import NODES, measure
    from fanin_tools.bench.plot import require_plot
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    length, shape = parse_size(size), FabricOptions(NODES, 1, netns=True).shape()
    sizes_that_fit([length], NODES, print_progress)
    if plot is not None:
        require_plot([plot])
    with leased(Plan(name, shape), print_progress) as running:
        rows = measure(running, length, rounds, print_progress)
    if plot is not None:
        loss_report.save(rows, length, plot)
    if json_output:
        print_json({"bytes": length, "rows": rows})
    else:
        from rich.console import Console

        Console().print(loss_report.table(rows, length))


@reporting
def fairness(
    route: Annotated[str, typer.Option(help="Route of the allreduce: tree or ring.")] = "tree",
    size: Annotated[str, typer.Option("--bytes", help="Length of the message of the allreduce.")] = "16M",
    polling: Annotated[
        bool, options.flag("--polling", help="The program of the stream polls, as perftest does: it takes a core.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, max=12, help="Turns of each kind of traffic, and of both.")] = 5,
    netns: options.Netns = False,
    name: options.Name = "fairness",
    json_output: options.Json = False,
) -> None:
    """An allreduce of two hosts and a stream of RC WRITEs over the same two NICs: alone, and both at once."""
    from fanin_tools.bench.compare import sizes_that_fit
    from fanin_tools.bench.fairness import NODES, Load, measure
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    if route not in ("tree", "ring"):
        raise UsageError(f"--route {route} has no port to share", "use tree or ring")
    load, shape = Load(route, parse_size(size), polling), FabricOptions(NODES, 1, netns=netns).shape()
    sizes_that_fit([load.size], NODES, print_progress)
    with leased(Plan(name, shape), print_progress) as running:
        rows, uses = measure(running, load, rounds, print_progress)
    if json_output:
        print_json({"rows": rows, "cpu": uses})
        return
    print_table(
        f"allreduce of {size} over a {route}, and RC WRITEs of 1 MiB",
        ("kind", "alone", "both", "of alone", "in the worst round", "longest gap"),
        [
            (
                row.kind,
                *(f"{rate / 1e9:.2f} GB/s" for rate in (row.alone, row.together)),
                *(f"{share:.0%}" for share in (row.share, row.least_share)),
                f"{row.gap_ms:.0f} ms",
            )
            for row in rows
        ],
    )
    print_table(
        "CPU time in a second",
        ("process", "allreduce", "RC WRITE", "both"),
        [(use.process, *(f"{part:.2f} s" for part in (use.allreduce, use.write, use.both))) for use in uses],
    )


@reporting
def engine(
    cores: Annotated[
        int, typer.Option(min=1, max=MAX_LANES, help="Engines at once, as many as lanes of a device.")
    ] = 1,
    json_output: options.Json = False,
) -> None:
    """Segments per second through the engine of a switch with four children."""
    from fanin_tools.bench import engine

    rows = engine.measure(cores, print_progress)
    if json_output:
        print_json({"rows": rows})
        return
    print_table(
        f"million segments per second, {counted(cores, 'core')}",
        ("payload", "working set", "checked", "median", "best"),
        [(*_sizes(row), row.check, f"{row.segments_per_us:.1f}", f"{row.best_per_us:.1f}") for row in rows],
    )


@reporting
def memory(json_output: options.Json = False) -> None:
    """Speed at which this machine reads and writes memory, which bounds allreduce on one node."""
    from fanin_tools.bench import memory

    speeds = memory.sweep(print_progress)
    if json_output:
        print_json({"rows": speeds})
        return
    print_table(
        "memory, all cores together, best round",
        ("cores", "bytes read, and written", "read", "written", "both"),
        [
            (str(speed.cores), render_size(speed.volume), *_speeds(speed), render_time(speed.read_and_write_us * 1e-6))
            for speed in speeds
        ],
    )


@reporting
def port(netns: options.Netns = False, name: options.Name = "port", json_output: options.Json = False) -> None:
    """Packets and bytes per second through the UDP port alone, between two processes."""
    from fanin_tools.bench import port

    rows = port.measure(netns, name, print_progress)
    if json_output:
        print_json({"rows": rows})
        return
    print_table(
        "one port to another, ICRC made and checked",
        ("payload", "packets", "payload a second"),
        [
            (render_size(row.payload), f"{row.packets_per_second / 1e6:.2f} M/s", f"{row.bandwidth / 1e9:.2f} GB/s")
            for row in rows
        ],
    )


@reporting
def start(name: options.Name = "start", json_output: options.Json = False) -> None:
    """Time before the first collective: of a program, to import, attach, join; of a device, to be ready."""
    from fanin_tools.bench import startup
    from fanin_tools.fabric.generate import Plan
    from fanin_tools.fabric.lease import leased

    with leased(Plan(name, FabricOptions(1, 1).shape()), print_progress) as running:
        rows = startup.measure(running, print_progress)
    if json_output:
        print_json({"rows": rows})
        return
    print_table(
        "before the first collective", ("what", *TIMES), [(row.what, *_times(row.microseconds)) for row in rows]
    )


@reporting
def sizing(
    costs: Annotated[Path | None, typer.Option(help="Output of an earlier --json, instead of a measurement.")] = None,
    nodes: Annotated[int, typer.Option(min=2, max=options.MAX_CHILDREN, help="Nodes below one switch.")] = 4,
    ranks: Annotated[int, typer.Option(min=1, max=options.MAX_CHILDREN, help="Ranks on each node.")] = 2,
    gigahertz: Annotated[
        float | None, typer.Option(min=0.1, max=1000.0, help="Clock of this processor, if it is unknown.")
    ] = None,
    name: options.Name = "sizing",
    json_output: options.Json = False,
) -> None:
    """An estimate of what a device does on the cores of a card, from costs measured here (docs/performance.md)."""
    from fanin_tools.bench import sizing

    found = sizing.read(costs) if costs else sizing.measure(name, print_progress, gigahertz)
    job = sizing.Job(nodes, ranks)
    rows = [sizing.estimate(found, card, job) for card in sizing.CARDS]
    if json_output:
        print_json({"costs": msgspec.to_builtins(found), "job": job._asdict(), "rows": [row._asdict() for row in rows]})
        return
    print_table(
        f"costs on {found.processor}, {found.gigahertz:.1f} GHz",
        ("part", "a packet", "a byte"),
        [
            (part, f"{cost.packet * 1e9:.0f} ns", f"{cost.byte * 1e12:.0f} ps")
            for part, cost in (("engine", found.engine), ("UDP port", found.port))
        ],
    )
    print_table(
        f"estimate: allreduce by tree, {nodes} nodes of {counted(ranks, 'rank')}, GB/s of message",
        ("card", "one lane", "all cores", "link", "PCIe", "memory", "least"),
        [
            (
                row.card,
                *(f"{each / 1e9:.1f}" for each in (row.lane, row.cores, row.link, row.pcie, row.memory)),
                f"{row.one_lane / 1e9:.1f} to {row.all_cores / 1e9:.1f}",
            )
            for row in rows
        ],
    )


def _rank_counts(text: str) -> tuple[int, ...]:
    from fanin_wire.abi import MAX_CHILDREN

    words = [word.strip() for word in text.split(",")]
    if any(not word.isdecimal() or not 0 < int(word) <= MAX_CHILDREN for word in words):
        raise UsageError(f"--ranks {text}", f"give numbers from 1 to {MAX_CHILDREN}, as in 2,4")
    return tuple(dict.fromkeys(map(int, words)))


TIMES = ("median", "spread", "least")


def _times(found: Any) -> tuple[str, str, str]:
    median, least = (render_time(time * 1e-6) for time in (found.median, found.least))
    return median, f"±{found.spread / 2:.0%}", least


def _speeds(speed: Any) -> tuple[str, str]:
    return f"{speed.read / 1e9:.1f} GB/s", f"{speed.write / 1e9:.1f} GB/s"


def _sizes(row: Any) -> tuple[str, str]:
    return render_size(row.payload), render_size(row.working_set)
