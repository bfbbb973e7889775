"""What arm64 programs need on this machine: emulator, root file system, cross compiler, Python packages, Fanin itself.

All is below the folder for caches, in a folder that is named after what it is made of. It is made once; whoever wants
newer packages of Debian removes it. Fanin's own part is made in each run.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fanin_nic.native.cache import cache_root

from . import packages
from .packages import NotPossible, Selection

SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}  # releases of Debian, by their Python
# 10.0: it tells programs of the processor's features; Debian 12's 7.2 does not.
EMULATOR = Selection("trixie", "amd64", ("qemu-user",))
# The older release's: what it makes runs on both.
COMPILER = Selection("bookworm", "amd64", ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"), apart=("libc6",))
ROOT = ("bash", "dash", "coreutils", "iproute2", "libstdc++6")  # and Python
WHEELS = ("cffi", "hypothesis", "ml_dtypes", "msgspec", "numba", "numpy", "pytest", "rich", "scapy", "typer")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
LIBRARIES = ("libfanin.so", "libfanin_mpi.so", "libfanin_verbs.so", "_binding.abi3.so")
USERS = "root:x:0:0:root:/root:/bin/bash\n"
HOSTS = "127.0.0.1 localhost\n"
CHECKOUT = Path(__file__).parents[2]
ELF_MACHINE, AARCH64 = slice(18, 20), 183  # elf.h: e_machine, EM_AARCH64

TOOLS = {"cc": 'aarch64-linux-gnu-gcc --sysroot="$here"', "nm": "aarch64-linux-gnu-nm"}
RUN_TOOL = """here=${{0%/*}}
libraries=usr/lib/x86_64-linux-gnu
path=$here/$libraries
if [ /lib64/ld-linux-x86-64.so.2 -ef "$here/apart/$libraries/ld-linux-x86-64.so.2" ]; then
  path=$path:$here/apart/$libraries
fi
LD_LIBRARY_PATH=$path exec "$here/usr/bin/"{tool} "$@"
"""
COMMANDS = {
    "fanin": ("fanin_tools.cli.app", "main"),
    "fanin-nic": ("fanin_nic.daemon.main", "nic"),
    "fanin-switch": ("fanin_nic.daemon.main", "switch"),
}

Say = Callable[[str], None]


class Image(NamedTuple):
    """Paths. emulator: the program; root: the file system; compiler: the command; site: Python packages of others."""

    folder: Path
    emulator: Path
    root: Path
    compiler: Path
    site: Path


def python_name() -> str:
    """The interpreter's program of this minor version."""
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def suite() -> str:
    """The release of Debian whose Python is this one: compiled code is of one minor version. Raises NotPossible."""
    try:
        return SUITES[sys.version_info[:2]]
    except KeyError:
        known = " or ".join(f"{major}.{minor}" for major, minor in SUITES)
        message = f"Python {known}, as a Debian for Arm has it (this is {platform.python_version()}); make PYTHON=..."
        raise NotPossible(message) from None


def image(say: Say) -> Image:
    """The image; made if there is none. Raises NotPossible."""
    if platform.machine() != "x86_64":
        raise NotPossible(f"an x86-64 processor (this one is {platform.machine()}; on Arm, `make test` does it all)")
    home = cache_root()
    if home is None:
        raise NotPossible("a home for the packages (set FANIN_CACHE_DIR)")
    constraints = _constraints()
    recipe = repr((EMULATOR, COMPILER, ROOT, suite(), WHEELS, PLATFORMS, TOOLS, RUN_TOOL, COMMANDS, constraints))
    folder = home / f"arm64-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if not folder.exists():
        packages.check_tools()
        home.mkdir(parents=True, exist_ok=True)
        _make(folder, constraints, say)
    return Image(
        folder, folder / "emulator/usr/bin/qemu-aarch64", folder / "root", folder / "compiler/cc", folder / "site"
    )


def _constraints() -> str:
    """The versions of all packages of this environment, one in a line."""
    freeze = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "freeze",
        "--exclude-editable",
        "--exclude",
        "fanin",
    ]
    return packages.output_of(freeze, "the versions of this environment")


def _make(folder: Path, constraints: str, say: Say) -> None:
    """Make all beside `folder`, and give it its name when it is complete."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="arm64-") as temporary:
        made = Path(temporary) / "made"
        work = Path(temporary) / "work"
        lists = {}
        root = Selection(suite(), "arm64", (python_name(), *ROOT))
        for name, selection in {"emulator": EMULATOR, "compiler": COMPILER, "root": root}.items():
            say(f"fetching {name}: {' '.join(selection.names)} of Debian's {selection.suite}, {selection.architecture}")
            lists[name] = packages.unpack(selection, made / name, work)
        for program in (made / "emulator/usr/bin").iterdir():
            if program.name != "qemu-aarch64":
                program.unlink()  # half a gigabyte
        _write_commands(made, folder)
        (made / "root/etc/passwd").write_text(USERS)
        (made / "root/etc/hosts").write_text(HOSTS)
        for name in ("tmp", "proc", "dev", "root", "run", "sys"):
            (made / "root" / name).mkdir(exist_ok=True)
        say("compiling the bytecode of Python's own modules")
        compile_bytecode(made / "root/usr/lib" / python_name(), made / "root")
        say(f"fetching wheels for aarch64: {' '.join(WHEELS)}")
        _install_wheels(made / "site", constraints, Path(temporary))
        rows = [f"{part} {name}\n" for part, names in lists.items() for name in names]
        (made / "packages.txt").write_text("".join(rows) + constraints)
        try:
            os.rename(made, folder)
        except OSError:
            if not folder.exists():  # another run has been faster
                raise


def _write_commands(made: Path, folder: Path) -> None:
    """The tools of the compiler, which tests call in the namespaces, too: there they run with a loader and a C library
    of their own, and are not emulated. The commands of Fanin. folder: where all will lie."""
    for name, tool in TOOLS.items():
        _write_command(made / "compiler" / name, RUN_TOOL.format(tool=tool))
    programs = made / "root/usr/bin"
    for name, (module, function) in COMMANDS.items():
        program = f"from {module} import {function}; {function}()"
        _write_command(programs / name, f'exec python3 -c "{program}" "$@"\n')
    (programs / "python3").symlink_to(python_name())
    loader = folder / "compiler/apart/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    (made / "root/usr/lib64" / loader.name).symlink_to(loader)


def _write_command(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def _install_wheels(site: Path, constraints: str, work: Path) -> None:
    """The packages that Fanin and its tests need, in the versions of this environment. pip checks their SHA-256."""
    (work / "constraints.txt").write_text(constraints)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--only-binary=:all:"]
    pip += [word for name in PLATFORMS for word in ("--platform", name)]
    pip += ["--implementation", "cp", "--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}"]
    pip += ["--constraint", str(work / "constraints.txt"), "--target", str(site)]
    packages.output_of([*pip, *WHEELS], "Python packages for aarch64")


def install_fanin(made: Image, target: Path) -> None:
    """Build Fanin for arm64 by the cross compiler, as a wheel, and unpack it. Raises NotPossible."""
    with tempfile.TemporaryDirectory(prefix="fanin-arm-") as temporary:
        source, built = Path(temporary) / "source", Path(temporary) / "built"
        _copy_sources(source)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--quiet"]
        # The wheel's name says x86-64: if pip knew better, it would look for what builds it among packages for aarch64.
        variables = {"CC": str(made.compiler)}
        packages.output_of([*command, "--wheel-dir", built, source], "the wheel of Fanin for aarch64", variables)
        (wheel,) = built.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    compile_bytecode(target)
    for name in LIBRARIES:
        machine = int.from_bytes((target / "fanin" / name).read_bytes()[ELF_MACHINE], "little")
        if machine != AARCH64:
            raise NotPossible(f"{name} for aarch64: the compiler has made it for ELF's machine {machine}")


def compile_bytecode(folder: Path, root: Path = Path("/")) -> None:
    """Compile Python's modules here: an emulated Python would do it anew in each process. It is the same for all
    processors. root: what the programs that use them see as `/`."""
    compileall.compile_dir(folder, quiet=2, stripdir=root, prependdir="/", workers=0)


def _copy_sources(target: Path) -> None:
    """What a wheel is made of: the files that git knows or does not ignore, without what was built here."""
    listed = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = packages.output_of(listed, "the files of the checkout").split("\0")
    for name in filter(None, names):
        if name.startswith(("tests/", "docs/")) or not (CHECKOUT / name).is_file():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, target / name)
