"""A module clock by clock, and the Verilog's numbers of opcodes, statuses and states."""

import re
from typing import Any

import numpy as np

from fpga_cosim.tb.tools import RTL
from fpga_cosim.tb.verilated import Module


def constants(header: str, prefix: str) -> dict[str, int]:
    """The decimal numbers that a header of the RTL defines, by their names without the prefix."""
    text = (RTL / f"{header}.vh").read_text()
    return {name: int(value) for name, value in re.findall(rf"`define {prefix}_(\w+) \d+'d(\d+)", text)}


OPCODE, STATUS = constants("fanin_constants", "FANIN_OPCODE"), constants("fanin_constants", "FANIN_STATUS")
CLASS, JOB, DROP = (
    constants("fanin_constants", "FANIN_CLASS"),
    constants("engine_states", "JOB"),
    constants("drop_reasons", "DROP"),
)


def number(port: Any) -> int:
    """The value of a port of any width."""
    return int.from_bytes(port.tobytes(), "little")


class Steps:
    """A module after its reset, clock by clock. inputs: the values of ports that a step does not name."""

    def __init__(self, module: Module, **inputs: int) -> None:
        module.reset()
        self._module, self.inputs = module, np.zeros(1, module.inputs)
        self.keep(**inputs)

    def keep(self, **inputs: int) -> None:
        """Set values of ports for later steps."""
        for name, value in inputs.items():
            _put(self.inputs, name, value)

    def step(self, **inputs: int) -> np.void:
        """One clock with these inputs. Returns the outputs before its edge."""
        given = self.inputs.copy()
        for name, value in inputs.items():
            _put(given, name, value)
        return self._module.run(given)[0]

    def trace(self, port: str, clocks: int, **inputs: int) -> list[int]:
        """The values of an output in so many clocks with the same inputs."""
        return [number(self.step(**inputs)[port]) for _ in range(clocks)]


def _put(record: np.ndarray, name: str, value: int) -> None:
    field = record[name]
    field.view(np.uint8)[...] = np.frombuffer(value.to_bytes(field.nbytes, "little"), np.uint8).reshape(
        field.view(np.uint8).shape
    )
