"""An estimate of what a device does on a card's cores, from costs measured here and published numbers.

A packet of p bytes costs a core a + b p seconds. a is instructions: it scales with clock and instructions per cycle. b
is bytes through vector registers: it scales with clock and bytes loaded per cycle. docs/performance.md says what each
number is, where it comes from, and why the result may be wrong.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from fanin_tools.bench import engine, port
from fanin_tools.errors import UsageError
from fanin_tools.progress import ProgressCallback

PAYLOAD = 4096  # bytes of a segment
CHECK = engine.CHECKS[engine.ICRC_IN_AND_OUT]
VECTOR_BYTES = {"avx512f": 64, "avx2": 32}  # loaded in a cycle at least, by x86 flag; else 16


class Cost(msgspec.Struct, frozen=True):
    """Seconds of a core for a packet, and for each byte of its payload. One of them may be 0."""

    packet: Annotated[float, Meta(ge=0)]
    byte: Annotated[float, Meta(ge=0)]

    def __post_init__(self) -> None:
        if not self.packet and not self.byte:
            raise ValueError("a packet that costs nothing")

    def of(self, payload: int) -> float:
        return self.packet + self.byte * payload


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was measured: of the engine, for a packet taken; of a UDP port, for one sent or received. gigahertz: of the
    core; vector_bytes: loaded in a cycle; processor: its name."""

    engine: Cost
    port: Cost
    gigahertz: Annotated[float, Meta(gt=0)]
    vector_bytes: Annotated[int, Meta(gt=0)]
    processor: str


class Card(NamedTuple):
    """gigahertz, instructions per cycle relative to the measured core, bytes that a core loads in a cycle; bytes a
    second of link, PCIe (each way) and memory."""

    name: str
    cores: int
    gigahertz: float
    instructions: float
    vector_bytes: int
    link: float
    pcie: float
    memory: float


class Job(NamedTuple):
    """nodes below one switch, and ranks on each."""

    nodes: int
    ranks: int


class Estimate(NamedTuple):
    """Bytes of message a second that each part of a card allows, and the least of them, for one lane and for all cores.
    gain: of all cores over a ring of hosts that fills the link."""

    card: str
    engine_segments: float
    lane: float
    cores: float
    link: float
    pcie: float
    memory: float
    one_lane: float
    all_cores: float
    gain: float


GEN4, GEN5 = 31.5e9, 63.0e9  # PCIe x16: 16 and 32 GT/s, 128 of 130 bits
CARDS = (
    Card("BlueField-2", 8, 2.5, 0.5, 16, 12.5e9, GEN4, 25.6e9),
    Card("BlueField-3", 16, 2.0, 0.8, 32, 25e9, GEN5, 83.2e9),
)


def fitted(rates: Mapping[int, float]) -> Cost:
    """The cost of a packet, by least squares, from packets a second by payload bytes. Neither part is negative."""
    payloads = np.array(sorted(rates), float)
    seconds = np.array([1 / rates[int(payload)] for payload in payloads])
    byte, packet = np.polyfit(payloads, seconds, 1)
    if packet < 0:
        return Cost(0.0, float(np.mean(seconds / payloads)))
    return Cost(float(packet), max(float(byte), 0.0))


def measure(name: str, progress: ProgressCallback, gigahertz: float | None = None) -> Costs:
    """Measure engine and port here. gigahertz: if the kernel does not show it. Raises UsageError NO_CLOCK."""
    clock, vector_bytes, processor = processor_of(Path("/proc/cpuinfo").read_text())
    clock = gigahertz or clock
    if not clock:
        raise UsageError("the kernel does not say how fast this processor runs", "give --gigahertz", name="NO_CLOCK")
    checked = [row for row in engine.measure(1, progress) if row.check == CHECK]
    # The larger working set of each payload, in memory, comes last and counts.
    of_engine = {row.payload: row.best_per_us * 1e6 for row in sorted(checked, key=lambda row: row.working_set)}
    of_port = {row.payload: row.packets_per_second for row in port.measure(False, name, progress)}
    return Costs(fitted(of_engine), fitted(of_port), clock, vector_bytes, processor)


def processor_of(text: str) -> tuple[float, int, str]:
    """Clock in GHz (0: unknown), bytes that a core loads in a cycle, and name, from the text of /proc/cpuinfo."""
    clock = re.search(r"^cpu MHz\s*: ([\d.]+)", text, re.M)
    flags = re.search(r"^flags\s*: (.*)", text, re.M)
    name = re.search(r"^model name\s*: (.*)", text, re.M)
    words = set(flags[1].split()) if flags else set()
    width = next((bytes_ for flag, bytes_ in VECTOR_BYTES.items() if flag in words), 16)
    return float(clock[1]) / 1000 if clock else 0.0, width, name[1] if name else "unknown"


def read(path: Path) -> Costs:
    """Of an earlier run. Raises UsageError BAD_COSTS."""
    try:
        return msgspec.convert(msgspec.json.decode(path.read_bytes())["costs"], Costs)
    except (OSError, KeyError, TypeError, msgspec.DecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else f"the file is not the output of --json: {error}"
        raise UsageError(f"{path}: {cause}", "write it with fanin bench sizing --json", name="BAD_COSTS") from error


def scaled(cost: Cost, costs: Costs, card: Card) -> Cost:
    """The cost on a core of a card."""
    clock = costs.gigahertz / card.gigahertz
    return Cost(cost.packet * clock / card.instructions, cost.byte * clock * costs.vector_bytes / card.vector_bytes)


def estimate(costs: Costs, card: Card, job: Job, payload: int = PAYLOAD) -> Estimate:
    """What a NIC on a card would do for an allreduce by tree.

    For each segment it takes one packet of each rank and the result, sends one and receives one. A message's bytes
    cross the link once each way, and PCIe once for each rank each way.
    """
    of_engine = scaled(costs.engine, costs, card).of(payload)
    of_port = scaled(costs.port, costs, card).of(payload)
    lane = payload / ((job.ranks + 1) * of_engine + 2 * of_port)
    cores = lane * (card.cores - 1)  # one is for the rest of the card
    pcie, memory = card.pcie / job.ranks, card.memory / memory_passes(job.ranks)
    limits = (card.link, pcie, memory)
    ring = 2 * (job.nodes - 1) / job.nodes  # bytes that a ring of hosts sends for each byte of the message
    best = min(cores, *limits)
    gain = ring * best / card.link
    return Estimate(card.name, 1 / of_engine, lane, cores, card.link, pcie, memory, min(lane, *limits), best, gain)


def memory_passes(ranks: int) -> int:
    """How often a byte of a message passes the card's memory without a cache: for each rank written by RDMA, read by
    the core, and its result read by RDMA; the sum written and sent, the result received."""
    return 3 * ranks + 3
