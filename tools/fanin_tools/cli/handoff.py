"""`fanin handoff`: the plan by which data go from one server to all GPUs of another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.cli.topology import read
from fanin_tools.errors import UsageError
from fanin_tools.progress import print_progress
from fanin_tools.quantities import counted, parse_rate, parse_size, render_size, render_time

if TYPE_CHECKING:
    from fanin_cluster.handoff.plan import Plan
    from fanin_cluster.handoff.rehearsal import Cost

BITS = 8


@reporting
def handoff(
    first: Annotated[Path, typer.Argument(help="Topology of the sending node, in XML.")],
    second: Annotated[
        Path | None, typer.Argument(help="Topology of the receiving node. Default: the same.", show_default=False)
    ] = None,
    size: Annotated[str, typer.Option("--bytes", metavar="SIZE", help="The data: 32M, 4097.")] = "32M",
    links: Annotated[int, options.count(help="Most links. 0: as many as the topologies have.")] = 0,
    holder: Annotated[
        int | None, options.count(min=0, help="The only GPU that holds the data. Default: all do.", show_default=False)
    ] = None,
    whole: Annotated[bool, options.flag("--whole", help="Share whole stripes in the receiving node.")] = False,
    granule: Annotated[int, typer.Option(min=1, max=1 << 40, help="Bytes of an element, which is not cut.")] = 1,
    chunks: Annotated[int, options.count(help="Chunks of the stages. 0: as many as are fastest.")] = 1,
    nic: Annotated[str, typer.Option(metavar="RATE", help="Rate of a NIC if it is not known.")] = "200gbit",
    inside: Annotated[str, typer.Option(metavar="RATE", help="Rate of a GPU to the others of its node.")] = "1600gbit",
    json_output: options.Json = False,
) -> None:
    """Show the plan of a hand-off: links, stripes, bytes of every stage, predicted time."""
    from fanin_cluster.handoff.plan import HandoffInvalid, plan_handoff
    from fanin_cluster.handoff.rehearsal import chosen_chunks, cost, naive_seconds

    nic_rate, inside_rate = parse_rate(nic) / BITS, parse_rate(inside) / BITS
    if not (nic_rate and inside_rate):
        raise UsageError("a rate is 0", "give --nic and --inside above 0")
    one = read(first)
    other = read(second) if second else one
    try:
        plan = plan_handoff(
            parse_size(size),
            one,
            other,
            most_links=links,
            holder=holder,
            whole=whole,
            granule=granule,
            nic_rate=nic_rate,
        )
    except HandoffInvalid as error:
        raise UsageError(error.cause, error.remedy) from None
    found = cost(plan, inside_rate)
    chunks = chunks or chosen_chunks(plan, inside_rate)
    naive = naive_seconds(plan)
    if json_output:
        print_json(_as_dict(plan, found, chunks, naive))
    else:
        _print(plan, found, chunks, naive)
        for machine in (one, other):
            for each in machine.rdma_nics:
                if not each.rate:
                    print_progress(f"{machine.source}: the rate of {each.name} is not known; it is taken for {nic}")


def _as_dict(plan: Plan, found: Cost, chunks: int, naive: float) -> dict[str, Any]:
    """Enough for a program to do every copy."""
    return {
        "bytes": plan.size,
        "first_gpus": plan.first_gpus,
        "second_gpus": plan.second_gpus,
        "nearness": [level.name for level in plan.levels],
        "links": plan.links,
        "groups": plan.groups,
        "pieces": plan.pieces,
        "spread": plan.spread,
        "send": [copy for _, copy in plan.send],
        "diffuse": plan.diffuse,
        "collect": plan.collect,
        "stage_bytes": found.bytes,
        "stage_seconds": found.seconds,
        "chunks": chunks,
        "seconds": found.pipelined(chunks),
        "naive_network_seconds": naive,
    }


def _print(plan: Plan, found: Cost, chunks: int, naive: float) -> None:
    rows = [
        [
            plan.first_gpus[link.first],
            link.first_nic,
            link.second_nic,
            plan.second_gpus[link.second],
            f"{link.rate * BITS / 1e9:.4g} Gbit/s",
            render_size(count),
            " ".join(plan.second_gpus[gpu] for gpu in group),
        ]
        for link, count, group in zip(plan.links, found.link_bytes, plan.groups, strict=True)
    ]
    print_table("links", ["from", "NIC", "NIC", "to", "rate", "bytes", "pieces to"], rows)
    stages: dict[str, list[Any]] = {
        "spread": plan.spread,
        "send": plan.send,
        "diffuse": plan.diffuse,
        "collect": plan.collect,
    }
    rows = [
        [stage, str(len(copies)), render_size(found.bytes[stage]), render_time(found.seconds[stage])]
        for stage, copies in stages.items()
    ]
    print_table("stages", ["stage", "copies", "bytes", "predicted"], rows)
    for place, level in zip(("first", "second"), plan.levels, strict=True):
        print_progress(f"nearness of the {place} GPUs to their NICs: {level.words}")
    if len(plan.links) == 1:
        print_progress("there is one link, so the network is used as by a single sender")
    print(f"in {counted(chunks, 'chunk')}: {render_time(found.pipelined(chunks))} predicted")
    print(f"a copy for each GPU over the same links: {render_time(naive)} on the network alone")
