"""`fanin sim`: one collective on a large simulated fabric, in virtual time; or one of the schedule fuzzers."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress, steady
from fanin_tools.quantities import counted, parse_rate, parse_size, render_time
from fanin_wire.limits import MAX_CHUNK, MAX_DEVICES, MAX_JOB_SLOTS, MIN_JOB_SLOTS

if TYPE_CHECKING:
    from fanin_sim.scenario.report import Report
    from fanin_sim.scenario.scenario import Scenario


# The parameters of each way to simulate. Others are refused, since they would be ignored.
OF_TRACE = {"trace", "seed", "rdma", "json_output"}
OF_FUZZ = {"fuzz", "rdma", "seed", "seconds", "schedules", "processes", "json_output"}
NOT_OF_SCENARIO = OF_FUZZ - {"seed", "json_output"}


@reporting
def sim(
    context: typer.Context,
    nodes: Annotated[int, typer.Option(min=0, max=MAX_DEVICES, help="Hosts. 0: as many as the fan-out allows.")] = 0,
    fanout: Annotated[
        str, typer.Option(help="Switches of each level, then nodes of each switch; or 'direct'.")
    ] = "4x8x8",
    ranks: Annotated[int, typer.Option("--ranks-per-node", min=1, max=64, help="Ranks on each host.")] = 1,
    size: Annotated[str, typer.Option("--bytes", help="Length of the message.")] = "1M",
    collective: Annotated[str, typer.Option(help="allreduce, reduce_scatter, broadcast, ...")] = "allreduce",
    op: Annotated[str, typer.Option(help="Operation of a reduction.")] = "sum",
    dtype: Annotated[str, typer.Option(help="Type of the elements.")] = "f32",
    route: Annotated[str, typer.Option(help="Route of the job: tree or ring.")] = "tree",
    rate: Annotated[
        str, typer.Option(help="Rate of every link, for example 100gbit; 0: links take no time.")
    ] = "100gbit",
    delay: Annotated[int, typer.Option(min=0, max=10**9, help="Propagation delay of a link, ns.")] = 500,
    loss: Annotated[float, typer.Option(min=0.0, max=0.9, help="Probability that a packet is lost.")] = 0.0,
    seed: options.Seed = 1,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Equal jobs at the same time.")] = 1,
    reproducible: Annotated[str, typer.Option(help="none, run or shape.")] = "none",
    wide: Annotated[bool, options.flag("--wide", help="Partial results of small floats travel as f32.")] = False,
    plain_leaves: Annotated[
        bool, options.flag("--plain-leaves", help="The lowest switches do not offload; their nodes form rings.")
    ] = False,
    chunk: Annotated[
        int, typer.Option(min=64, max=MAX_CHUNK, help="Payload bytes of a segment, a power of two.")
    ] = 4096,
    slots: Annotated[
        int,
        typer.Option(
            min=MIN_JOB_SLOTS, max=MAX_JOB_SLOTS, help="Segment buffers that each job leases, a power of two."
        ),
    ] = 64,
    fuzz: Annotated[
        bool, options.flag("--fuzz", help="Instead: run many short schedules with random faults, from --seed on.")
    ] = False,
    rdma: Annotated[
        bool,
        options.flag(
            "--rdma", help="With --fuzz or --trace: schedules of ordinary RDMA traffic. Alone: as with --fuzz."
        ),
    ] = False,
    trace: Annotated[
        bool, options.flag("--trace", help="Instead: run the one schedule of --seed and print every event.")
    ] = False,
    seconds: Annotated[float, options.seconds(min=0.1, help="Duration of --fuzz.")] = 60.0,
    schedules: Annotated[
        int | None, options.count(min=1, metavar="N", help="With --fuzz: N schedules, however long they take.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, max=256, help="Processes of --fuzz; use one for each core.")] = 2,
    json_output: options.Json = False,
) -> None:
    """Simulate a collective with the real engine in every NIC and switch, verify the result, and report the cost.

    With --fuzz: run thousands of schedules with faults and crashes, and check the invariants after every event.
    With --rdma: the same for ordinary RDMA traffic, every byte of which is compared with a model.
    """
    _refuse_others(context, trace=trace, fuzz=fuzz, rdma=rdma)
    if trace:
        _trace(seed, json_output, rdma)
        return
    if fuzz or rdma:
        with steady(options.LOADING):
            from fanin_tools.cli.fuzz import run_fuzzer
            from fanin_tools.cli.rdma import run_rdma
        if schedules is not None and "--seconds" not in options.given(context):
            seconds = math.inf
        (run_rdma if rdma else run_fuzzer)(seconds, seed, processes, schedules, as_json=json_output)
        return
    from fanin_sim.scenario.scenario import Scenario

    counts = parse_fanout(fanout)
    scenario = Scenario(
        fanout=counts,
        nodes=nodes or math.prod(counts),
        ranks_per_node=ranks,
        size=parse_size(size),
        collective=collective,
        operation=op.upper(),
        dtype=dtype,
        route=route,
        rate=parse_rate(rate),
        delay=delay,
        loss=loss,
        seed=seed,
        jobs=jobs,
        reproducible=reproducible,
        wide=wide,
        plain_leaves=plain_leaves,
        chunk=chunk,
        slots=slots,
    )
    report = _simulate(scenario)
    if json_output:
        print_json({"scenario": vars(scenario), "report": report.as_dict()})
    else:
        _print_tables(scenario, report)


def _refuse_others(context: typer.Context, *, trace: bool, fuzz: bool, rdma: bool) -> None:
    """Of options that this way to simulate would ignore."""
    own = OF_TRACE if trace else OF_FUZZ if fuzz or rdma else set(context.params) - NOT_OF_SCENARIO
    others = ", ".join(options.given(context, *own))
    if others and (trace or fuzz or rdma):
        way = "--trace" if trace else "--fuzz" if fuzz else "--rdma"
        raise UsageError(
            f"{others} can not be used with {way}", "leave it out: the seed decides all else of a schedule"
        )
    if others:
        raise UsageError(f"{others} can not be used without --fuzz", "add --fuzz, or leave it out")


def _trace(seed: int, json_output: bool, rdma: bool) -> None:
    if json_output:
        raise UsageError("a trace is text", "leave out --json, or --trace")
    with steady(options.LOADING):
        from fanin_tools.cli.fuzz import run_trace
        from fanin_tools.cli.rdma import run_rdma_trace
    (run_rdma_trace if rdma else run_trace)(seed)


def _print_tables(scenario: Scenario, report: Report) -> None:
    from rich.console import Console

    from fanin_tools.cli import sim_tables

    Console().print(sim_tables.summary(scenario, report), sim_tables.links(report), sim_tables.occupancy(report))


def parse_fanout(text: str) -> tuple[int, ...]:
    """Such as "4x8x8"; () for "direct"."""
    if text == "direct":
        return ()
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise UsageError(f"{text!r} is not a fan-out", "write numbers, from the top down, as in 4x8x8, or 'direct'")
    counts = tuple(map(int, text.split("x")))
    if math.prod(counts) > MAX_DEVICES:
        raise UsageError(f"--fanout {text} has {math.prod(counts)} nodes", f"use at most {MAX_DEVICES}")
    return counts


def _simulate(scenario: Scenario) -> Report:
    from fanin_sim.scenario.scenario import ScenarioInvalid

    try:
        scenario.check()
    except ScenarioInvalid as error:
        raise UsageError(str(error), error.remedy) from error
    with steady(options.LOADING):
        from fanin_tools.bench.compare import sizes_that_fit

        sizes_that_fit([scenario.size], scenario.nodes * scenario.ranks_per_node, print_progress)
        from fanin_sim.scenario.runner import ScenarioFailed, ScenarioRun  # takes seconds: only after the checks

        run = ScenarioRun(scenario)
    simulation = run.simulation
    what = f"simulating {counted(scenario.nodes, 'NIC')} and {counted(simulation.topology.switches, 'switch')}"
    try:
        with steady(what, note=lambda: f"{render_time(simulation.now * 1e-9)} of virtual time"):
            return run.report()
    except (ScenarioFailed, TimeoutError, AssertionError) as error:
        remedy = "report this defect with all options: the same seed gives the same run"
        raise ToolError("SIMULATION_FAILED", str(error), remedy) from error
