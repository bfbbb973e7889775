"""The traffic and the slots of a job: all devices' status, after minus before."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanin_tools.fabric import device_query
from fanin_tools.fabric.description import Device
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.tree import Tree

Snapshot = dict[str, dict[str, Any]]  # device name -> its STATUS reply


@dataclass(frozen=True)
class LinkTraffic:
    """Bytes that a device sent up and received from above: payload of segments, and whole IP packets."""

    payload_up: int
    payload_down: int
    wire_up: int
    wire_down: int


@dataclass(frozen=True)
class ResourceUse:
    """What one run used.

    links: traffic of every NIC, and of every switch to the switch above it. slots: the most in use at once on any
    device. lease: slots of the job on each device. probes: PROBE packets.
    """

    links: dict[str, LinkTraffic]
    slots: int
    lease: int
    probes: int


def snapshot(running: Running) -> Snapshot:
    return {
        device.name: device_query.query_status(running.state.socket(device.name)) for device in running.fabric.daemons
    }


def between(running: Running, before: Snapshot, after: Snapshot, jid: int) -> ResourceUse:
    """The traffic between two snapshots, and the slots of the job `jid`."""
    jobs = [job for status in after.values() for job in status["jobs"] if job["jid"] == jid]
    tree = Tree(running.fabric)
    uplinks = {device: tree.offloading_above(device)[:1] for device in running.fabric.daemons}
    return ResourceUse(
        links={
            device.name: _link_use(before[device.name], after[device.name], device, above)
            for device, above in uplinks.items()
            if device.kind == "nic" or above
        },
        slots=max((job["slots_high_water"] for job in jobs), default=0),
        lease=max((job["slots"] for job in jobs), default=0),
        probes=_counter(after, "tx_PROBE") - _counter(before, "tx_PROBE"),
    )


def _link_use(before: dict[str, Any], after: dict[str, Any], device: Device, above: Sequence[Device]) -> LinkTraffic:
    """Of all links of a NIC, or of a switch's uplink."""
    peers = after["links"] if device.kind == "nic" else [switch.address for switch in above]

    def total(status: dict[str, Any], key: str) -> int:
        return sum(status["links"].get(peer, {}).get(key, 0) for peer in peers)

    def grown(key: str) -> int:
        return total(after, key) - total(before, key)

    return LinkTraffic(grown("tx_payload_bytes"), grown("rx_payload_bytes"), grown("tx_bytes"), grown("rx_bytes"))


def _counter(statuses: Snapshot, name: str) -> int:
    return sum(status["counters"].get(name, 0) for status in statuses.values())
