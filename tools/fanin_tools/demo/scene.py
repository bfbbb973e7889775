"""The scene of the founding document: four nodes of four ranks, one allreduce, in each of its three networks.

Each network is a fabric of its own. If the machine allows namespaces, its links are cables between them, and the plain
switch is a bridge of the kernel, which does not know Fanin; else all is on loopback.
"""

from dataclasses import dataclass, replace
from typing import Any

from fanin_tools.demo import accounting
from fanin_tools.demo.accounting import Snapshot
from fanin_tools.demo.allreduce import Task, expected_payload, placement_of
from fanin_tools.demo.expected_traffic import Payload
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lease import leased
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import DataLayout
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.worker_pool import WorkerPool, elapsed_seconds
from fanin_tools.progress import ProgressCallback
from fanin_wire.settings import JobSettings

NODES, RANKS_PER_NODE = 4, 4
RANKS = NODES * RANKS_PER_NODE
MESSAGE_BYTES = 16 << 10
CALL = Task(MESSAGE_BYTES).call()
SHOWN_ELEMENTS, SHOWN_RANKS = 4, (0, 1, RANKS - 1)


@dataclass(frozen=True)
class Network:
    """suffix: of the name of its fabric."""

    name: str
    route: str
    suffix: str
    shape: Shape


NETWORKS = (
    Network("offloading switch", "tree", "tree", Shape(NODES, RANKS_PER_NODE)),
    Network(
        "ring through a plain switch", "ring", "ring", Shape(NODES, RANKS_PER_NODE, fanout=(NODES,), plain_leaves=True)
    ),
    Network("ring of direct links", "ring", "link", Shape(NODES, RANKS_PER_NODE, direct=True)),
)


@dataclass(frozen=True)
class LinkUse:
    """What a NIC counted towards the next device: the switch, or in a ring the next NIC.

    contributions: packets sent. results: packets received from the switch, or in a ring sent to the next NIC. payload:
    bytes of segments sent to the next device, and received from it. expected: the payload if nothing is resent.
    """

    near: str
    far: str
    contributions: int
    results: int
    payload: Payload
    expected: Payload


@dataclass(frozen=True)
class NetworkResult:
    """wrong: elements with a wrong bit, over all ranks; probes: PROBE packets."""

    network: str
    route: str
    netns: bool
    seconds: float
    wrong: int
    probes: int
    links: tuple[LinkUse, ...]

    @property
    def verified(self) -> bool:
        return self.wrong == 0

    def as_dict(self) -> dict[str, Any]:
        links = [
            vars(link) | {name: getattr(link, name)._asdict() for name in ("payload", "expected")}
            for link in self.links
        ]
        return vars(self) | {"links": links, "verified": self.verified}


def vectors() -> dict[str, list[int]]:
    """The first elements of some ranks' vectors, and of numpy's sum of all."""
    layout = DataLayout(CALL, RANKS)
    rows = {f"rank {rank}": layout.data.contribution(rank, layout.period) for rank in SHOWN_RANKS}
    rows["sum of all"] = layout.data.reduced(layout.period)
    return {name: [int(value) for value in row[:SHOWN_ELEMENTS]] for name, row in rows.items()}


def show(name: str, netns: bool, settings: JobSettings, progress: ProgressCallback) -> list[NetworkResult]:
    """In all networks. name: begins the names of their fabrics; netns: namespaces are demanded."""
    netns = netns or namespaces.are_allowed()
    found = []
    for network in NETWORKS:
        plan = Plan(f"{name}-{network.suffix}", replace(network.shape, netns=netns))
        with leased(plan, progress) as running, WorkerPool(running, RANKS) as pool:
            progress(f"{network.name}: {RANKS} ranks on {NODES} nodes ...")
            found.append(_play(pool, network, settings))
    return found


def _play(pool: WorkerPool, network: Network, settings: JobSettings) -> NetworkResult:
    running = pool.running
    placement = placement_of(running.fabric, network.route)
    pool.join(placement, job_file.describe(running, placement, settings))
    pool.call(RANKS, "prepare", call=CALL.as_dict())
    before = accounting.snapshot(running)
    times = pool.call(RANKS, "run", repeat=1)
    after = accounting.snapshot(running)
    wrong = sum(reply["wrong"] for reply in pool.call(RANKS, "verify"))
    pool.call(RANKS, "leave")
    return NetworkResult(
        network=network.name,
        route=placement.route,
        netns=running.fabric.netns,
        seconds=elapsed_seconds(times)[0],
        wrong=wrong,
        probes=sum(_grown(before, after, name, "tx_PROBE") for name in after),
        links=tuple(_links(running, placement, settings, before, after)),
    )


def _links(
    running: Running, placement: Placement, settings: JobSettings, before: Snapshot, after: Snapshot
) -> list[LinkUse]:
    tree = placement.route == "tree"
    expected = expected_payload(running.fabric, placement, Task(MESSAGE_BYTES, settings=settings))
    found = []
    for place, nic in enumerate(placement.nics):
        far = running.fabric.switches[0] if tree else placement.nics[(place + 1) % NODES]
        sent, taken = expected[nic.name]
        found.append(
            LinkUse(
                near=nic.name,
                far=far.name,
                contributions=_grown(before, after, nic.name, "tx_CONTRIBUTION"),
                results=_grown(before, after, nic.name, "rx_RESULT" if tree else "tx_RESULT"),
                payload=Payload(
                    *(_carried(before, after, nic.name, far.address, f"{way}_payload_bytes") for way in ("tx", "rx"))
                ),
                expected=Payload(sent, taken if tree else 0),
            )
        )
    return found


def _grown(before: Snapshot, after: Snapshot, device: str, counter: str) -> int:
    return int(after[device]["counters"].get(counter, 0) - before[device]["counters"].get(counter, 0))


def _carried(before: Snapshot, after: Snapshot, device: str, peer: str, key: str) -> int:
    counts = [status[device]["links"].get(peer, {}).get(key, 0) for status in (before, after)]
    return int(counts[1] - counts[0])
