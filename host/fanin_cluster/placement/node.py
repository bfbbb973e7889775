"""The pairs of this node as Linux shows them: what a container needs to use them, and whether they work.

| path | is read for |
| --- | --- |
| SYSFS/bus/pci/devices/VF/infiniband_verbs/NAME | the verbs device, /dev/infiniband/NAME |
| SYSFS/bus/pci/devices/VF/net/NAME | the network interface; missing while it is in another network namespace |
| SYSFS/bus/pci/devices/NIC/infiniband/NAME/ports/N/state | whether the link is up: "4: ACTIVE" |
| SYSFS/bus/pci/devices/NIC/virtfnN | a link to VF number N |
| SYSFS/bus/pci/devices/GPU | whether the GPU is on the bus |
| PROC/driver/nvidia/gpus/GPU/information | the id of the GPU: "GPU UUID: GPU-..." |
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fanin_cluster.placement.classes import Pair, PlacementInvalid, ServerClasses, functions_of
from fanin_cluster.topology.lookup import by_component
from fanin_cluster.topology.machine import Component, Machine, numa_of

UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", re.M)
ACTIVE = "4"  # number of the state of a port (IBTA 14.2.5.6, PortState)


@dataclass(frozen=True)
class NodePaths:
    """Where the kernel shows its devices."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")

    def function(self, address: str) -> Path:
        return self.sysfs / "bus/pci/devices" / address


@dataclass(frozen=True)
class NodePair:
    """A pair of this node, with both of its devices as they were when it was read.

    gpu_id: by which a container asks for the GPU
    driver_id: by which the driver names the GPU; "" if it does not tell
    gpu_address, vf_address, nic_address: PCI addresses
    verbs: name of the verbs device of the VF, "uverbs4"
    interface: network interface of the VF; "" if it is in another network namespace
    position: of the VF among those of its NIC, from 0
    numa: NUMA node of the GPU; None if unknown
    """

    pair: Pair
    gpu_id: str
    driver_id: str
    gpu_address: str
    vf_address: str
    nic_address: str
    verbs: str
    interface: str
    position: int
    numa: int | None

    @property
    def id(self) -> str:
        """The id of the device for the kubelet, which keeps it when the node restarts: PCI addresses outlive names."""
        return f"{self.gpu_address}_{self.vf_address}"

    @property
    def name(self) -> str:
        """The name for people: that of its pair. Earlier releases used it as the kubelet's id."""
        return self.pair.name

    @property
    def claims(self) -> frozenset[str]:
        """The names, `canonical`, under which the GPU or the VF may have been given away."""
        return frozenset({self.gpu_id, self.driver_id, self.gpu_address, self.vf_address, self.pair.vf} - {""})


def node_pairs(
    machine: Machine, classes: ServerClasses, paths: NodePaths, gpu_ids: Mapping[str, str] | None = None
) -> tuple[dict[str, NodePair], list[str]]:
    """The usable pairs by id, and the reason against each of the others, in sentences.

    Args:
        gpu_ids: ids of GPUs by their names or PCI addresses, where the driver has none.

    Raises PlacementInvalid if two GPUs have one id.
    """
    gpus, nics = ({each.name: each for each in there} for there in (machine.gpus, machine.nics))
    given, absent = by_component(gpu_ids or {}, machine.gpus)
    hindrances = [f"gpu_ids names {name}; there are {', '.join(gpus) or 'no GPUs'}" for name in absent]
    found: dict[str, NodePair] = {}
    for pair in (pair for resource in classes.classes for pair in resource.pairs):
        gpu, nic = gpus[pair.gpu], nics[pair.nic]
        if hindrance := _hindrance(pair, nic, classes.needed[nic.name], paths):
            hindrances.append(f"{pair.name}: {hindrance}")
            continue
        told = driver_id(paths, gpu.address)
        gpu_id = given.get(gpu.name) or told
        if not gpu_id:
            hindrances.append(f"{pair.name}: the driver tells no id of {pair.gpu}; give it in gpu_ids")
            continue
        position = _position(machine, nic, pair.address, paths)
        if position is None:
            hindrances.append(f"{pair.name}: the VF {pair.address} is not among those of {nic.name} any more")
            continue
        made = NodePair(
            pair,
            gpu_id=gpu_id,
            driver_id=told,
            gpu_address=gpu.address,
            vf_address=pair.address,
            nic_address=nic.address,
            verbs=_first(paths.function(pair.address) / "infiniband_verbs"),
            interface=_first(paths.function(pair.address) / "net"),
            position=position,
            numa=numa_of(gpu),
        )
        found[made.id] = made
    ids = [each.gpu_id for each in found.values()]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        raise PlacementInvalid(f"two GPUs have the id {twice[0]}", "give each GPU its own in gpu_ids")
    return found, hindrances


def _hindrance(pair: Pair, nic: Component, needed: int, paths: NodePaths) -> str:
    """Why there is no VF to give; "" if there is one."""
    if pair.address and not _first(paths.function(pair.address) / "infiniband_verbs"):
        return f"the VF {pair.address} has no verbs device; load its driver"
    if pair.address:
        return ""
    if nic.most_vfs == 0:  # as in a virtual machine, to which a VF or a whole NIC was passed
        return (
            f"{nic.name} can have no VFs; set whole_nics to give away the NIC itself, or enable SR-IOV in its firmware"
        )
    return f"{nic.name} has no VFs; write {needed} to its sriov_numvfs"


def _position(machine: Machine, nic: Component, address: str, paths: NodePaths) -> int | None:
    """The number of a VF by the links of its NIC; without links its place among the VFs.

    None if it is missing: sriov_numvfs is being written.
    """
    for link in _entries(paths.function(nic.address)):
        number = link.name.removeprefix("virtfn")
        if number != link.name and os.path.basename(_target(link)) == address:
            return int(number)
    there = [each.address for each in functions_of(machine, nic, whole_nics=True)]
    return there.index(address) if address in there else None


def driver_id(paths: NodePaths, address: str) -> str:
    """The UUID of a GPU of NVIDIA; "" where the driver shows none."""
    match = UUID.search(_text(paths.proc / "driver/nvidia/gpus" / address / "information"))
    return match[1] if match else ""


def fault(pair: NodePair, paths: NodePaths) -> str:
    """Why a pair can not be used now; "" if both devices are as they were read."""
    if not paths.function(pair.gpu_address).exists():
        return f"{pair.pair.gpu} ({pair.gpu_address}) is not on the bus"
    if not paths.function(pair.vf_address).exists():
        return f"the VF {pair.pair.vf} ({pair.vf_address}) is not on the bus"
    told = driver_id(paths, pair.gpu_address)
    if told != pair.driver_id:
        return f"{pair.pair.gpu} ({pair.gpu_address}) was {pair.driver_id or 'unknown'}, and is {told or 'unknown'} now"
    verbs = _first(paths.function(pair.vf_address) / "infiniband_verbs")
    if verbs != pair.verbs:
        return f"the VF {pair.pair.vf} ({pair.vf_address}) was {pair.verbs}, and is {verbs or 'no verbs device'} now"
    devices = _entries(paths.function(pair.nic_address) / "infiniband")
    states = [_text(port / "state") for device in devices for port in _entries(device / "ports")]
    if not states:
        return f"{pair.pair.nic} ({pair.nic_address}) has no RDMA port"
    if not any(state.partition(":")[0] == ACTIVE for state in states):
        return f"no port of {pair.pair.nic} is active: {', '.join(states)}"
    return ""


def _first(folder: Path) -> str:
    """The name of the first device in a folder, or ""."""
    return next((each.name for each in _entries(folder)), "")


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _target(link: Path) -> str:
    """What a link names; "" if it is gone."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
