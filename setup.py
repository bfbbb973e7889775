"""Builds two plain shared libraries of C11, for which a C compiler is enough (no Python.h, no mpi.h).

The driver core is loaded with dlopen, by `fanin.driver` and by C programs alike. The MPI shim is preloaded into MPI
programs, and has the driver core in it. Everything else is in pyproject.toml.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("host/fanin/core")
SHIM = Path("host/fanin/mpi")
ABI = Path("protocol/fanin_wire")
FLAGS = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden", "-pthread", "-shared"]


class BuildDriverCore(build_ext):
    """Calls the compiler itself: the flags of the interpreter's own build may name one that is not installed."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + ".so"

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        extra = shlex.split(os.environ.get("CFLAGS", ""))
        includes = [f"-I{folder}" for folder in (ABI, *ext.include_dirs)]
        command = [*compiler, *FLAGS, *extra, *includes, *ext.sources, *ext.extra_link_args, "-o", str(target)]
        try:
            subprocess.run(command, check=True)
        except FileNotFoundError:
            raise SystemExit(f"no C compiler {compiler[0]!r}: install one (Debian: gcc) or name yours in $CC") from None


def library(name: str, folders: list[Path], *link: str) -> Extension:
    """A library of all C files below some folders. Files name headers by their paths from there."""
    return Extension(
        name,
        sources=sorted(str(path) for folder in folders for path in folder.rglob("*.c")),
        depends=[*sorted(str(path) for folder in folders for path in folder.rglob("*.h")), str(ABI / "abi.h")],
        include_dirs=[str(folder) for folder in folders],
        extra_link_args=list(link),
    )


setup(
    ext_modules=[
        library("fanin.libfanin", [CORE]),
        # Of the driver core nothing may be visible in a program that loads libfanin.so as well.
        library("fanin.libfanin_mpi", [SHIM, CORE], f"-Wl,--version-script={SHIM / 'exports.map'}", "-ldl"),
    ],
    cmdclass={"build_ext": BuildDriverCore},
)
