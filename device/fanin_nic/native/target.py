"""The processor that device code is compiled for, if it is not the one that compiles.

`aim(TARGETS["arm64"])` turns the compiler of this process to another processor. What is compiled from then on is
cached, and can not run here. The file CPU_FILE of the cache folder names that processor. `take_recorded` compiles for
it too, if this one has all its features: numba finds cached code by the processor's name and features.
"""

import json
import logging
import platform
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm
from numba import config
from numba.core.codegen import get_host_cpu_features

from fanin_nic.native.cpu import names

CPU_FILE = "cpu.json"

log = logging.getLogger(__name__)


class Target(NamedTuple):
    """A processor: machine as in `uname -m`; LLVM's triple, name and features."""

    machine: str
    triple: str
    cpu: str
    features: str


LINUX_X86 = ("x86_64", "x86_64-unknown-linux-gnu")
LINUX_ARM = ("aarch64", "aarch64-unknown-linux-gnu")
# Features that LLVM's processor has by itself are listed too, since numba hands on no others.
TARGETS = {
    "arm64": Target(*LINUX_ARM, "cortex-a72", "+aes,+crc,+fp-armv8,+neon,+sha2"),  # BlueField-2 and later
    "arm64-base": Target(*LINUX_ARM, "generic", "-aes,-crc,+fp-armv8,+neon"),  # every 64-bit Arm core
    # Haswell, Zen, and later
    "amd64": Target(*LINUX_X86, "x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+pclmul,+popcnt,+sse4.2"),
}


def aim(target: Target) -> None:
    """Compile for another processor in this process. Call it before anything else of the device is imported."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = lambda: target.triple
    platform.machine = lambda: target.machine  # of system calls that have another number there
    config.CPU_NAME, config.CPU_FEATURES = target.cpu, target.features


def record(target: Target, folder: Path) -> None:
    """Say in a cache folder which processor its code is for."""
    (folder / CPU_FILE).write_text(json.dumps(target._asdict(), indent=1) + "\n")


def _read(file: Path) -> Target:
    """Raises OSError without the file, ValueError unless `record` could have written it."""
    try:
        fields = json.loads(file.read_text())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict) or set(fields) != set(Target._fields):
        raise ValueError(f"it is not an object of {', '.join(Target._fields)}")
    if wrong := sorted(name for name, value in fields.items() if not isinstance(value, str)):
        raise ValueError(f"not a string: {', '.join(wrong)}")
    return Target(**fields)


def take_recorded(folder: Path) -> bool:
    """Whether this process compiles for the processor that a cache folder names: one that this one can stand for. The
    settings NUMBA_CPU_NAME and NUMBA_CPU_FEATURES have the last word."""
    try:
        target = _read(folder / CPU_FILE)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        log.warning("%s is not readable (%s): device code is compiled here", folder / CPU_FILE, error)
        return False
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return False
    lacking = names(target.features) - names(get_host_cpu_features())
    if platform.machine() != target.machine or lacking:
        what = ", ".join(sorted(lacking)) or f"the machine {target.machine}"
        log.warning("the device code in %s needs %s, which this machine lacks: it is compiled anew", folder, what)
        return False
    config.CPU_NAME, config.CPU_FEATURES = target.cpu, target.features
    return True
