"""The CRC on Arm: it compiles for an Arm core with and without the instructions, and uses them if present.

LLVM compiles for Arm on any machine, in a separate process; `make arm` runs the result.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_nic.native.target import TARGETS
from fanin_nic.port import crc

pytestmark = pytest.mark.process

# Prints the assembly of every CRC implementation of a target, each after a line with its name.
PROGRAM = """
import sys
from fanin_nic.native import target
target.aim(target.TARGETS[sys.argv[1]])
from numba import types
from fanin_nic.port import crc
word = types.uint64
def show(function, arguments):
    function.compile(arguments)
    print("==", function.__name__)
    print(function.entry.inspect_asm(arguments))
show(crc.crc_update, (types.uint32, word, word))
show(crc.crc_headers, (types.uint32, types.UniTuple(word, 6), word))
show(crc.crc_behind_headers, (word, word, word, word))
show(crc.crc_multiply, (types.uint32, types.uint32))
"""
INSTRUCTION = re.compile(r"^\t(pmull|crc32[bwx])2?\b", re.MULTILINE)
FUNCTION = re.compile(r"^== (\w+)\n(.*?)(?=^== |\Z)", re.MULTILINE | re.DOTALL)


def instructions(target: str, folder: Path) -> dict[str, set[str]]:
    """The instructions for CRC in the machine code of each function for a target."""
    command = [sys.executable, "-c", PROGRAM, target]
    environment = {"FANIN_CACHE_DIR": str(folder), "PATH": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {name: set(INSTRUCTION.findall(text)) for name, text in FUNCTION.findall(done.stdout)}


def test_with_the_instructions(tmp_path):
    carryless, serial = {"pmull"}, {"crc32b", "crc32w", "crc32x"}
    assert instructions("arm64", tmp_path) == {
        "crc_clmul_128": carryless | serial,
        "headers_clmul": carryless,
        "behind_headers_clmul": carryless | serial,
        "multiply_clmul": carryless,
    }


def test_without_them(tmp_path):
    found = instructions("arm64-base", tmp_path)
    assert set(found) == {"crc_slicing", "headers_serial", "behind_headers_serial", "multiply_bitwise"}
    assert not any(found.values())


@pytest.mark.parametrize(
    ("features", "fastest"),
    [
        ({"neon", "aes", "crc"}, "crc_clmul_128"),
        ({"neon", "aes"}, "crc_clmul_128"),
        ({"neon", "crc"}, "crc_instructions"),
        ({"neon"}, "crc_slicing"),
        ({"aes", "crc32", "sse4.1"}, "crc_slicing"),  # x86 has an "aes" without a carry-less multiplication
    ],
)
def test_choice(features, fastest):
    assert next(iter(crc.available_variants(frozenset(features)))) == fastest


def test_the_targets_are_what_their_names_say():
    assert "+aes" in TARGETS["arm64"].features
    assert "-aes" in TARGETS["arm64-base"].features
