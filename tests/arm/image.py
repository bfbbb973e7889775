"""The parts for arm64 programs on this machine: emulator, root file system, cross compiler, Python packages, Fanin
itself.

All are in the folder for caches, in a folder named by its content, and made once. To get newer packages of Debian,
remove it. Each run makes Fanin's own part.
"""

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fanin_image import cross_compiler, packages, wheels
from fanin_image.content import COMMANDS
from fanin_image.cross_compiler import COMPILER, RUN_TOOL, TOOLS, write_command
from fanin_image.packages import NotPossible, Selection
from fanin_image.wheels import GLIBC, python_name, suite
from fanin_nic.native.cache import cache_root

# 10.0: it reports the processor's features; Debian 12's 7.2 does not.
EMULATOR = Selection("trixie", "amd64", ("qemu-user",))
ROOT = ("bash", "dash", "coreutils", "iproute2", "libstdc++6")  # and Python
WHEELS = ("cffi", "hypothesis", "ml_dtypes", "msgspec", "numba", "numpy", "pytest", "rich", "scapy", "typer")
USERS = "root:x:0:0:root:/root:/bin/bash\n"
HOSTS = "127.0.0.1 localhost\n"

Say = Callable[[str], None]


class Image(NamedTuple):
    """Paths. emulator: the program; root: the file system; compiler: the command; site: Python packages of others."""

    folder: Path
    emulator: Path
    root: Path
    compiler: Path
    site: Path


def image(say: Say) -> Image:
    """The image, made if necessary. Raises NotPossible."""
    if platform.machine() != "x86_64":
        raise NotPossible(f"an x86-64 processor (this one is {platform.machine()}; on Arm, `make test` does it all)")
    home = cache_root()
    if home is None:
        raise NotPossible("a home for the packages (set FANIN_CACHE_DIR)")
    constraints = wheels.constraints()
    recipe = repr((EMULATOR, COMPILER, ROOT, suite(), WHEELS, GLIBC, TOOLS, RUN_TOOL, COMMANDS, constraints))
    folder = home / f"arm64-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if not folder.exists():
        packages.check_tools()
        home.mkdir(parents=True, exist_ok=True)
        _make(folder, constraints, say)
    return Image(
        folder, folder / "emulator/usr/bin/qemu-aarch64", folder / "root", folder / "compiler/cc", folder / "site"
    )


def _make(folder: Path, constraints: str, say: Say) -> None:
    """Make all beside `folder`, and rename it when complete."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="arm64-") as temporary:
        made = Path(temporary) / "made"
        work = Path(temporary) / "work"
        lists = {}
        root = Selection(suite(), "arm64", (python_name(), *ROOT))
        for name, selection in {"emulator": EMULATOR, "root": root}.items():
            say(f"fetching {name}: {' '.join(selection.names)} of Debian's {selection.suite}, {selection.architecture}")
            lists[name] = packages.unpack(selection, made / name, work)
        say(f"fetching compiler: {' '.join(COMPILER.names)}")
        lists["compiler"] = cross_compiler.unpack(made / "compiler", work)
        for program in (made / "emulator/usr/bin").iterdir():
            if program.name != "qemu-aarch64":
                program.unlink()  # half a gigabyte
        _write_commands(made, folder)
        (made / "root/etc/passwd").write_text(USERS)
        (made / "root/etc/hosts").write_text(HOSTS)
        for name in ("tmp", "proc", "dev", "root", "run", "sys"):
            (made / "root" / name).mkdir(exist_ok=True)
        say("compiling the bytecode of Python's own modules")
        wheels.compile_bytecode(made / "root/usr/lib" / python_name(), made / "root")
        say(f"fetching wheels for aarch64: {' '.join(WHEELS)}")
        wheels.install(WHEELS, "arm64", constraints, made / "site")
        rows = [f"{part} {name}\n" for part, names in lists.items() for name in names]
        (made / "packages.txt").write_text("".join(rows) + constraints)
        try:
            os.rename(made, folder)
        except OSError:
            if not folder.exists():  # another run has been faster
                raise


def _write_commands(made: Path, folder: Path) -> None:
    """The commands of Fanin, and the loader of the compiler's tools. folder: the final place."""
    programs = made / "root/usr/bin"
    for name, (module, function) in COMMANDS.items():
        program = f"from {module} import {function}; {function}()"
        write_command(programs / name, f'#!/bin/sh\nexec python3 -c "{program}" "$@"\n')
    (programs / "python3").symlink_to(python_name())
    loader = folder / "compiler/apart/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    (made / "root/usr/lib64" / loader.name).symlink_to(loader)


def install_fanin(made: Image, target: Path) -> None:
    """Build Fanin for arm64 by the cross compiler, and unpack it. Raises NotPossible."""
    wheels.install_fanin("arm64", made.compiler, target)
    wheels.compile_bytecode(target)
