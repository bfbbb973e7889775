"""The cost of a late rank and of a lost packet, in packets and in virtual time, with the default intervals."""

from typing import Any

import pytest

from fanin_nic.engine.engine import Timing
from fanin_sim.fabric.links import Faults
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.jobs.job import Job, members_of
from fanin_sim.jobs.message import Message
from fanin_wire.fields import Opcode
from tests.sim.jobs.test_schedules import allreduce_of
from tests.sim.shapes import SHAPES, check_completions, check_results, joined, leave

SECOND, MILLISECOND = 10**9, 10**6
LATENESS = 10 * SECOND  # twice the detection time
ELEMENTS = 2000  # of f32: 125 segments, some windows
SEVERAL = [name for name, shape in SHAPES.items() if shape.topology.nodes > 1]
DATA = (Opcode.CONTRIBUTION, Opcode.RESULT)
ROUND_TRIP = 2 * Faults().delay


class LosesOne:
    """Loses one packet: the one after `countdown` others."""

    def __init__(self) -> None:
        self._plain = Faults()
        self.countdown = -1

    def arrivals(self, rng: Any) -> list[int]:
        self.countdown -= 1
        return [] if self.countdown == -1 else self._plain.arrivals(rng)

    def read(self, rng: Any) -> int:
        return self._plain.read(rng)


def formed(name: str, faults: Any = None) -> Job:
    shape = SHAPES[name]
    simulation = Simulation(shape.topology, 1, faults=faults)
    return joined(Job(simulation, shape.route, members_of(shape.topology.nodes, shape.ranks)))


def payload(job: Job) -> int:
    return sum(size for (_, _, opcode), size in job.simulation.payload.items() if opcode in DATA)


def reduce(job: Job, message: Message, number: int, lateness: int = 0) -> None:
    """All ranks post, the last one later than the others. Checks the results."""
    results = [message.result(rank) for rank in range(len(job.members))]
    requests = [job.work_request(rank, message, result) for rank, result in enumerate(results)]
    for wqe in requests:
        wqe["mid"] = wqe["wr_id"] = number - 1
    for member, wqe in list(zip(job.members, requests, strict=True))[:-1]:
        job.post(member, wqe)
    job.simulation.run_for(lateness)
    job.post(job.members[-1], requests[-1])
    job.finish(number)
    check_results(job, message, results)


@pytest.mark.parametrize("name", SEVERAL)
def test_rank_that_is_late_by_ten_seconds_costs_headers_and_no_payload(name: str) -> None:
    job = formed(name)
    simulation, message = job.simulation, allreduce_of(job, ELEMENTS)
    reduce(job, message, 1)
    punctual = payload(job)
    simulation.reset_traffic()
    reduce(job, message, 2, LATENESS)
    assert payload(job) == punctual
    intervals = LATENESS // Timing().keepalive
    neighbours = 2 * (len(simulation.vertices) + len(simulation.nics))  # each link, and a ring, in both directions
    asked = simulation.total(Opcode.PROBE)
    assert asked <= len(simulation.vertices) * (intervals + 15)  # no ring device asks: all is acknowledged
    assert simulation.total(Opcode.KEEPALIVE) <= neighbours * (intervals + 1)
    assert sum(device.engine.counters()["resent"] for device in simulation.vertices) == 0
    check_completions(job, 2)
    leave(job)


@pytest.mark.parametrize("name", SEVERAL)
def test_idle_job_lives_on_keepalives(name: str) -> None:
    job = formed(name)
    job.simulation.reset_traffic()
    job.simulation.run_for(60 * SECOND)
    assert {opcode for _, _, opcode in job.simulation.sent} == {Opcode.KEEPALIVE}
    reduce(job, allreduce_of(job, 100), 1)
    leave(job)


@pytest.mark.parametrize("name", ["tree", "two levels", "ring of 4"])
def test_busy_job_sends_no_keepalives(name: str) -> None:
    job = formed(name)
    message = allreduce_of(job, 10)
    for number in range(1, 13):
        reduce(job, message, number)
        job.simulation.run_for(Timing().keepalive // 2)
    assert job.simulation.total(Opcode.KEEPALIVE) == 0


def delay(name: str, lost: int, others: int) -> int:
    """By how much one lost packet delays a message (ns), after losses in `others` earlier messages."""
    faults = LosesOne()
    job = formed(name, faults)
    message = allreduce_of(job, ELEMENTS)
    job.simulation.reset_traffic()
    start = job.simulation.now
    reduce(job, message, 1)
    times, packets = [job.simulation.now - start], job.simulation.sent.total()
    for number in range(2, others + 3):
        start, faults.countdown = job.simulation.now, packets * lost // 100
        reduce(job, message, number)
        times.append(job.simulation.now - start)
    check_completions(job, others + 2)
    return times[-1] - times[0]


@pytest.mark.parametrize("name", ["tree", "two levels", "ring of 4"])
@pytest.mark.parametrize("percent", [0, 20, 40, 60, 80])
def test_first_lost_packet_delays_a_message_by_the_reorder_time(name: str, percent: int) -> None:
    """A later packet overtakes the lost one, so the loss is noticed. After that, a tree does not use a quarter of its
    window, one position of four here, and needs more round trips for the rest."""
    assert delay(name, percent, 0) <= Timing().reorder + (6 + 10) * ROUND_TRIP


@pytest.mark.parametrize("name", ["tree", "two levels", "ring of 4"])
@pytest.mark.parametrize("percent", [0, 40, 80])
def test_lost_packets_teach_how_long_to_wait(name: str, percent: int) -> None:
    """The reorder time becomes shorter where no packet is reordered; the time-out becomes a millisecond."""
    assert delay(name, percent, 6) <= MILLISECOND + 6 * ROUND_TRIP


@pytest.mark.parametrize("name", ["tree", "two levels", "ring of 4"])
def test_last_packet_of_all_is_asked_for_after_a_time_out(name: str) -> None:
    """No packet overtakes the last one. The time-out is a default at first, and measured later."""
    assert delay(name, 99, 0) <= Timing().rto + 6 * ROUND_TRIP
    assert delay(name, 99, 3) <= MILLISECOND + 6 * ROUND_TRIP
