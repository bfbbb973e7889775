"""Runs a scenario: builds the fabric, lets the jobs join and post, and checks their results."""

import time

import numpy as np

from fanin_sim.fabric.links import Faults, Rate
from fanin_sim.fabric.simulation import Simulation
from fanin_sim.jobs.job import TEN_MINUTES, Job, members_of
from fanin_sim.jobs.message import COLLECTIVES, Message, order_dependent, order_independent
from fanin_sim.scenario.report import Occupancy, Report, traffic_by_level
from fanin_sim.scenario.scenario import Scenario
from fanin_wire.abi import ContributorClass, Route, Status
from fanin_wire.datatypes import Family, datatype_by_name
from fanin_wire.fields import Opcode
from fanin_wire.operations import operation_by_name


class ScenarioFailed(Exception):
    """A simulated job was refused, has failed, or has a wrong result. The message says which."""


class CompletionTimes:
    """The completion times of several jobs. `times`: ns by job id. `shares`: of each job in the payload bytes on all
    links until the first job was complete."""

    def __init__(self, jobs: list[Job]) -> None:
        self.simulation = jobs[0].simulation
        self.times: dict[int, int] = {}
        self.shares: list[float] = []
        self._jobs = jobs
        self._running = {job.jid: job.finishing() for job in jobs}

    def wait(self) -> None:
        """Runs until all jobs are complete."""
        while self._running:
            self.simulation.run(self._one_more, limit=TEN_MINUTES)
            if not self.shares:
                carried = self.simulation.links.payload()
                self.shares = [carried[job.jid] / max(1, carried.total()) for job in self._jobs]

    def _one_more(self) -> bool:
        done = [jid for jid, is_finished in self._running.items() if is_finished()]
        for jid in done:
            self.times[jid] = self.simulation.now
            del self._running[jid]
        return bool(done)


class ScenarioRun:
    """A run of a scenario. Raises ScenarioInvalid if its numbers contradict each other."""

    def __init__(self, scenario: Scenario) -> None:
        scenario.check()
        self.scenario = scenario
        faults = Faults(loss=scenario.loss, delay=0 if scenario.rate else scenario.delay)
        rate = Rate(scenario.rate, scenario.delay) if scenario.rate else Rate()
        self.simulation = Simulation(
            scenario.topology(),
            scenario.seed,
            faults=faults,
            rate=rate,
            limits=scenario.limits(scenario.ranks_per_node + 1),
            switch_limits=scenario.limits(max(scenario.fanout, default=1)),
        )
        self.members = members_of(scenario.nodes, scenario.ranks_per_node)
        self.message = self._message()
        self.jobs = [self._job(number) for number in range(scenario.jobs)]

    def report(self) -> Report:
        """Runs the jobs: they join, post, and get results, which are checked. Raises ScenarioFailed."""
        begun = time.perf_counter()
        for job in self.jobs:
            self._join(job)
        self.simulation.reset_traffic()
        occupancy, start = Occupancy(self.simulation), self.simulation.now
        results = [job.start(self.message) for job in self.jobs]
        completed = CompletionTimes(self.jobs)
        completed.wait()
        for job, arrays in zip(self.jobs, results, strict=True):
            self._check(job, arrays)
        simulation = self.simulation
        return Report(
            switches=len(simulation.switches),
            finished=[completed.times[job.jid] - start for job in self.jobs],
            shares=completed.shares,
            packets=sum(simulation.sent.values()),
            probes=simulation.total(Opcode.PROBE),
            resent=sum(device.engine.counters()["resent"] for device in simulation.vertices),
            links=traffic_by_level(simulation),
            groups=list(occupancy.groups),
            occupancy=[sample._replace(time=sample.time - start) for sample in occupancy.samples],
            wall_s=time.perf_counter() - begun,
        )

    def _message(self) -> Message:
        scenario, ranks = self.scenario, len(self.members)
        datatype, operation = datatype_by_name(scenario.dtype), operation_by_name(scenario.operation)
        reduces = COLLECTIVES[scenario.collective].contributors == ContributorClass.ALL
        elements = 0 if scenario.collective == "barrier" else scenario.size // datatype.itemsize
        shape = (ranks, elements) if reduces else (elements,)
        is_order_dependent = (
            reduces and scenario.reproducible != "none" and datatype.family in (Family.FLOAT, Family.SMALL_FLOAT)
        )
        data = (
            order_dependent(datatype, shape, scenario.seed)
            if is_order_dependent
            else order_independent(datatype, operation.name, shape, scenario.seed)
        )
        return Message(scenario.collective, data, ranks, operation=operation.name, datatype=datatype)

    def _job(self, number: int) -> Job:
        scenario = self.scenario
        return Job(
            self.simulation,
            Route[scenario.route.upper()],
            self.members,
            jid=1 + number,
            key=1000 + number,
            slots=scenario.slots,
            chunk=scenario.chunk,
            first_queue=number * scenario.ranks_per_node,
            reproducible=scenario.reproducible,
            wide=scenario.wide,
        )

    def _join(self, job: Job) -> None:
        job.join()
        for member in job.members:
            status = Status(int(job.answers(member)[0]["status"]))
            if status != Status.SUCCESS:
                raise ScenarioFailed(f"job {job.jid} was refused with {status.name} at node {member.node}")

    def _check(self, job: Job, results: list[np.ndarray]) -> None:
        for member, result, expected in zip(job.members, results, job.expected(self.message), strict=True):
            status = Status(int(job.completions(member)[0]["status"]))
            if status != Status.SUCCESS:
                raise ScenarioFailed(f"job {job.jid} ended with {status.name} at node {member.node}")
            if result.tobytes() != expected.tobytes():
                raise ScenarioFailed(f"job {job.jid} has a wrong result at node {member.node}")
