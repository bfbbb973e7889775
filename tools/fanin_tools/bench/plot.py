"""A comparison as a picture: latency and bandwidth against size, with quartiles and the bound."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fanin_tools.bench.compare import Comparison
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.quantities import render_size
from fanin_wire.installation import install_command

INCHES, DOTS_PER_INCH = (11.0, 4.5), 120
MEMORY_BOUND = "memory: all data read, all results written,\nwith as many cores as the device uses"


def require_plot(paths: Iterable[Path]) -> None:
    """Raise ToolError unless each of these pictures can be drawn; called before the measurement."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError as error:
        remedy = f"{install_command('plot')}, or leave it out"
        raise ToolError("NOT_SUPPORTED", "pictures need matplotlib", remedy) from error
    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    for path in paths:
        if path.suffix[1:].lower() not in kinds:
            raise UsageError(f"{path} does not end like a picture", f"let it end with one of .{', .'.join(kinds)}")
        if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"{path} can not be written", "name a file in a folder that exists and is yours")


def save(found: Comparison, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    latency, bandwidth = figure.subplots(1, 2)
    for name, ours in found.contenders:
        _draw(found, name, "o-" if ours else "s--", latency, bandwidth)
    _draw_bound(found, latency, bandwidth)
    for axes, label in ((latency, "time, us"), (bandwidth, "bandwidth, GB/s")):
        _dress(axes, found, label)
    figure.suptitle(f"Allreduce f32 SUM, {found.setup.title}")
    figure.savefig(path)


def _draw(found: Comparison, name: str, style: str, latency: Any, bandwidth: Any) -> None:
    rows = [found.row(name, size) for size in found.sizes]
    times = [row.microseconds for row in rows]
    (line,) = latency.plot(found.sizes, [time.median for time in times], style, label=name, markersize=4)
    quartiles = [time.lower for time in times], [time.upper for time in times]
    latency.fill_between(found.sizes, *quartiles, color=line.get_color(), alpha=0.2)
    bandwidth.plot(
        found.sizes, [row.bandwidth / 1e9 for row in rows], style, label=name, markersize=4, color=line.get_color()
    )


def _draw_bound(found: Comparison, latency: Any, bandwidth: Any) -> None:
    bounds = {row.bytes: row.bound_us for row in found.rows if row.bound_us is not None}
    if not bounds:
        return
    label = "in-network bound S/B" if found.setup.netns else MEMORY_BOUND
    sizes = sorted(bounds)
    latency.plot(sizes, [bounds[size] for size in sizes], "k:", label=label)
    bandwidth.plot(sizes, [size / bounds[size] / 1e3 for size in sizes], "k:", label=label)


def _dress(axes: Any, found: Comparison, label: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="message of each rank", ylabel=label)
    axes.set_xticks(found.sizes, [render_size(size) for size in found.sizes], rotation=60)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
