"""The switch in Verilog as a target of the conformance suite: in this process, in virtual time.

Each datagram goes in as the beats of an Ethernet frame. The Ethernet and IPv4 headers of the output are checked here,
since the suite does not see them.
"""

import ipaddress
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fanin_conform.agents.agent import Agent
from fanin_conform.datagram import TESTER_PORT
from fanin_conform.targets.target import Frame, Uncontrolled
from fpga_cosim.tb import frames
from fpga_cosim.tb.tools import RTL
from fpga_cosim.tb.verilated import Module

ADDRESS, TICK_S, ROOM = "10.0.0.1", 0.05, 4096
GROUP = "239.200.0.1"
_REASON = re.compile(r"`define DROP_(\w+) 5'd(\d+) // (\S+)")

# Registers of each job in the job table, by name, with their numpy types
REGISTERS = {"state": "u1", "jid": "u4", "slots": "u4", "window": "u4", "chunk": "u4", "mask": "u8", "joined": "u8"}
TABLES = {f"engine_inst.job_table_inst.job_{name}": kind for name, kind in REGISTERS.items()}


def build(parameters: Mapping[str, int] | None = None, wave: Path | None = None) -> Module:
    """The simulation of the whole switch, compiled if necessary."""
    return Module("switch_core", parameters, wave=wave, tables=TABLES)


def reasons() -> dict[int, str]:
    """The demand of SPEC.md for each counter of dropped packets; "not" for those without one."""
    return {int(code): clause for _, code, clause in _REASON.findall((RTL / "drop_reasons.vh").read_text())}


def taken_apart(frame: bytes) -> Frame:
    """The datagram of a frame of the device, whose headers must be right."""
    ip = frame[frames.ETHERNET :][: frames.IP]
    source, destination = (str(ipaddress.IPv4Address(ip[at : at + 4])) for at in (12, 16))
    port = int.from_bytes(frame[frames.ETHERNET + frames.IP :][:2])
    assert frame == frames.frame(source, destination, port, frame[frames.HEADERS :]), f"headers: {frame.hex()}"
    return Frame(destination, source, port, frame[frames.HEADERS :])


class RtlTarget(Uncontrolled):
    """See `fanin_conform.targets.target.Target`.

    module: a built switch, which is reset.
    address: of the switch.
    group: its multicast group; "": none. group_size: devices that listen there; 0: unknown.
    wave: a file for the waveform, of a switch that is built here.
    room: beats of output for the input of one call.
    """

    name, has_port, is_virtual = "rtl", True, True
    controls = frozenset({"pause"})
    agent: Agent | None = None

    def __init__(
        self,
        count: int,
        module: Module | None = None,
        address: str = ADDRESS,
        group: str = "",
        group_size: int = 0,
        wave: Path | None = None,
        room: int = ROOM,
    ) -> None:
        self._room, self.group = room, group
        self.address, self.addresses = address, [f"10.0.1.{1 + number}" for number in range(count)]
        self.module = module or build(wave=wave)
        self._rest = np.zeros(1, self.module.inputs)
        self._rest["own_mac"] = int.from_bytes(frames.mac_of(address))
        self._rest["own_address"] = int(ipaddress.IPv4Address(address))
        self._rest["group_address"] = int(ipaddress.IPv4Address(group or 0))
        self._rest["group_size"] = group_size
        self._now = 1.0
        self._waiting: deque[Frame] = deque()
        self._spend()
        self.module.reset()
        self._waiting.clear()

    def _spend(self, beats: np.ndarray | None = None) -> None:
        """Run the module until it is idle."""
        self._rest["now_us"] = round(self._now * 1e6)
        beats = np.repeat(self._rest, 0) if beats is None else beats
        out = self.module.exchange(beats, self._rest, self._room)
        self._waiting.extend(taken_apart(frame) for frame in frames.from_beats(out))

    def send(self, source: str, data: bytes) -> None:
        self.send_together([(source, data)])

    def send_together(self, datagrams: Sequence[tuple[str, bytes]], port: int = TESTER_PORT) -> None:
        """Send several by source, from one source port, without gaps between frames."""
        sent = [frames.frame(source, self.address, port, data) for source, data in datagrams]
        self._rest["now_us"] = round(self._now * 1e6)
        self._spend(self.beats_of(sent))

    def beats_of(self, sent: Sequence[bytes]) -> np.ndarray:
        """Frames as beats of the module, with its addresses and its time."""
        beats = frames.to_beats(sent, self.module.inputs)
        for name in ("own_mac", "own_address", "group_address", "group_size", "now_us"):
            beats[name] = self._rest[name]
        return beats

    def exchange_at(self, now_us: int, datagrams: Sequence[tuple[str, bytes]], port: int) -> list[Frame]:
        """Send several at a time, in microseconds. Returns the output until the device is idle."""
        return self.exchange_frames(
            now_us, [frames.frame(source, self.address, port, data) for source, data in datagrams]
        )

    def exchange_frames(self, now_us: int, sent: Sequence[bytes]) -> list[Frame]:
        """As `exchange_at`, of whole frames."""
        self._now = now_us / 1e6
        self._rest["now_us"] = now_us
        self._spend(self.beats_of(sent))
        came = list(self._waiting)
        self._waiting.clear()
        return came

    def receive(self, seconds: float) -> Frame | None:
        """The next packet; time passes, at most so much."""
        end = self._now + seconds
        while not self._waiting and self._now < end:
            self._now = min(end, self._now + TICK_S)
            self._spend()
        return self._waiting.popleft() if self._waiting else None

    def stand_still(self, seconds: float) -> None:
        """Time passes, and the module has no clock."""
        self._now += seconds

    def now(self) -> float:
        """Seconds."""
        return self._now

    def close(self) -> None:
        """Complete the waveform, if any."""
        self.module.close()

    def jobs(self) -> list[dict[str, int]]:
        """The registers of each entry of the job table."""
        columns = [self.module.table(place) for place in TABLES]
        return [dict(zip(REGISTERS, map(int, row), strict=True)) for row in zip(*columns, strict=True)]

    @property
    def drops(self) -> Counter[str]:
        """Dropped packets, by demand; "not": frames for other devices."""
        self._rest["s_axis_tlast"] = 0
        counters = self.module.run(self._rest)["drops"][0].view("<u4")
        return Counter({name: int(counters[code]) for code, name in reasons().items() if counters[code]})
