"""Frames from one clock to another: whole, in order, without a gap; or dropped whole, and counted."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from fpga_cosim.tb import frames
from fpga_cosim.tb.clocks import HALVES, M, S, TwoClocks
from fpga_cosim.tb.verilated import Module

ADDRESS, FRAMES, MAX_BEATS = 4, 150, 12  # 16 beats; beats of a frame that fits, at most
TOO_LONG = 17
BAD, HURRIES = 0.1, 0.95
S_FIELDS = ("s_axis_tdata", "s_axis_tkeep", "s_axis_tlast")


def module(drops: bool) -> Module:
    return Module("frame_fifo", {"ADDRESS": ADDRESS, "DROPS": int(drops)})


def any_frame(generator: np.random.Generator, beats: int) -> bytes:
    """Of so many beats, the last with any number of bytes."""
    return generator.integers(0, 256, frames.BEAT * beats - int(generator.integers(frames.BEAT)), np.uint8).tobytes()


class Bench(TwoClocks):
    """A source and a sink that pause at random."""

    def __init__(self, module: Module, halves: tuple[int, int], generator: np.random.Generator) -> None:
        super().__init__(module, halves)
        self._dtype, self._generator = module.inputs, generator
        self.counters: Counter[str] = Counter()
        self.came = np.zeros(0, module.outputs)
        self._beats: list[np.ndarray] = []

    def put(self, frame: bytes, is_bad: bool = False) -> None:
        beats = frames.to_beats([frame], self._dtype)
        beats["s_bad"][-1] = is_bad
        self._beats += [beats[i : i + 1] for i in range(len(beats))]

    def hold_back(self, count: int) -> list[np.ndarray]:
        """Take the last beats back from the queue of offers."""
        self._beats, held = self._beats[:-count], self._beats[-count:]
        return held

    def give(self, beats: list[np.ndarray]) -> None:
        self._beats += beats

    def forget(self) -> None:
        """Discard the output."""
        self.came = self.came[:0]

    def run(self, steps: int, offers: float, takes: float, until_given: bool = False) -> None:
        """Run steps; source and sink act in a clock with this likelihood. until_given: stop when all beats are in."""
        for _ in range(steps):
            rising, falling = self.step()
            if S in rising:
                if self.inputs["s_axis_tvalid"][0] and self.before["s_axis_tready"]:
                    self._beats.pop(0)
                    self.inputs["s_axis_tvalid"] = 0
                    if until_given and not self._beats:
                        return
                for name in ("s_overflow", "s_bad_frame"):
                    self.counters[name] += int(self.after[name])
            if M in rising and self.before["m_axis_tvalid"] and self.inputs["m_axis_tready"][0]:
                self.came = np.append(self.came, self.before)
                assert self.before["m_axis_tlast"] or self.after["m_axis_tvalid"], "a frame has a gap"
            may_offer = S in falling and self._beats and not self.inputs["s_axis_tvalid"][0]
            if may_offer and self._generator.random() < offers:
                for name in (*S_FIELDS, "s_bad"):
                    self.inputs[name] = self._beats[0][name]
                self.inputs["s_axis_tvalid"] = 1
            if M in falling:
                self.inputs["m_axis_tready"] = self._generator.random() < takes

    def finish(self) -> Sequence[bytes]:
        """Drain the queue. Returns all frames since the start."""
        while self._beats:
            self.run(200, 1, 1)
        self.run(2000, 1, 1)
        return frames.from_beats(self.came)


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("takes", [0.3, HURRIES])
def test_waits_for_room(halves: tuple[int, int], takes: float, generator: np.random.Generator) -> None:
    """Only bad frames are lost."""
    bench = Bench(module(drops=False), halves, generator)
    sent = [any_frame(generator, int(generator.integers(1, MAX_BEATS))) for _ in range(FRAMES)]
    bad = generator.random(FRAMES) < BAD
    for frame, is_bad in zip(sent, bad, strict=True):
        bench.put(frame, is_bad)
        bench.run(40, HURRIES, takes)
    assert bench.finish() == [frame for frame, is_bad in zip(sent, bad, strict=True) if not is_bad]
    assert bench.counters == {"s_overflow": 0, "s_bad_frame": int(bad.sum())}


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("takes", [0.3, HURRIES])
def test_drops_whole_frames(halves: tuple[int, int], takes: float, generator: np.random.Generator) -> None:
    """The source never waits. Each frame comes or is counted; one that is too long never comes."""
    bench = Bench(module(drops=True), halves, generator)
    sent = [any_frame(generator, int(generator.integers(1, MAX_BEATS))) for _ in range(FRAMES)]
    sent[::10] = [any_frame(generator, TOO_LONG) for _ in sent[::10]]
    bad = generator.random(FRAMES) < BAD
    for frame, is_bad in zip(sent, bad, strict=True):
        bench.put(frame, is_bad)
        bench.run(40, HURRIES, takes)
        assert bench.after["s_axis_tready"]
    came = bench.finish()
    good = [frame for frame, is_bad in zip(sent, bad, strict=True) if not is_bad]
    places = [good.index(frame) for frame in came]
    assert places == sorted(set(places))
    assert not set(sent[::10]) & set(came)
    assert len(came) + sum(bench.counters.values()) == FRAMES
    assert len(came) > FRAMES / 10
    assert bench.counters["s_overflow"] >= FRAMES / 10
    assert bench.counters["s_bad_frame"] <= bad.sum()


@pytest.mark.parametrize("halves", HALVES)
def test_a_reset_of_the_sink(halves: tuple[int, int], generator: np.random.Generator) -> None:
    """While a frame comes out, another waits, and a third has half gone in: nothing of them remains."""
    for takes in (0.0, 0.2, 0.4):
        bench = Bench(module(drops=False), halves, generator)
        third = any_frame(generator, 3)
        for frame in (any_frame(generator, 6), any_frame(generator, 6), third):
            bench.put(frame)
        rest = bench.hold_back(1)
        bench.run(4000, 1, takes, until_given=True)
        bench.reset("m_rst")
        bench.forget()
        bench.give(rest)
        new = [any_frame(generator, 4) for _ in range(3)]
        for frame in new:
            bench.put(frame)
        assert bench.finish() == new


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("port", ["s_rst", "m_rst"])
def test_a_reset_of_an_empty_queue(halves: tuple[int, int], port: str, generator: np.random.Generator) -> None:
    """Nothing comes out, at any point of the handshake, and the queue works as before."""
    bench = Bench(module(drops=False), halves, generator)
    for delay in range(4 * sum(halves)):
        sent = [any_frame(generator, 3)]
        bench.forget()
        bench.put(sent[0])
        assert bench.finish() == sent
        bench.run(delay, 1, 1)
        bench.inputs["m_axis_tready"] = 1
        assert not any(each["m_axis_tvalid"] for each in bench.reset(port))


@pytest.mark.parametrize("halves", HALVES)
@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_reset_of_the_source(halves: tuple[int, int], taken: int, generator: np.random.Generator) -> None:
    """The frame that has begun to come out ends with the next beat; the next one is lost."""
    bench = Bench(module(drops=False), halves, generator)
    old, new = ([any_frame(generator, 6) for _ in range(2)] for _ in range(2))
    for frame in old:
        bench.put(frame)
    bench.run(4000, 1, 0, until_given=True)
    bench.run(20 * sum(halves), 1, 0)
    while len(bench.came) < taken:
        bench.run(1, 1, 1)
    bench.inputs["m_axis_tready"] = 0
    bench.reset("s_rst")
    for frame in new:
        bench.put(frame)
    cut, *rest = bench.finish()
    assert rest == new
    assert len(cut) == frames.BEAT * (taken + 1)
    assert cut == old[0][: len(cut)]
