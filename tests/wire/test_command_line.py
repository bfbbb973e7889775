"""Wrong usage of the programs beside `fanin` has the form of `fanin`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROGRAMS = {
    "fanin-nic": ([], ["--color", "red"], ["--settings", "/no/such/file"], ["--log-level", "loud"]),
    "fanin-switch": (["--name", "a", "--address", "127.0.0.1", "--socket", "/tmp/x", "--mtu", "3"],),
    "fanin-device-plugin": (["--color", "red"], ["--settings", "/no/such/file"]),
    "fanin": (["--color", "red"], ["sideways"]),
}


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "arguments"), [(name, words) for name, wrong in PROGRAMS.items() for words in wrong], ids=str
)
def test_wrong_usage_is_one_line_with_a_name_and_a_remedy(program: str, arguments: list[str]) -> None:
    done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch(r"fanin: INVALID_REQUEST: .+; .+\n", done.stderr)


def test_no_program_has_a_parser_of_its_own() -> None:
    """fanin_reference imports nothing of ours."""
    files = [path for part in ("device", "host", "tools", "fpga_cosim") for path in (ROOT / part).rglob("*.py")]
    assert len(files) > 500
    own = [path.parent.name for path in files if "argparse.ArgumentParser" in path.read_text()]
    assert own == ["fanin_reference"]
