"""Fabrics of real devices, and their devices' status."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query, lifecycle
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import NETNS_PREFIX, Shape, make
from fanin_tools.fabric.lifecycle import Running
from tests.waiting import BOUND_S, eventually

RUNS = 8

Statuses = dict[str, dict[str, Any]]  # device -> its STATUS reply; without devices that are gone


def silent(text: str) -> None:
    """Progress that no test looks at."""


@dataclass
class Bench:
    """The fabrics of a test file. prefix: of their names; names: of all that it ever had."""

    prefix: str
    names: list[str] = field(default_factory=list)

    def up(self, shape: Shape) -> Running:
        return self.build(self.describe(shape))

    def describe(self, shape: Shape) -> Fabric:
        """With a name and addresses of its own, even beside another run of the tests."""
        number, process = len(self.names), os.getpid()
        prefix = f"127.{80 + process % 160}.{(process // 160 + number) % 256}"
        return make(f"{self.prefix}{number}", shape, NETNS_PREFIX if shape.netns else prefix)

    def build(self, fabric: Fabric) -> Running:
        """It is taken down at the end of the test file."""
        self.names.append(fabric.name)
        return lifecycle.up(fabric, silent)

    def down(self, running: Running) -> None:
        """Before the end of the test file."""
        lifecycle.down(running.fabric.name)


def statuses(running: Running) -> Statuses:
    """STATUS of every device that answers."""
    found = {}
    for device in running.fabric.devices:
        try:
            found[device.name] = device_query.query_status(running.state.socket(device.name))
        except ToolError:
            continue
    return found


def pid_of(running: Running, device: str) -> int:
    return running.state.processes()[device].pid


def counter(found: Statuses, name: str) -> int:
    """Summed over all devices."""
    return sum(status["counters"].get(name, 0) for status in found.values())


def undisturbed(
    measure: Callable[[], tuple[Statuses, Statuses]], trouble: str = "tx_PROBE"
) -> tuple[Statuses, Statuses]:
    """STATUS before and after a run in which no device asked, or had other `trouble`. A device that waits too long for
    a core is late, and is asked; so one of a few runs must be undisturbed."""
    for _ in range(RUNS):
        before, after = measure()
        if counter(after, trouble) == counter(before, trouble):
            return before, after
    raise AssertionError(f"in each of {RUNS} runs without loss some device has counted {trouble}")


def drops(found: Statuses) -> dict[str, int]:
    """Non-zero counters of drops, by device and reason."""
    return {
        f"{device} {name}": value
        for device, status in found.items()
        for name, value in status["counters"].items()
        if value and (name.startswith("drop_") or name in TROUBLE)
    }


TROUBLE = ("action_overflow", "resent", "cq_overflows", "dma_errors", "jobs_aborted", "jobs_aged")


def held(found: Statuses) -> dict[str, Any]:
    """What devices hold: jobs (tombstones as well), leased and used slots; empty when all is released."""
    left = {}
    for device, status in found.items():
        jobs = [job for job in status["jobs"] if not is_reminder(job)]
        slots = {name: status["slots"][name] for name in ("leased", "used")}
        if jobs or any(slots.values()):
            left[device] = {"jobs": jobs, **slots}
    return left


def is_reminder(job: dict[str, Any]) -> bool:
    """Whether a record holds nothing and only tells late members why their job was never formed; it ages out."""
    return job["state"] == "aborted" and job["slots"] == job["window"] == 0


def assert_released(running: Running, seconds: float = BOUND_S) -> None:
    """Within `seconds`, every living device holds nothing."""
    eventually(lambda: held(statuses(running)), lambda left: not left, seconds)
