"""Programs of this machine in a guest with its files: Python, the checkout, and compiled code for the guest's CPU.

The emulator's CPU may lack features of this machine's, so device code is compiled here again, for their intersection.
That takes a minute or two, and the cache keeps it.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fanin_nic.native.cache import ENVIRONMENT_VARIABLE as CACHE
from fanin_nic.native.cache import cache_root, completion_mark, source_digest

from .guest import Guest
from .packages import PackagesMissing

CHECKOUT = Path(__file__).parents[3]
CPU = {"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": "+sse4.2,+pclmul,+popcnt,+cx16"}
COMPILER = "fanin_nic.daemon.precompile"
COMPILE_SECONDS = 1800
FOLDER = "guest-cpu"  # beside the compiled code for this machine
LIBRARIES = "/run/verbs"  # libibverbs with rxe's provider, of the guest's packages
FILES = "/machine"  # of this machine, in a guest with them
PYVERBS = "/run/guest/lib/python3/dist-packages"  # of the guest's packages, for its Python
PYVERBS_VERSION = (3, 11)
# Prefix of a program of the guest's packages, below /run/guest, for a program of this machine
GUEST_PROGRAM = ("/run/guest/lib64/ld-linux-x86-64.so.2", "--library-path", "/run/guest/lib/x86_64-linux-gnu")
COPIED = ("libibverbs.so.1*", "librdmacm.so.1*", "libnl-3.so*", "libnl-route-3.so*", "libibverbs/librxe-rdmav*.so")
ANSWER_SECONDS = 60  # for the agent, beyond the program's own time


def prepare() -> dict[str, str]:
    """Compile the device code for guests. Returns their programs' environment. PackagesMissing without a cache."""
    variables = environment()
    folder = Path(variables[CACHE])
    if not completion_mark(folder / f"compiled-{source_digest()}").exists():
        command, compiling = [sys.executable, "-m", COMPILER], {name: variables[name] for name in (*CPU, CACHE)}
        subprocess.run(command, env=os.environ | compiling, check=True, timeout=COMPILE_SECONDS, capture_output=True)
    return variables


def environment() -> dict[str, str]:
    """The environment of programs in guests, without the device code. Raises PackagesMissing as `prepare`."""
    root = cache_root()
    if root is None:
        raise PackagesMissing("a home for compiled code of the virtual machine")
    return CPU | {
        CACHE: str(root / FOLDER),
        "HOME": "/root",
        "LD_LIBRARY_PATH": LIBRARIES,
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": PYVERBS,
        "RDMAV_DRIVERS": "rxe",
        "XDG_RUNTIME_DIR": "/run",
    }


def install_verbs(guest: Guest) -> None:
    """Give the programs libibverbs, which this machine may lack."""
    copies = " ".join(COPIED)
    script = f"mkdir {FILES}{LIBRARIES} && cd /usr/lib/*-linux-gnu && cp -a {copies} {FILES}{LIBRARIES}"
    guest.call("run", command=["busybox", "sh", "-c", script])


def run_module(
    guest: Guest,
    environment: dict[str, str],
    module: str,
    arguments: Sequence[str],
    seconds: float,
    prefix: Sequence[str] = (),
    *,
    root: str = FILES,
    python: str = sys.executable,
) -> str:
    """The output of `python -m module` in the guest. Raises CallFailed with the output of a failure.

    prefix: words before the command; root: its file system; python: its interpreter.
    """
    assignments = [f"{name}={value}" for name, value in environment.items()]
    command = [*prefix, "busybox", "chroot", root, "/usr/bin/env", "-i", f"--chdir={CHECKOUT}", *assignments]
    command += [python, "-m", module, *arguments]
    return str(guest.call("run", command=command, seconds=seconds, within=seconds + ANSWER_SECONDS))
