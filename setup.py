"""Builds the driver `libfanin.so`, with the driver in them the MPI shim, the verbs library, the plugin for NCCL and
libsharp_coll for UCC, and Python's binding.

All but the binding are plain shared libraries of C11, for which a C compiler is enough (no Python.h, no mpi.h, no
infiniband/verbs.h, no nccl.h, no UCC). The binding uses CPython's limited API, so that one build serves every version
from 3.11 on, and numpy's headers. Everything else is in pyproject.toml.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.editable_wheel import editable_wheel

DRIVER = Path("host/fanin/core")
SHIM = Path("host/fanin/mpi")
VERBS = Path("host/fanin/verbs_lib")
NCCL = Path("host/fanin/nccl_lib")
SHARP = Path("host/fanin/sharp_lib")
BINDING = Path("host/fanin/binding")
ABI = Path("protocol/fanin_wire")
PUBLIC_HEADERS = (DRIVER / "fanin.h", ABI / "abi.h")
FLAGS = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-pthread", "-shared"]
LIMITED_API = "-DPy_LIMITED_API=0x030b0000"


class BuildLibraries(build_ext):
    """Calls the compiler itself: the flags of the interpreter's own build may name one that is not installed."""

    def run(self) -> None:
        root = Path("host") if self.inplace or self.editable_mode else Path(self.build_lib)
        for extension in self.extensions:  # setuptools copies the libraries there, and makes no folder
            (root / self.get_ext_filename(extension.name)).parent.mkdir(parents=True, exist_ok=True)
        super().run()
        copy_headers(root / "fanin/include/fanin")

    def get_ext_filename(self, fullname: str) -> str:
        suffix = ".abi3.so" if fullname.endswith("_binding") else ".so"
        return str(Path(*fullname.split("."))) + suffix

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        extra = shlex.split(os.environ.get("CFLAGS", ""))
        includes = [f"-I{folder}" for folder in ext.include_dirs]
        if ext.name.endswith("_binding"):
            extra += [LIMITED_API, f"-I{python_headers()}", "-isystem", numpy.get_include(), f"-L{target.parent}"]
        link = [*ext.extra_link_args, "-o", str(target)]
        try:
            flags = link_time_optimization(compiler, [*FLAGS, *extra], target.parent)
            subprocess.run([*compiler, *flags, *includes, *ext.sources, *link], check=True)
        except FileNotFoundError:
            raise SystemExit(f"no C compiler {compiler[0]!r}: install one (Debian: gcc) or name yours in $CC") from None


def link_time_optimization(compiler: list[str], flags: list[str], folder: Path) -> list[str]:
    """The flags, with link-time optimization before them if the compiler links with it. Later flags overrule it.

    A call that the shim leaves to the MPI passes several files.
    """
    optimizing = ["-flto", *flags]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        line = [*compiler, *optimizing, "-x", "c", "-", "-o", str(Path(place) / "probe.so")]
        done = subprocess.run(line, input="int probe(void) { return 0; }", text=True, capture_output=True)
    return flags if done.returncode else optimizing


class EditableInstall(editable_wheel):
    """Puts the folders that hold the packages on the path of the interpreter.

    setuptools would install a finder, which comes after the whole path. A folder `fanin` beside a program, as a clone
    is mostly called, would then be taken for the package.
    """

    def _select_strategy(self, *arguments: object) -> PathEntries:
        roots = {Path(folder).parent for name, folder in self.distribution.package_dir.items() if "." not in name}
        return PathEntries([root.resolve() for root in sorted(roots)])


class PathEntries:
    """What setuptools calls a strategy: it writes into the wheel what makes the packages known."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def __call__(self, wheel: Any, files: list[str], mapping: dict[str, str]) -> None:
        wheel.writestr("__editable__.fanin.pth", "".join(f"{folder}\n" for folder in self.folders))


def python_headers() -> str:
    """The folder of Python.h."""
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").exists():
        raise SystemExit(
            f"Python.h is not in {folder}: install Python's headers (Debian: python3-dev, Fedora: python3-devel)"
        )
    return folder


def copy_headers(folder: Path) -> None:
    """Give C programs the public headers: `#include <fanin/fanin.h>`."""
    folder.mkdir(parents=True, exist_ok=True)
    for header in PUBLIC_HEADERS:
        shutil.copyfile(header, folder / header.name)


def library(name: str, folders: list[Path], *link: str, includes: tuple[Path, ...] = ()) -> Extension:
    """A library of all C files below some folders, which include headers by their path from there."""
    return Extension(
        name,
        sources=sorted(str(path) for folder in folders for path in folder.rglob("*.c")),
        depends=[
            *sorted(str(path) for folder in (*folders, *includes) for path in folder.rglob("*.h")),
            str(ABI / "abi.h"),
            str(ABI / "ibv.h"),
        ],
        include_dirs=[str(folder) for folder in (*folders, *includes, ABI)],
        extra_link_args=list(link),
        py_limited_api=True,
    )


setup(
    ext_modules=[
        library(
            "fanin.libfanin",
            [DRIVER],
            f"-Wl,--version-script={DRIVER / 'exports.map'}",
            "-Wl,-soname,libfanin.so",
            "-ldl",
        ),
        # Of the driver nothing may be visible in a program that loads libfanin.so as well.
        library("fanin.libfanin_mpi", [SHIM, DRIVER], f"-Wl,--version-script={SHIM / 'exports.map'}", "-ldl"),
        library("fanin.libfanin_verbs", [VERBS, DRIVER], f"-Wl,--version-script={VERBS / 'exports.map'}", "-ldl"),
        library("fanin.libnccl-net-fanin", [NCCL, DRIVER], f"-Wl,--version-script={NCCL / 'exports.map'}", "-ldl"),
        library(
            "fanin.sharp_lib.lib.libsharp_coll",
            [SHARP, DRIVER],
            f"-Wl,--version-script={SHARP / 'exports.map'}",
            "-Wl,-soname,libsharp_coll.so",
            "-ldl",
            includes=(SHARP / "include",),
        ),
        library("fanin._binding", [BINDING], "-l:libfanin.so", "-Wl,-rpath,$ORIGIN", includes=(DRIVER,)),
    ],
    cmdclass={"build_ext": BuildLibraries, "editable_wheel": EditableInstall},
)
