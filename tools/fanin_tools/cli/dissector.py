"""`fanin dissector`."""

import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Annotated

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting
from fanin_tools.errors import ToolError

FILE = "fanin.lua"
BOUND_S = 60  # for tshark, which loads all its plugins

Install = Annotated[bool, options.flag("--install", help="Write it into your folder of Wireshark plugins.")]


@reporting
def dissector(install: Install = False, json_output: options.Json = False) -> None:
    """Print the Wireshark dissector of Fanin packets, a file of Lua, or install it."""
    text = resources.files("fanin_wire").joinpath(FILE).read_text()
    path = _plugins() / FILE if install else None
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            cause = f"{path} can not be written: {error.strerror}"
            raise ToolError("PERMISSION_DENIED", cause, f"write it elsewhere: fanin dissector > {FILE}") from error
    if json_output:
        print_json({"path": str(path)} if path else {"text": text})
    elif path:
        print(path)
    else:
        print(text, end="")


def _plugins() -> Path:
    """The user's folder of Lua plugins by tshark; without tshark that of Wireshark's manual."""
    if program := shutil.which("tshark"):
        try:
            done = subprocess.run(
                [program, "-G", "folders"], capture_output=True, text=True, timeout=BOUND_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            cause = f"{program} -G folders has not ended after {BOUND_S} s"
            raise ToolError("COMMAND_FAILED", cause, f"write it yourself: fanin dissector > {FILE}") from error
        if found := re.search(r"^Personal Lua Plugins:\s*(/.*)$", done.stdout, re.M):
            return Path(found[1])
    return Path.home() / ".local/lib/wireshark/plugins"
