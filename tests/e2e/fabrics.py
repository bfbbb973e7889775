"""Fabrics of real devices, and what their devices say of themselves."""

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

Statuses = dict[str, dict[str, Any]]  # device -> its STATUS reply; devices that are gone are left out


def silent(text: str) -> None:
    """Progress that no test looks at."""


@dataclass
class Bench:
    """Where a file of tests has its fabrics. prefix: of their names; names: of all that it ever had."""

    prefix: str
    names: list[str] = field(default_factory=list)

    def up(self, shape: Shape) -> Running:
        """A new fabric of `shape`."""
        return self.build(self.describe(shape))

    def describe(self, shape: Shape) -> Fabric:
        """A description with a name and addresses of its own, also beside another run of the tests."""
        number, process = len(self.names), os.getpid()
        prefix = f"127.{80 + process % 160}.{(process // 160 + number) % 256}"
        return make(f"{self.prefix}{number}", shape, NETNS_PREFIX if shape.netns else prefix)

    def build(self, fabric: Fabric) -> Running:
        """Bring `fabric` up; it is taken down at the end of the file of tests."""
        self.names.append(fabric.name)
        return lifecycle.up(fabric, silent)

    def down(self, running: Running) -> None:
        """Take a fabric down before the end."""
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
    """Process of a device."""
    return running.state.processes()[device].pid


def counter(found: Statuses, name: str) -> int:
    """A counter, over all devices."""
    return sum(status["counters"].get(name, 0) for status in found.values())


def undisturbed(
    measure: Callable[[], tuple[Statuses, Statuses]], trouble: str = "tx_PROBE"
) -> tuple[Statuses, Statuses]:
    """STATUS before and after a run in which no device asked, or had other `trouble`. Who waits too long for a core is
    late, and asked for, so of a few runs one must be such."""
    for _ in range(RUNS):
        before, after = measure()
        if counter(after, trouble) == counter(before, trouble):
            return before, after
    raise AssertionError(f"in each of {RUNS} runs without loss some device has counted {trouble}")


def drops(found: Statuses) -> dict[str, int]:
    """Everything that went wrong with a packet, by device and reason, where there is any."""
    return {
        f"{device} {name}": value
        for device, status in found.items()
        for name, value in status["counters"].items()
        if value and (name.startswith("drop_") or name in TROUBLE)
    }


TROUBLE = ("action_overflow", "resent", "cq_overflows", "dma_errors", "jobs_aborted", "jobs_aged")


def held(found: Statuses) -> dict[str, Any]:
    """What devices still hold: jobs (tombstones as well), leased and used slots; empty when all is released."""
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
    """Every device that lives holds nothing any more, within `seconds`."""
    eventually(lambda: held(statuses(running)), lambda left: not left, seconds)
