"""Time of a step of DDP on Fanin beside Gloo, on one node and over four hosts: `make torch-bench`.

Four ranks, buckets of 25 MiB, 100 MiB of gradients in f32 and 50 MiB in bf16. All contenders are in the same processes
and take turns, step by step. The time of a step is that of the slowest rank; the CPU time is the sum of all ranks and
devices. Four hosts are network namespaces with links of 1 Gbit/s, which only root can make.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from fanin_tools.bench.plot import require_plot
from fanin_tools.errors import ToolError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from tests.e2e.fabrics import Bench, pid_of
from tests.fabric.fixtures import own_state_folder
from tests.torch.launch import ROOT

RANKS, PORT = 4, "29771"
SHAPES = {
    "local": Shape(nodes=1, ranks_per_node=RANKS),
    "hosts": Shape(nodes=RANKS, ranks_per_node=1, netns=True, rate="1gbit"),
}
TITLES = {"local": "one node", "hosts": "4 hosts, 1 Gbit/s"}
STEPS = {"local": 20, "hosts": 8}
SECONDS = 600.0  # of all ranks on one network
GLOO = "Gloo"


def start(running: Running, rank: int, steps: int, folder: Path) -> subprocess.Popen[bytes]:
    """A rank by its NIC, on the host of that."""
    nics = running.fabric.nics
    nic = nics[rank % len(nics)]
    on_hosts = running.fabric.netns
    environment = os.environ | {
        "MASTER_ADDR": nics[0].address if on_hosts else "127.0.0.1",
        "MASTER_PORT": PORT,
        "RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "eth0" if on_hosts else "lo",
        "FANIN_SOCKET": str(running.state.socket(nic.name)),
        "FANIN_TEST_DEVICES": ",".join(str(pid_of(running, device.name)) for device in running.fabric.devices),
    }
    command = [sys.executable, "-m", "tests.torch.step_rank", str(steps), str(folder)]
    with (folder / f"rank{rank}.err").open("w") as errors:
        return subprocess.Popen(
            [*namespaces.prefix_command(running.fabric, nic.host), *command], cwd=ROOT, env=environment, stderr=errors
        )


def measure(bench: Bench, name: str, steps: int) -> list[dict[str, Any]]:
    """A row for each contender and type, on one of the networks."""
    running = bench.up(SHAPES[name])
    with tempfile.TemporaryDirectory(prefix="fanin-steps-") as given:
        folder, ranks = Path(given), list[subprocess.Popen[bytes]]()
        try:
            ranks += [start(running, rank, steps, folder) for rank in range(RANKS)]
            codes = [rank.wait(SECONDS) for rank in ranks]
        except subprocess.TimeoutExpired:
            codes = [-1]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        if any(codes):
            said = "\n".join(path.read_text()[-1500:] for path in sorted(folder.glob("*.err")))
            remedy = f"read what they say; they have {SECONDS:.0f} s: choose fewer --steps on a slow machine"
            raise ToolError("PROGRAM_FAILED", f"ranks on {TITLES[name]} have no result\n{said}", remedy)
        rows = json.loads((folder / "rows.json").read_text())
    bench.down(running)
    return [{"network": name, **row} for row in rows]


def table(rows: list[dict[str, Any]]) -> str:
    """For docs/pytorch.md."""
    lines = ["| network | elements | back-end | step, ms | quartiles | Gloo's time / this | CPU time, ms |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        gloo = next(
            each for each in rows if [each[key] for key in ("network", "type")] == [row["network"], row["type"]]
        )
        assert gloo["contender"] == GLOO
        quartiles = f"{1e3 * row['lower']:.0f} to {1e3 * row['upper']:.0f}"
        words = [TITLES[row["network"]], row["type"], row["contender"], f"{1e3 * row['s']:.0f}", quartiles]
        lines.append(f"| {' | '.join(words)} | {gloo['s'] / row['s']:.2f} | {1e3 * row['cpu_s']:.0f} |")
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars: a network each panel, a type each group, a back-end each bar, the quartiles on it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    networks = [name for name in TITLES if any(row["network"] == name for row in rows)]
    figure = Figure(figsize=(5.0 * len(networks), 4.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, network in zip(figure.subplots(1, len(networks), squeeze=False)[0], networks, strict=True):
        found = [row for row in rows if row["network"] == network]
        types = list(dict.fromkeys(row["type"] for row in found))
        names = list(dict.fromkeys(row["contender"] for row in found))
        for place, name in enumerate(names):
            of_name = [row for row in found if row["contender"] == name]
            at = [group + 0.8 / len(names) * (place - (len(names) - 1) / 2) for group in range(len(types))]
            heights = [1e3 * row["s"] for row in of_name]
            below = [1e3 * (row["s"] - row["lower"]) for row in of_name]
            above = [1e3 * (row["upper"] - row["s"]) for row in of_name]
            axes.bar(at, heights, 0.8 / len(names), yerr=[below, above], label=name, capsize=3)
        axes.set_xticks(range(len(types)), types)
        axes.set_title(f"{TITLES[network]}, {RANKS} ranks")
        axes.set_ylabel("step of DDP, ms")
        axes.legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.step_times", description=__doc__)
    parser.add_argument("networks", nargs="*", help=f"of {', '.join(SHAPES)}; none: all that this user can make")
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
        with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
            for name in names:
                rows += measure(Bench("steps"), name, given.steps or STEPS[name])
    except ToolError as error:
        sys.exit(f"fanin: {error}")
    (given.folder / "step-times.json").write_text(json.dumps(rows, indent=1) + "\n")
    (given.folder / "step-times.md").write_text(table(rows) + "\n")
    draw(rows, picture)
    print(table(rows))
    print(f"written: {picture}, step-times.md and step-times.json beside it")


if __name__ == "__main__":
    main()
