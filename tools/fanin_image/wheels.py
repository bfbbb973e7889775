"""Python packages for an image: Fanin, and what it needs, in the versions of this environment."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from . import packages
from .packages import NotPossible

CHECKOUT = Path(__file__).parents[2]
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}  # releases of Debian, by their Python
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # as `uname -m` says, by Debian's and OCI's names
EXTRAS = ("kubernetes",)  # of pyproject.toml, also in an image
GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
LIBRARIES = ("libfanin.so", "libfanin_mpi.so", "libfanin_verbs.so", "_binding.abi3.so")
# elf.h: e_machine
ELF_MACHINE, ELF_MACHINES = slice(18, 20), {"amd64": 62, "arm64": 183}
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def python_name() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def suite() -> str:
    """The Debian release with this Python's minor version, for which code is compiled. Raises NotPossible."""
    try:
        return SUITES[sys.version_info[:2]]
    except KeyError:
        known = " or ".join(f"{major}.{minor}" for major, minor in SUITES)
        message = f"Python {known}, as a Debian has it (this is {platform.python_version()}); make PYTHON=..."
        raise NotPossible(message) from None


def dependencies() -> list[str]:
    """What Fanin and its device plugin need, with pyproject.toml's bounds: the plugin's packages have no constraint if
    this environment lacks them."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(row for extra in EXTRAS for row in project["optional-dependencies"][extra])]


def constraints() -> str:
    """The versions of all packages of this environment, one a line."""
    freeze = [*PIP, "freeze", "--exclude-editable", "--exclude", "fanin"]
    return packages.output_of(freeze, "the versions of this environment")


def install(requirements: Sequence[str], architecture: str, versions: str, target: Path) -> None:
    """Unpack wheels and their dependencies into a folder; pip checks their SHA-256.

    requirements: packages, with bounds of versions. architecture: a row of MACHINES. versions: from `constraints`.
    Raises NotPossible.
    """
    with tempfile.TemporaryDirectory(prefix="fanin-wheels-") as work:
        file = Path(work) / "constraints.txt"
        file.write_text(versions)
        command = [*PIP, "--quiet", "install", "--only-binary=:all:", "--no-compile"]
        command += [word for name in GLIBC for word in ("--platform", f"{name}_{MACHINES[architecture]}")]
        command += ["--implementation", "cp", "--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}"]
        command += ["--constraint", str(file), "--target", str(target)]
        packages.output_of([*command, *requirements], f"Python packages for {architecture}")


def install_fanin(architecture: str, compiler: Path | None, target: Path) -> None:
    """Build Fanin as a wheel, and unpack it. compiler: the cross compiler; None: this machine's. Raises NotPossible."""
    with tempfile.TemporaryDirectory(prefix="fanin-wheel-") as temporary:
        source, built = Path(temporary) / "source", Path(temporary) / "built"
        _copy_sources(source)
        # The wheel's name is of this machine: pip would look for a build environment of the other one.
        variables = {"CC": str(compiler)} if compiler else {}
        command = [*PIP, "wheel", "--no-deps", "--quiet", "--wheel-dir", str(built), str(source)]
        packages.output_of(command, f"the wheel of Fanin for {architecture}", variables)
        (wheel,) = built.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    for name in LIBRARIES:
        machine = int.from_bytes((target / "fanin" / name).read_bytes()[ELF_MACHINE], "little")
        if machine != ELF_MACHINES[architecture]:
            raise NotPossible(f"{name} for {architecture}: the compiler has made it for ELF's machine {machine}")


def compile_bytecode(folder: Path, root: Path = Path("/")) -> None:
    """Compile Python's modules here, for all processors: an image is read-only, and an emulated Python is slow. The
    bytecode is found by name, not by time, and is the same in each run.

    root: what the image's programs see as `/`.
    """
    command = [sys.executable, "-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(root), "-p", "/", str(folder)]
    # Files that this Python can not compile are left: some packages have templates that end in .py.
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": "0"}, check=False)


def _copy_sources(target: Path) -> None:
    """The files that git knows or does not ignore, without what was built here."""
    listed = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = packages.output_of(listed, "the files of the checkout").split("\0")
    for name in filter(None, names):
        if name.startswith(("tests/", "docs/")) or not (CHECKOUT / name).is_file():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, target / name)
