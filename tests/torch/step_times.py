"""Time of a step of DDP and FSDP2 on Fanin beside Gloo and MPICH, on one node and over four hosts: `make torch-bench`.

Four ranks, buckets or layers of 25 MiB, 100 MiB of gradients in f32 and 50 MiB in bf16. All contenders are in the same
processes and take turns, step by step. A step's time is the slowest rank's; CPU time is summed over ranks and devices.
Four hosts are network namespaces with links of 1 Gbit/s, for root only.

MPICH's launcher starts the ranks. The fabric ends with this program, even if it is killed.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fanin_tools.bench.peers import NEEDED, PEERS
from fanin_tools.bench.plot import require_plot
from fanin_tools.bench.session import Command
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lease, namespaces
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import end_with_caller
from tests.torch.launch import ROOT

RANKS = 4
SHAPES = {
    "local": Shape(nodes=1, ranks_per_node=RANKS),
    "hosts": Shape(nodes=RANKS, ranks_per_node=1, netns=True, rate="1gbit"),
}
TITLES = {"local": "one node", "hosts": "4 hosts, 1 Gbit/s"}
WRAPPERS = ["DDP", "FSDP2"]
STEPS = {"local": 20, "hosts": 8}
SECONDS = 600.0  # of all ranks on one network
GLOO = "Gloo"
MPICH = next(peer for peer in PEERS if peer.title == "MPICH")


def require_mpich() -> Path:
    """The folder of MPICH's launcher, beside this Python."""
    binaries = Path(sys.executable).parent
    if missing := [name for name in NEEDED if not (binaries / name).exists()]:
        cause = f"{missing[0]} is not in {binaries}"
        raise ToolError("NOT_SUPPORTED", cause, "install mpich and mpi4py beside torch, as `make torch-bench` does")
    return binaries


def command_of(running: Running, wrappers: list[str], steps: int, folder: Path) -> Command:
    """MPICH's launcher with all ranks, each on the host of its NIC."""
    fabric = running.fabric
    processes = {identity.pid for identity in running.state.processes().values()}
    variables = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "eth0" if fabric.netns else "lo",
        "FANIN_SOCKET": ":".join(str(running.state.socket(nic.name)) for nic in fabric.nics),
        "FANIN_TEST_DEVICES": ",".join(map(str, sorted(processes))),
    }
    program = [sys.executable, "-m", "tests.torch.step_rank", str(steps), str(folder), *wrappers]
    return MPICH.command(require_mpich(), RANKS, fabric, folder, program, variables)


def measure(name: str, wrappers: list[str], steps: int) -> list[dict[str, Any]]:
    """A row for each wrapper, type and contender, on one of the networks."""
    plan = Plan(lease.private_name(), SHAPES[name])
    with lease.leased(plan, print) as running, tempfile.TemporaryDirectory(prefix="fanin-steps-") as given:
        folder = Path(given)
        command = command_of(running, wrappers, steps, folder)
        with (folder / "errors").open("w") as errors:
            ranks = subprocess.Popen(
                command.line,
                cwd=ROOT,
                env=command.environment,
                stderr=errors,
                preexec_fn=end_with_caller(signal.SIGTERM),
            )
        try:
            code = ranks.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = -signal.SIGTERM
        finally:
            ranks.terminate()
            ranks.wait()
        if code:
            said = (folder / "errors").read_text()[-4000:]
            remedy = f"read what they say; they have {SECONDS:.0f} s: choose fewer --steps on a slow machine"
            raise ToolError("PROGRAM_FAILED", f"ranks on {TITLES[name]} have no result\n{said}", remedy)
        rows = json.loads((folder / "rows.json").read_text())
    return [{"network": name, **row} for row in rows]


def table(rows: list[dict[str, Any]]) -> str:
    """All rows, in Markdown."""
    lines = ["| network | wrapper | elements | back-end | step, ms | quartiles | Gloo's time / this | CPU time, ms |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    gloo = {(*_panel(row), row["type"]): row["s"] for row in rows if row["contender"] == GLOO}
    for row in rows:
        quartiles = f"{1e3 * row['lower']:.0f} to {1e3 * row['upper']:.0f}"
        words = [TITLES[row["network"]], row["wrapper"], row["type"], row["contender"], f"{1e3 * row['s']:.0f}"]
        ratio = gloo[(*_panel(row), row["type"])] / row["s"]
        lines.append(f"| {' | '.join(words)} | {quartiles} | {ratio:.2f} | {1e3 * row['cpu_s']:.0f} |")
    return "\n".join(lines)


def _panel(row: dict[str, Any]) -> tuple[str, str]:
    return row["network"], row["wrapper"]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars with quartiles: a panel for each network and wrapper, a group for each type, a bar for each back-end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(map(_panel, rows)))
    names = list(dict.fromkeys(row["contender"] for row in rows))
    figure = Figure(figsize=(4.4 * len(panels), 4.0), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        found = [row for row in rows if _panel(row) == panel]
        types = list(dict.fromkeys(row["type"] for row in found))
        present = [name for name in names if any(row["contender"] == name for row in found)]
        width = 0.8 / len(present)
        for place, name in enumerate(present):
            of_name = [row for row in found if row["contender"] == name]
            shift = width * (place - (len(present) - 1) / 2)
            at = [types.index(row["type"]) + shift for row in of_name]
            heights = [1e3 * row["s"] for row in of_name]
            errors = [[1e3 * (row["s"] - row["lower"]) for row in of_name]]
            errors += [[1e3 * (row["upper"] - row["s"]) for row in of_name]]
            axes.bar(at, heights, width, yerr=errors, label=name, color=f"C{names.index(name)}", capsize=3)
        axes.set_xticks(range(len(types)), types)
        axes.set_title(f"{panel[1]}, {RANKS} ranks, {TITLES[panel[0]]}")
        axes.set_ylabel("step, ms")
        axes.legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.step_times", description=__doc__)
    parser.add_argument("networks", nargs="*", help=f"of {', '.join(SHAPES)}; none: all that this user can make")
    parser.add_argument("--wrappers", nargs="+", choices=WRAPPERS, default=WRAPPERS, help="what wraps the model")
    parser.add_argument("--steps", type=int, help=f"of each contender and type; without it {STEPS}")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="for step-times.json, .md and .png")
    given = parser.parse_args()
    wrong = [name for name in given.networks if name not in SHAPES]
    if wrong:
        parser.error(f"{wrong[0]} is none of {', '.join(SHAPES)}")
    if given.steps is not None and given.steps < 2:
        parser.error("--steps: 2 or more, since quartiles are shown")
    given.folder.mkdir(parents=True, exist_ok=True)
    picture = given.folder / "step-times.png"
    rows: list[dict[str, Any]] = []
    try:
        require_plot([picture])
        names = given.networks or ["local", *(["hosts"] if namespaces.are_allowed() else [])]
        if not given.networks and "hosts" not in names:
            print("without the 4 hosts: only root can make network namespaces")
        for name in names:
            rows += measure(name, given.wrappers, given.steps or STEPS[name])
    except ToolError as error:
        sys.exit(f"fanin: {error}")
    (given.folder / "step-times.json").write_text(json.dumps(rows, indent=1) + "\n")
    (given.folder / "step-times.md").write_text(table(rows) + "\n")
    draw(rows, picture)
    print(table(rows))
    print(f"written: {picture}, step-times.md and step-times.json beside it")


if __name__ == "__main__":
    main()
