"""The processor that device code is compiled for, where it is not the one that compiles.

`aim(TARGETS["arm64"])` turns the compiler of this process to another processor: LLVM compiles for all of them. What is
compiled from then on is cached, and can not be run here.

Code that was made elsewhere names its processor in the file CPU_FILE of its cache folder. `take_recorded` compiles for
that one too, if this processor has all it needs: numba looks code up by the processor's name and features, so it finds
what is there. Otherwise this processor's own name stands, and its code is compiled when it first runs.
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
    """A processor: as `uname -m` names the machine, LLVM's triple, and LLVM's names of processor and features."""

    machine: str
    triple: str
    cpu: str
    features: str


LINUX_X86 = ("x86_64", "x86_64-unknown-linux-gnu")
LINUX_ARM = ("aarch64", "aarch64-unknown-linux-gnu")
# Features that LLVM's processor would have by itself are written out, since numba hands on no others.
TARGETS = {
    "arm64": Target(*LINUX_ARM, "cortex-a72", "+aes,+crc,+fp-armv8,+neon,+sha2"),  # BlueField-2 and later
    "arm64-base": Target(*LINUX_ARM, "generic", "-aes,-crc,+fp-armv8,+neon"),  # every 64-bit Arm core
    # Haswell, Zen, and later
    "amd64": Target(*LINUX_X86, "x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+pclmul,+popcnt,+sse4.2"),
}


def aim(target: Target) -> None:
    """Compile for another processor from now on, in this process. Call it before anything else of the device is
    imported."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = lambda: target.triple
    platform.machine = lambda: target.machine  # of system calls that have another number there
    config.CPU_NAME, config.CPU_FEATURES = target.cpu, target.features


def record(target: Target, folder: Path) -> None:
    """Say in a cache folder which processor its code is for."""
    (folder / CPU_FILE).write_text(json.dumps(target._asdict(), indent=1) + "\n")


def _read(file: Path) -> Target:
    """What `record` wrote. Raises OSError where there is no file, ValueError where it is not such a one."""
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
    """Compile for the processor that a cache folder names, if it names one that this one can stand for. The settings
    NUMBA_CPU_NAME and NUMBA_CPU_FEATURES have the last word. Returns whether it is so."""
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
        log.warning("the device code in %s needs %s, which is not here: it is compiled anew", folder, what)
        return False
    config.CPU_NAME, config.CPU_FEATURES = target.cpu, target.features
    return True
