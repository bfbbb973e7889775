"""A host that writes and reads words on AXI-Lite, with pauses."""

from collections.abc import Callable

import numpy as np

OKAY, SLVERR = 0, 2
MAX_CLOCKS = 2000
ANSWERS = {"b": ("s_axil_bresp",), "r": ("s_axil_rdata", "s_axil_rresp")}  # the values of a channel


class Host:
    """The host of a module with the ports `s_axil_...`."""

    def __init__(self, inputs: np.ndarray, clock: Callable[[], np.void], generator: np.random.Generator) -> None:
        """inputs: the record of all inputs. clock: runs a clock with them and returns the outputs before its edge."""
        self._inputs, self._clock, self._generator = inputs, clock, generator

    def write(self, address: int, value: int, strobe: int = 0xF) -> int:
        """Write a word, or some bytes of it. Returns the response."""
        for name, given in (("awaddr", address), ("wdata", value), ("wstrb", strobe)):
            self._inputs[f"s_axil_{name}"] = given
        return int(self._transfer(("aw", "w"), "b")["s_axil_bresp"])

    def read(self, address: int) -> int:
        """Read a word. Raises AssertionError if the response is not OKAY."""
        self._inputs["s_axil_araddr"] = address
        output = self._transfer(("ar",), "r")
        assert output["s_axil_rresp"] == OKAY
        return int(output["s_axil_rdata"])

    def _transfer(self, asks: tuple[str, ...], answers: str) -> np.void:
        """Offer on some channels until each is taken; take the answer, which must be stable until then."""
        waiting, ready, before = set(asks), f"s_axil_{answers}ready", None
        for _ in range(MAX_CLOCKS):
            for name in waiting:
                self._inputs[f"s_axil_{name}valid"] |= self._generator.random() < 0.5
            self._inputs[ready] = self._generator.random() < 0.5
            output = self._clock()
            for name in tuple(waiting):
                if self._inputs[f"s_axil_{name}valid"][0] and output[f"s_axil_{name}ready"]:
                    waiting.remove(name)
                    self._inputs[f"s_axil_{name}valid"] = 0
            if not output[f"s_axil_{answers}valid"]:
                assert before is None, "an answer disappears"
                continue
            now = [int(output[name]) for name in ANSWERS[answers]]
            assert before in (None, now), "an answer changes"
            before = now
            if self._inputs[ready][0]:
                self._inputs[ready] = 0
                assert not waiting, "an answer comes before its request"
                return output
        raise AssertionError("no answer")
