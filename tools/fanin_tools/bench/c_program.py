"""The rank program in C, compiled when it is measured, as a user would compile it."""

import os
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from fanin_tools.errors import ToolError

SOURCE = Path(__file__).with_name("rank_program.c")
FLAGS = ("-std=c11", "-O2", "-Wall")


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "cc"))


def can_build() -> bool:
    return shutil.which(compiler()[0]) is not None


def build(folder: Path) -> Path:
    """Compile the program into `folder`; its path. Raises ToolError BUILD_FAILED, with the compiler's first lines."""
    spec = find_spec("fanin")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    target = folder / "rank_program"
    link = [f"-I{package / 'include'}", f"-L{package}", "-l:libfanin.so", f"-Wl,-rpath,{package}"]
    done = subprocess.run([*compiler(), *FLAGS, str(SOURCE), "-o", str(target), *link], capture_output=True, text=True)
    if done.returncode:
        said = " ".join(done.stderr.split())[:300]
        raise ToolError(
            "BUILD_FAILED",
            f"{SOURCE.name} can not be compiled: {said}",
            "fanin may be installed in part: install it again",
        )
    return target
