"""tshark with the dissector, on captures of given packets."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.utils import wrpcap

import fanin_wire

FILE = Path(fanin_wire.__file__).with_name("fanin.lua")
LINK = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
BOUND_S = 120


def write(path: Path, packets: Sequence[Packet]) -> Path:
    """Write IP packets as a capture."""
    wrpcap(str(path), [LINK / packet for packet in packets])
    return path


def tshark(path: Path, *options: str) -> str:
    """What tshark prints of a capture that it has read twice; skips where there is none. Lua must not complain."""
    if shutil.which("tshark") is None:
        pytest.skip("the program `tshark` (wireshark)")
    command = ["tshark", "-n", "-2", "-X", f"lua_script:{FILE}", "-r", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "Lua" not in done.stderr + done.stdout, done.stderr
    return done.stdout


def dissected(path: Path) -> list[dict[str, Any]]:
    """The layers of each frame. A field that is there several times has a list."""
    return [frame["_source"]["layers"] for frame in json.loads(tshark(path, "-T", "json", "--no-duplicate-keys"))]


def rows(path: Path, *names: str) -> list[list[str]]:
    """The values of some fields in each frame."""
    wanted = [word for name in names for word in ("-e", name)]
    return [line.split("\t") for line in tshark(path, "-T", "fields", *wanted).splitlines()]


def values(tree: Any, found: dict[str, list[Any]] | None = None) -> dict[str, list[Any]]:
    """All fields at any depth, by their names, each with its values in their order."""
    found = {} if found is None else found
    for name, value in tree.items() if isinstance(tree, dict) else ():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                values(one, found)
            else:
                found.setdefault(name, []).append(one)
    return found
