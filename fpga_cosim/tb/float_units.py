"""Results of the float units for arrays of bits, each in one call, after the unit's clocks."""

from typing import Any

import numpy as np

from fpga_cosim.tb.divisors import as_f32, reciprocal_of
from fpga_cosim.tb.verilated import Module, pipelined

ADD, MULTIPLY, DIVIDE, NARROW = 7, 7, 6, 2  # clocks
DROPPED = 14  # bits of a reciprocal that the divider ignores


def _of(module: Module, count: int, **ports: Any) -> np.ndarray:
    inputs = np.zeros(count, module.inputs)
    for name, values in ports.items():
        inputs[name] = values
    return inputs


def sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    module = Module("float32_add")
    return pipelined(module, _of(module, len(a), advance=1, a=a, b=b), ADD)["sum"]


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    module = Module("float32_multiply")
    return pipelined(module, _of(module, len(a), advance=1, a=a, b=b), MULTIPLY)["product"]


def quotients(a: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Quotients of f32 by whole numbers."""
    module = Module("float32_divide")
    table = {divisor: reciprocal_of(as_f32(divisor)) for divisor in set(by.tolist())}
    reciprocals = np.array([table[each][0] >> DROPPED for each in by.tolist()], np.uint64)
    shifts = [table[each][1] for each in by.tolist()]
    return pipelined(module, _of(module, len(a), valid=1, a=a, reciprocal=reciprocals, shift=shifts), DIVIDE)[
        "quotient"
    ]


def narrowed(wide: np.ndarray, name: str) -> np.ndarray:
    """f32, rounded to f16 or bf16."""
    module = Module("float16_narrow")
    return pipelined(module, _of(module, len(wide), advance=1, is_bf16=name == "bf16", wide=wide), NARROW)["narrow"]


def widened(narrow: np.ndarray, name: str) -> np.ndarray:
    module = Module("float16_widen")
    return module.run(_of(module, len(narrow), is_bf16=name == "bf16", narrow=narrow))["wide"]
