"""Frames of both sides come out whole, in the order of their side, in turns, with their own `tuser`."""

import numpy as np
import pytest

from fpga_cosim.tb import frames
from fpga_cosim.tb.verilated import Module

USER, FRAMES, SIDES = 17, 200, ("nic", "switch")
FIELDS = ("tdata", "tkeep", "tlast")


@pytest.fixture(scope="module")
def merge() -> Module:
    return Module("frame_merge", {"USER": USER})


class Side:
    def __init__(self, number: int, generator: np.random.Generator) -> None:
        self.name, self.number, self._generator = SIDES[number], number, generator
        sizes = generator.integers(1, 300, FRAMES)
        self.sent = [bytes([number]) + generator.bytes(size) for size in sizes]
        self.beats = frames.to_beats(self.sent)
        self.users = generator.integers(0, 1 << USER, len(self.beats), np.uint32)
        self.place, self.offers = 0, False

    def offer(self, inputs: np.ndarray, likelihood: float) -> None:
        self.offers = self.place < len(self.beats) and (self.offers or self._generator.random() < likelihood)
        inputs[f"{self.name}_axis_tvalid"] = self.offers
        if self.offers:
            for field in FIELDS:
                inputs[f"{self.name}_axis_{field}"] = self.beats[f"s_axis_{field}"][self.place]
            if self.number == 0:
                inputs["nic_axis_tuser"] = self.users[self.place]

    def user(self) -> int:
        return 0 if self.number else int(self.users[self.place])


@pytest.mark.parametrize("offers", [(1, 1), (0.2, 1), (1, 0.2), (0.5, 0.5)])
def test_both_sides(merge: Module, offers: tuple[float, float], generator: np.random.Generator) -> None:
    """The sink pauses; beats offered to it are stable."""
    sides = [Side(number, generator) for number in range(2)]
    inputs, came = np.zeros(1, merge.inputs), []
    merge.reset()
    offered = None
    while any(side.place < len(side.beats) for side in sides):
        for side, likelihood in zip(sides, offers, strict=True):
            side.offer(inputs, likelihood)
        inputs["m_axis_tready"] = generator.random() < 0.7
        output = merge.run(inputs)[0]
        if offered is not None:
            assert output["m_axis_tvalid"]
            assert output["m_axis_tdata"].tobytes() == offered
        taken = output["m_axis_tvalid"] and inputs["m_axis_tready"][0]
        offered = output["m_axis_tdata"].tobytes() if output["m_axis_tvalid"] and not taken else None
        owners = [side for side in sides if side.offers and output[f"{side.name}_axis_tready"]]
        assert len(owners) == bool(taken)
        if not taken:
            continue
        side = owners[0]
        assert output["m_axis_tuser"] == side.user()
        came.append(output)
        side.place, side.offers = side.place + 1, False
    every = frames.from_beats(np.array(came, merge.outputs))
    for side in sides:
        assert [frame for frame in every if frame[0] == side.number] == side.sent
    if offers == (1, 1):  # without pauses both take turns
        order = [frame[0] for frame in every]
        assert order[:FRAMES] == [1, 0] * (FRAMES // 2)
