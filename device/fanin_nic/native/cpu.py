"""The CPU that machine code is made for."""

import functools

from numba import config
from numba.core.codegen import get_host_cpu_features
from numba.core.registry import cpu_target

# CPUs whose clock does not suffer from 512-bit registers (Ice Lake, Zen 4, and later); older ones lack the first.
WIDE_REGISTERS = frozenset(("vpclmulqdq", "avx512f"))


def names(features: str) -> frozenset[str]:
    """The features that a CPU has, of LLVM's list ("+avx2,-amx-fp8,...")."""
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


def use_wide_registers() -> None:
    """Let loops use the widest registers: for many CPUs LLVM prefers half of them, for the sake of older ones. Call it
    before anything is compiled; NUMBA_CPU_FEATURES has the last word."""
    features = get_host_cpu_features()
    if config.CPU_FEATURES is None and names(features) >= WIDE_REGISTERS:
        config.CPU_FEATURES = f"{features},-prefer-256-bit"


def processor() -> str:
    """The processor that numba compiles for; its cache finds code for exactly this one."""
    return " ".join(map(str, cpu_target.target_context.codegen().magic_tuple()))


@functools.cache
def cpu_features() -> frozenset[str]:
    """LLVM names of the features that numba compiles for (NUMBA_CPU_FEATURES narrows them)."""
    return names(cpu_target.target_context.codegen().magic_tuple()[2])
