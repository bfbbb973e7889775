"""A module with several clocks, step by step."""

from collections.abc import Mapping

import numpy as np

from fpga_cosim.tb.verilated import Module

RESET_PERIODS = 12  # of each clock


class Clocks:
    """In a step each clock may change, and the module's `clk`, if it has one, goes through a period. Inputs of another
    clock are set after it has fallen.

    inputs: the record of all inputs. before, after: the outputs before and after the last step.
    """

    def __init__(self, module: Module, halves: Mapping[str, int]) -> None:
        """halves: half a period of each clock, in steps, by its port."""
        module.reset()
        self.inputs = np.zeros(1, module.inputs)
        self._module, self._halves, self._number = module, dict(halves), 0
        self.before = self.after = module.run(self.inputs)[0]

    def step(self) -> tuple[set[str], set[str]]:
        """The next step. Returns the clocks that rise in it, and those that fall."""
        changed = {clock for clock, half in self._halves.items() if self._number % half == 0}
        for clock in changed:
            self.inputs[clock] ^= 1
        rising = {clock for clock in changed if self.inputs[clock][0]}
        self._number += 1
        self.before, self.after = self.after, self._module.run(self.inputs)[0]
        return rising, changed - rising

    def reset(self, *ports: str) -> list[np.void]:
        """Reset by these ports, then as many steps without. Returns the outputs after each step."""
        seen = []
        for level in (1, 0):
            for port in ports:
                self.inputs[port] = level
            for _ in range(2 * RESET_PERIODS * max(self._halves.values())):
                self.step()
                seen.append(self.after)
        return seen


S, M = "s_clk", "m_clk"
HALVES = ((2, 3), (3, 2), (2, 2), (2, 9), (9, 2))


class TwoClocks(Clocks):
    """A module with the clocks `s_clk` and `m_clk`, each with its reset."""

    def __init__(self, module: Module, halves: tuple[int, int]) -> None:
        super().__init__(module, dict(zip((S, M), halves, strict=True)))
        self.reset("s_rst", "m_rst")
