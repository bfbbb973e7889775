"""A comparison as a picture: latency and bandwidth against size, with the quartiles, and the bound drawn in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fanin_tools.bench.compare import Comparison
from fanin_tools.errors import ToolError
from fanin_tools.quantities import render_size

INCHES, DOTS_PER_INCH = (11.0, 4.5), 120


def require_plot() -> None:
    """ToolError NOT_SUPPORTED unless there is a library that draws."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ToolError(
            "NOT_SUPPORTED", "plots need matplotlib", "pip install 'fanin[plot]', or leave out --plot"
        ) from error


def save(found: Comparison, path: Path) -> None:
    """Draw `found` into a file."""
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
    label = "in-network bound S/B" if found.setup.netns else "memory: all data read, all results written"
    sizes = sorted(bounds)
    latency.plot(sizes, [bounds[size] for size in sizes], "k:", label=label)
    bandwidth.plot(sizes, [size / bounds[size] / 1e3 for size in sizes], "k:", label=label)


def _dress(axes: Any, found: Comparison, label: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="message of each rank", ylabel=label)
    axes.set_xticks(found.sizes, [render_size(size) for size in found.sizes], rotation=60)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
