"""The switch in Verilog: it is no part of the distribution, so it is taken from the checkout that this file lies in."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from fanin_conform.targets.target import Target

CHECKOUT = Path(__file__).parents[3]
FOLDER = CHECKOUT / "fpga_cosim"


class RtlMissing(Exception):
    """The switch or a tool of its simulation is not here; `remedy` says what to do."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.remedy = remedy


def profile() -> str:
    """What the switch implements: a profile as text. Raises RtlMissing."""
    try:
        return (FOLDER / "profile.toml").read_text()
    except FileNotFoundError:
        remedy = "install Fanin from a checkout: make install, and .venv/bin/fanin"
        raise RtlMissing("the switch in Verilog is not here", remedy) from None


def open_rtl(count: int) -> Target:
    """Build and simulate the switch, with so many addresses of the tester. Raises RtlMissing."""
    profile()
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    tools = importlib.import_module("fpga_cosim.tb.tools")
    for tool, remedy in tools.missing().items():
        raise RtlMissing(f"the simulation needs {tool}", remedy)
    target: Target = importlib.import_module("fpga_cosim.tb.target").RtlTarget(count)
    return target
