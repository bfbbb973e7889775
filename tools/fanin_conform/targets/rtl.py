"""The switch in Verilog, from the checkout of this file: it is not part of the distribution."""

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fanin_conform.targets.target import Target
from fanin_wire.installation import make_command

CHECKOUT = Path(__file__).parents[3]
FOLDER = CHECKOUT / "fpga_cosim"


class RtlMissing(Exception):
    """The switch or a tool for it is missing, or its build fails; `remedy` says what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy


def profile() -> str:
    """The features of the switch: a profile as text. Raises RtlMissing."""
    try:
        return (FOLDER / "profile.toml").read_text()
    except FileNotFoundError:
        remedy = f"use the fanin of a checkout: {make_command('install')}, and .venv/bin/fanin"
        raise RtlMissing("the switch in Verilog is missing", remedy) from None


@contextlib.contextmanager
def simulation(module: str) -> Iterator[Any]:
    """A module of `fpga_cosim.tb` that builds and simulates the switch. Raises RtlMissing."""
    profile()
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    tools = importlib.import_module("fpga_cosim.tb.tools")
    for tool, remedy in tools.missing(tools.SIMULATION).items():
        raise RtlMissing(f"the simulation needs {tool}", remedy)
    try:
        yield importlib.import_module(f"fpga_cosim.tb.{module}")
    except tools.ToolFailed as failed:
        raise RtlMissing(
            f"the simulation can not be built: {failed}", f"{make_command('cosim')} checks its parts"
        ) from None


def open_rtl(count: int, wave: Path | None = None) -> Target:
    """Build and simulate the switch, with so many addresses of the tester. wave: a file for the waveform, if any.

    Raises RtlMissing as `simulation`, and OSError if the waveform can not be written.
    """
    with simulation("target") as target:
        opened: Target = target.RtlTarget(count, group=target.GROUP, wave=wave)
    return opened
