"""A switch and a NIC share a port: frames of both pass, children get their results, and the host reads and sets."""

from collections import deque

import numpy as np
import pytest

from fpga_cosim.tb import frames
from fpga_cosim.tb.axi_lite import OKAY, Host
from fpga_cosim.tb.clocks import Clocks
from fpga_cosim.tb.conversation import RECEIVED, TRANSMITTED, conversation, others, parted
from fpga_cosim.tb.one_job import JOB, contribution
from fpga_cosim.tb.registers import REGISTERS, drop_counters, own_settings
from fpga_cosim.tb.verilated import Module

RX, TX, HALVES = "rx_clk", "tx_clk", {"rx_clk": 2, "tx_clk": 3}
RX_USER, TX_USER, QUEUE = 97, 17, 6
WAYS, FIELDS = ("rx", "tx"), ("tdata", "tkeep", "tlast")
UNKNOWN_JOB = {"5-12", "5-13"}  # without and with a NAK
POLLS = 200
BEGUN, BEFORE_THE_END, QUIET = 150, 1500, 400  # clocks
OTHERS = 30  # frames of the NIC on each way
RESET = 100  # clocks


class Port(Clocks):
    """The module between a NIC and a MAC that send frames without a pause; the MAC accepts frames at random.

    received, sent: beats that have come to the NIC and to the MAC. takes: how likely the MAC accepts a beat.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__(Module("switch_port", {"RX_USER": RX_USER, "TX_USER": TX_USER, "QUEUE": QUEUE}), HALVES)
        self._generator, self.takes = generator, 0.8
        self._waiting: dict[str, deque[np.ndarray]] = {"rx": deque(), "tx": deque()}
        self._came: dict[str, list[np.void]] = {"rx": [], "tx": []}
        self.inputs["m_axis_rx_tready"] = 1
        self.reset("rx_rst", "tx_rst")
        self.host = Host(self.inputs, self.clock, generator)

    def put(self, way: str, sent: list[bytes]) -> None:
        """Frames that the MAC has received ("rx"), or that the NIC sends ("tx")."""
        beats = frames.to_beats(sent)
        self._waiting[way].extend(np.split(beats, len(beats)) if len(beats) else [])

    def clock(self) -> np.void:
        rising, falling = self.step()
        for way, clock in zip(WAYS, (RX, TX), strict=True):
            if clock in rising:
                self._rise(way)
            if clock in falling:
                self._fall(way)
        return self.after

    def _rise(self, way: str) -> None:
        if self.inputs[f"s_axis_{way}_tvalid"][0] and self.before[f"s_axis_{way}_tready"]:
            self._waiting[way].popleft()
            self.inputs[f"s_axis_{way}_tvalid"] = 0
        if self.before[f"m_axis_{way}_tvalid"] and self.inputs[f"m_axis_{way}_tready"][0]:
            self._came[way].append(self.before)

    def _fall(self, way: str) -> None:
        if self._waiting[way]:
            beat = self._waiting[way][0]
            for field in FIELDS:
                self.inputs[f"s_axis_{way}_{field}"] = beat[f"s_axis_{field}"]
            self.inputs[f"s_axis_{way}_tuser"] = 0
            self.inputs[f"s_axis_{way}_tvalid"] = 1
        if way == "tx":
            self.inputs["m_axis_tx_tready"] = self._generator.random() < self.takes

    def reset_in_traffic(self, *ports: str) -> None:
        """The other side of a reset clock is reset, too; the others go on."""
        for level in (1, 0):
            for port in ports:
                self.inputs[port] = level
            for _ in range(RESET):
                self.clock()
                for way in WAYS:
                    if f"{way}_rst" in ports:
                        self.inputs[f"s_axis_{way}_tvalid"] = 0
                        self._waiting[way].clear()
                        self._came[way].clear()

    def run(self) -> None:
        """Run until no input waits, and no output has come for a while."""
        quiet, before = 0, None
        while quiet < QUIET:
            self.clock()
            now = [len(each) for each in (*self._waiting.values(), *self._came.values())]
            quiet, before = (quiet + 1, now) if now == before else (0, now)

    def came(self, way: str) -> list[bytes]:
        """The frames that have come to the NIC ("rx") or to the MAC ("tx") since the last call."""
        beats = np.array(self._came[way], self.after.dtype)
        self._came[way].clear()
        return list(frames.from_beats(beats, f"m_axis_{way}"))

    def read(self, name: str) -> int:
        return self.host.read(REGISTERS[name])

    def drops(self) -> dict[str, int]:
        """The nonzero counters of drops, by demand."""
        counts = {clause: self.host.read(address) for clause, address in drop_counters().items()}
        return {clause: count for clause, count in counts.items() if count}

    def turn(self, on: bool) -> None:
        """Turn the switch on or off, and wait until it is."""
        assert self.host.write(REGISTERS["CONTROL"], int(on)) == OKAY
        assert any(self.read("STATUS") == on for _ in range(POLLS))

    def start(self) -> None:
        for name, value in own_settings().items():
            assert self.host.write(REGISTERS[name], value) == OKAY
        self.turn(True)
        self.run()  # until the receiving side knows it


@pytest.fixture
def port(generator: np.random.Generator) -> Port:
    """The port, turned off."""
    return Port(generator)


def mixed(generator: np.random.Generator, one: list[bytes], other: list[bytes]) -> list[bytes]:
    places = generator.permutation(len(one) + len(other)) < len(one)
    sources = {True: iter(one), False: iter(other)}
    return [next(sources[bool(place)]) for place in places]


def test_children_beside_a_nic(port: Port, generator: np.random.Generator) -> None:
    """Children get the answers of the switch in plain Python, while frames of the NIC pass both ways."""
    port.start()
    talk = conversation(generator)
    received, sent = (others(generator, way, OTHERS) for way in (RECEIVED, TRANSMITTED))
    port.put("rx", mixed(generator, talk.sent, received))
    port.put("tx", sent)
    port.run()
    passed, answers = parted(port.came("tx"))
    assert port.came("rx") == received
    assert passed == sent
    assert talk.is_answered_by(answers)
    assert port.read("RECEIVED") == len(talk.sent)
    assert port.read("SENT") == len(talk.answers)
    assert (port.read("OVERFLOWS"), port.read("BAD_FRAMES")) == (0, 0)
    assert port.drops() == talk.drops


def test_turned_off_and_on(port: Port, generator: np.random.Generator) -> None:
    """Before and after, frames for the switch pass to the NIC. On again, it has forgotten its jobs."""
    talk = conversation(generator, positions=3)
    for _ in range(2):
        port.put("rx", talk.sent)
        port.run()
        assert (port.came("rx"), port.came("tx")) == (talk.sent, [])
        port.start()
        port.put("rx", talk.sent)
        port.run()
        assert port.came("rx") == []
        assert talk.is_answered_by(port.came("tx"))
        port.turn(False)
        port.run()


def test_turned_off_at_once(port: Port, generator: np.random.Generator) -> None:
    """Earlier packets are answered; no frame is cut off."""
    port.start()
    talk = conversation(generator)
    port.put("rx", talk.sent)
    for _ in range(BEFORE_THE_END):
        port.clock()
    port.turn(False)
    port.run()
    passed, answers = port.came("rx"), port.came("tx")
    assert talk.sent[len(talk.sent) - len(passed) :] == passed
    assert 0 < len(passed) < len(talk.sent)
    assert port.read("RECEIVED") == len(talk.sent) - len(passed)
    assert port.read("SENT") == len(answers)


@pytest.mark.parametrize("late", range(0, 60, 3))
def test_on_again_in_the_middle_of_a_frame(port: Port, generator: np.random.Generator, late: int) -> None:
    """A frame for the switch may still come: it is dropped whole, or answered."""
    port.start()
    port.put("rx", [contribution(JOB, "10.0.1.1", 0, 0, np.zeros(256, "<f4"), op=1, dtype=1)] * 20)
    for _ in range(BEGUN):
        port.clock()
    assert port.host.write(REGISTERS["CONTROL"], 0) == OKAY
    for _ in range(late):
        port.clock()
    assert port.host.write(REGISTERS["CONTROL"], 1) == OKAY
    port.run()
    assert set(port.drops()) <= UNKNOWN_JOB


@pytest.mark.parametrize("reset", [("rx_rst",), ("tx_rst",), ("rx_rst", "tx_rst")])
def test_a_reset_in_traffic(port: Port, generator: np.random.Generator, reset: tuple[str, ...]) -> None:
    """A reset of the clock of one direction or both. Then frames of both pass whole, and the switch answers."""
    port.start()
    talk, sent = conversation(generator), others(generator, TRANSMITTED, OTHERS)
    port.put("rx", talk.sent)
    port.put("tx", sent)
    for _ in range(BEFORE_THE_END):
        port.clock()
    port.reset_in_traffic(*reset)
    port.run()
    for way in WAYS:
        port.came(way)
    port.turn(False)
    port.start()
    again, received = conversation(generator), others(generator, RECEIVED, OTHERS)
    port.put("rx", received + again.sent)  # first for the NIC: the cut frame was for the switch
    port.put("tx", sent)
    port.run()
    passed, answers = parted(port.came("tx"))
    assert port.came("rx") == received
    assert passed == sent
    assert again.is_answered_by(answers)


def test_a_reset_of_a_mac_that_does_not_send(port: Port, generator: np.random.Generator) -> None:
    """The frames that wait for it are lost."""
    port.start()
    talk = conversation(generator, positions=1)
    port.takes = 0
    port.put("rx", talk.sent)
    port.run()
    assert port.read("SENT") == len(talk.answers)
    port.takes = 1
    port.reset_in_traffic("tx_rst")
    port.run()
    assert port.came("tx") == []


def test_a_mac_that_does_not_send(port: Port, generator: np.random.Generator) -> None:
    """The switch is pushed back; frames for it are dropped whole, and counted; others pass."""
    port.start()
    talk, received = conversation(generator, positions=40), others(generator, RECEIVED, OTHERS)
    port.takes = 0
    port.put("rx", mixed(generator, talk.sent, received))
    port.run()
    assert port.came("rx") == received
    overflows = port.read("OVERFLOWS")
    assert 0 < overflows < len(talk.sent)
    port.takes = 1
    port.run()
    answers = port.came("tx")
    assert port.read("RECEIVED") == len(talk.sent) - overflows
    assert port.read("SENT") == len(answers)
    assert set(talk.answers) >= {(".".join(map(str, frame[30:34])), frame[frames.HEADERS :]) for frame in answers[:4]}


def test_bad_frames(port: Port, generator: np.random.Generator) -> None:
    """The MAC marks a frame in its last beat; the switch does not see it."""
    port.start()
    frame = conversation(generator).sent[0]
    port.put("rx", [frame])
    while not port.inputs["s_axis_rx_tlast"][0]:
        port.clock()
    port.inputs["s_axis_rx_tuser"] = np.eye(1, port.inputs["s_axis_rx_tuser"].shape[1], dtype=np.uint8)
    port.run()
    assert (port.read("RECEIVED"), port.read("BAD_FRAMES")) == (0, 1)
    assert port.came("tx") == []
