"""A compiler for arm64 on x86-64: Debian's, unpacked into a folder."""

from pathlib import Path

from . import packages
from .packages import Selection

# The older release's: its output runs on both.
COMPILER = Selection("bookworm", "amd64", ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"), apart=("libc6",))
TOOLS = {"cc": 'aarch64-linux-gnu-gcc --sysroot="$here"', "nm": "aarch64-linux-gnu-nm"}
RUN_TOOL = """#!/bin/sh
here=${{0%/*}}
libraries=usr/lib/x86_64-linux-gnu
path=$here/$libraries
if [ /lib64/ld-linux-x86-64.so.2 -ef "$here/apart/$libraries/ld-linux-x86-64.so.2" ]; then
  path=$path:$here/apart/$libraries
fi
LD_LIBRARY_PATH=$path exec "$here/usr/bin/"{tool} "$@"
"""


def unpack(folder: Path, work: Path) -> list[str]:
    """Fetch it into a folder, where its command is `cc`. In a root for arm64, too, the tools run natively, with a
    loader and a C library of their own (the folder `apart`). Returns the names of the packages' files. Raises
    NotPossible."""
    files = packages.unpack(COMPILER, folder, work)
    for name, tool in TOOLS.items():
        write_command(folder / name, RUN_TOOL.format(tool=tool))
    return files


def write_command(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)
