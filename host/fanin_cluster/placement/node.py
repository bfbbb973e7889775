"""The pairs of this node as Linux shows them: what a container needs to use them, and whether they work.

| path | is read for |
| --- | --- |
| SYSFS/bus/pci/devices/VF/infiniband_verbs/NAME | the verbs device, /dev/infiniband/NAME |
| SYSFS/bus/pci/devices/VF/net/NAME | the network interface; not there while it is in another network namespace |
| SYSFS/bus/pci/devices/NIC/infiniband/NAME/ports/N/state | whether the link is up: "4: ACTIVE" |
| SYSFS/bus/pci/devices/GPU | whether the GPU is on the bus |
| PROC/driver/nvidia/gpus/GPU/information | the id of the GPU: "GPU UUID: GPU-..." |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fanin_cluster.placement.classes import Pair, PlacementInvalid, ServerClasses
from fanin_cluster.topology.machine import Machine, numa_of

UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", re.M)
ACTIVE = "4"  # number of the state of a port (IBTA 14.2.5.6, PortState)


@dataclass(frozen=True)
class NodePaths:
    """Where the kernel shows its devices."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")

    def function(self, address: str) -> Path:
        """The folder of a PCI function."""
        return self.sysfs / "bus/pci/devices" / address


@dataclass(frozen=True)
class NodePair:
    """A pair of this node, with both of its devices.

    gpu_id: by which the driver names the GPU
    gpu_address, vf_address, nic_address: PCI addresses
    verbs: name of the verbs device of the VF, "uverbs4"
    interface: network interface of the VF; "" if it is in another network namespace
    position: of the VF among those of its NIC, from 0
    numa: NUMA node of the GPU; None if unknown
    """

    pair: Pair
    gpu_id: str
    gpu_address: str
    vf_address: str
    nic_address: str
    verbs: str
    interface: str
    position: int
    numa: int | None

    @property
    def name(self) -> str:
        """The id of the device, that of its pair."""
        return self.pair.name

    @property
    def claims(self) -> frozenset[str]:
        """The names under which another plugin may give away the GPU or the VF."""
        return frozenset({self.gpu_id, self.gpu_address, self.vf_address, self.pair.vf})


def node_pairs(
    machine: Machine, classes: ServerClasses, paths: NodePaths, gpu_ids: Mapping[str, str] | None = None
) -> tuple[dict[str, NodePair], list[str]]:
    """The pairs that can be given away, by name, and what hinders each of the others, in sentences.

    Args:
        gpu_ids: ids of GPUs by their names, where the driver does not tell them.

    Raises PlacementInvalid if a GPU of `gpu_ids` is not there, or two GPUs have one id.
    """
    gpus = {gpu.name: gpu for gpu in machine.gpus}
    for name in gpu_ids or {}:
        if name not in gpus:
            raise PlacementInvalid(f"gpu_ids names {name}", f"name GPUs that are there: {', '.join(gpus) or 'none'}")
    nics = {nic.name: nic for nic in machine.nics}
    found: dict[str, NodePair] = {}
    hindrances = []
    for resource in classes.classes:
        for pair in resource.pairs:
            gpu, nic = gpus[pair.gpu], nics[pair.nic]
            gpu_id = (gpu_ids or {}).get(pair.gpu) or driver_id(paths, gpu.address)
            names = [each.name for each in _entries(paths.function(pair.address) / "infiniband_verbs")]
            if not pair.address:
                count = classes.needed[pair.nic]
                hindrances.append(f"{pair.name}: {pair.nic} has no VFs; write {count} to its sriov_numvfs")
            elif not names:
                hindrances.append(f"{pair.name}: the VF {pair.address} has no verbs device; load its driver")
            elif not gpu_id:
                hindrances.append(f"{pair.name}: the driver tells no id of {pair.gpu}; give it in gpu_ids")
            else:
                functions = [each.address for each in machine.virtual_functions(nic)]
                interfaces = [each.name for each in _entries(paths.function(pair.address) / "net")]
                found[pair.name] = NodePair(
                    pair,
                    gpu_id,
                    gpu.address,
                    pair.address,
                    nic.address,
                    names[0],
                    interfaces[0] if interfaces else "",
                    functions.index(pair.address),
                    numa_of(gpu),
                )
    ids = [each.gpu_id for each in found.values()]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        raise PlacementInvalid(f"two GPUs have the id {twice[0]}", "give each GPU its own in gpu_ids")
    return found, hindrances


def driver_id(paths: NodePaths, address: str) -> str:
    """The UUID of a GPU of NVIDIA; "" where the driver shows none."""
    match = UUID.search(_text(paths.proc / "driver/nvidia/gpus" / address / "information"))
    return match[1] if match else ""


def fault(pair: NodePair, paths: NodePaths) -> str:
    """Why a pair can not be used now; "" if it can."""
    if not paths.function(pair.gpu_address).exists():
        return f"{pair.pair.gpu} ({pair.gpu_address}) is not on the bus"
    if not paths.function(pair.vf_address).exists():
        return f"the VF {pair.pair.vf} ({pair.vf_address}) is not on the bus"
    devices = _entries(paths.function(pair.nic_address) / "infiniband")
    states = [_text(port / "state") for device in devices for port in _entries(device / "ports")]
    if not states:
        return f"{pair.pair.nic} ({pair.nic_address}) has no RDMA port"
    if not any(state.partition(":")[0] == ACTIVE for state in states):
        return f"no port of {pair.pair.nic} is active: {', '.join(states)}"
    return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
