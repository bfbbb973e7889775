"""Builds the driver core: a plain shared library of C11, for which a C compiler is enough (no Python.h).

It is loaded with dlopen, by `fanin.driver` and by C programs alike. Everything else is in pyproject.toml.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("host/fanin/core")
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
        command = [*compiler, *FLAGS, *extra, f"-I{ABI}", *map(str, ext.sources), "-o", str(target)]
        try:
            subprocess.run(command, check=True)
        except FileNotFoundError:
            raise SystemExit(f"no C compiler {compiler[0]!r}: install one (Debian: gcc) or name yours in $CC") from None


setup(
    ext_modules=[
        Extension(
            "fanin.libfanin",
            sources=sorted(str(path) for path in CORE.glob("*.c")),
            depends=sorted(str(path) for path in [*CORE.glob("*.h"), ABI / "abi.h"]),
        )
    ],
    cmdclass={"build_ext": BuildDriverCore},
)
