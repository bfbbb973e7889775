"""The pairs of this node as Linux shows them, which of them a container gets, and what it needs to use them.

| path | is read for |
| --- | --- |
| SYSFS/bus/pci/devices/VF/infiniband_verbs/NAME | the verbs device, /dev/infiniband/NAME |
| SYSFS/bus/pci/devices/VF/net/NAME | the network interface; missing while it is in another network namespace |
| SYSFS/bus/pci/devices/NIC/infiniband/NAME/ports/N/state | whether the link is up: "4: ACTIVE" |
| SYSFS/bus/pci/devices/NIC/virtfnN | a link to VF number N |
| SYSFS/bus/pci/devices/GPU | whether the GPU is on the bus |
| PROC/driver/nvidia/gpus/GPU/information | the id of the GPU: "GPU UUID: GPU-..." |

A container gets free pairs whose GPUs are nearest to each other, of few NICs. The cost of a set is a sum over its
couples: the class of nearness of their GPUs (0 to 3), 0 if a link connects them, and 1 if their NICs differ. Sets grow
from each free pair by the cheapest addition. Of equal sets the one wins that leaves the fewest pairs on its NICs: whole
groups stay free for larger containers.

With its pairs a container gets (002, [39], [45], [46]):

| gets | as |
| --- | --- |
| all its GPUs | NVIDIA_VISIBLE_DEVICES, their ids: NVIDIA's container runtime makes their device files |
| the one VF, that of its first GPU | /dev/infiniband/uverbsN and rdma_cm; its names in variables |
| a file for NCCL | /etc/nccl.conf, mounted for this container: that of the host would be the same for all |
| the NIC of Fanin | its folder, mounted at /run/fanin, and FANIN_SOCKET |
| the address of the VF | FANIN_VF_IPV4; the plugin gives it to the interface when the container starts |

The document passes the PCI address by `--devices`, which takes paths below /dev only. So the verbs device of that
address is passed; a variable and an annotation have the address.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

from fanin_cluster.placement.classes import Pair, PlacementInvalid, ServerClasses, functions_of, vf_of_container
from fanin_cluster.topology.machine import Component, Machine, nearness, numa_of
from fanin_cluster.topology.report import by_component

UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", re.M)
ACTIVE = "4"  # number of the state of a port (IBTA 14.2.5.6, PortState)
RDMA_CM = "/dev/infiniband/rdma_cm"
NCCL_CONF = "/etc/nccl.conf"
SOCKET_FOLDER = "/run/fanin"


# The pairs


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


# Which of them a container gets


def prefer(machine: Machine, available: Sequence[Pair], must: Sequence[Pair], size: int) -> list[Pair]:
    """`size` pairs of `available`, with all of `must`, in the order of `available`.

    Raises PlacementInvalid if there are too few, or if one of `must` is missing.
    """
    if not len(must) <= size <= len(available) or not set(must) <= set(available):
        raise PlacementInvalid(
            f"{size} of {len(available)} pairs with {len(must)} given ones", "ask for pairs that are available"
        )
    gpus = {gpu.name: gpu for gpu in machine.gpus}
    linked = {frozenset(link.ends) for link in machine.links}
    costs: dict[frozenset[Pair], int] = {}
    for one in available:
        for other in available:
            if one is not other:
                far = 0 if {one.gpu, other.gpu} in linked else int(nearness(gpus[one.gpu], gpus[other.gpu]))
                costs[frozenset((one, other))] = far + (one.nic != other.nic)
    free = [each.nic for each in available]

    def grown(start: list[Pair]) -> tuple[int, int, list[Pair]]:
        """Grow a set from its first pairs. Returns its cost, the pairs left on its NICs, and the set."""
        chosen = list(start)
        while len(chosen) < size:
            rest = [each for each in available if each not in chosen]
            chosen.append(min(rest, key=lambda each: sum(costs[frozenset((each, other))] for other in chosen)))
        cost = sum(costs[frozenset((a, b))] for place, a in enumerate(chosen) for b in chosen[:place])
        left = sum(free.count(nic) for nic in {each.nic for each in chosen}) - size
        return cost, left, chosen

    starts = [list(must)] if must or size == 0 else [[each] for each in available]
    best = min((grown(start) for start in starts), key=lambda found: found[:2])[2]
    return [each for each in available if each in best]


# What a container gets


@dataclass(frozen=True)
class FileMount:
    container: str
    host: str
    read_only: bool


@dataclass(frozen=True)
class Grant:
    """What a container gets. `devices` are paths below /dev, the same on the host; they may be read and written."""

    environment: dict[str, str]
    devices: tuple[str, ...]
    mounts: tuple[FileMount, ...]
    annotations: dict[str, str]


def chosen_pair(pairs: Sequence[NodePair]) -> NodePair:
    """The pair whose VF the container gets. Raises PlacementInvalid if there is no pair."""
    vf = vf_of_container([each.pair for each in pairs])
    return next(each for each in pairs if each.pair.vf == vf)


def grant(pairs: Sequence[NodePair], conf: Path, socket: Path | None = None, ipv4: str = "") -> Grant:
    """What the container of these pairs gets.

    Args:
        conf: the file for NCCL, `nccl_conf(chosen_pair(pairs))`, on the host.
        socket: control socket of the Fanin NIC beside the chosen VF; None if there is none.
        ipv4: of the chosen VF, "10.1.0.17/24"; "" if the plugin gives none.

    Raises PlacementInvalid if there is no pair.
    """
    one = chosen_pair(pairs)
    environment = {
        "NVIDIA_VISIBLE_DEVICES": ",".join(each.gpu_id for each in pairs),
        "FANIN_VF": one.pair.vf,
        "FANIN_VF_PCI": one.vf_address,
    }
    if one.interface:
        environment["FANIN_VF_INTERFACE"] = one.interface
    if ipv4:
        environment["FANIN_VF_IPV4"] = ipv4
    mounts = [FileMount(NCCL_CONF, str(conf), read_only=True)]
    if socket is not None:
        # The folder, because a restarted device makes a new socket, which a mounted file would not show.
        environment["FANIN_SOCKET"] = f"{SOCKET_FOLDER}/{socket.name}"
        mounts.append(FileMount(SOCKET_FOLDER, str(socket.parent), read_only=True))
    return Grant(
        environment,
        (f"/dev/infiniband/{one.verbs}", RDMA_CM),
        tuple(mounts),
        {"fanin/vf": one.pair.vf, "fanin/vf-pci": one.vf_address, "fanin/gpus": "_".join(e.pair.gpu for e in pairs)},
    )


def nccl_conf(pair: NodePair, gid_index: int | None = None) -> str:
    """The file that NCCL reads, a KEY=VALUE in each line. "=" before a name makes NCCL match it exactly."""
    lines = [f"NCCL_IB_HCA=={pair.pair.vf}"]
    if pair.interface:
        lines.append(f"NCCL_SOCKET_IFNAME=={pair.interface}")
    if gid_index is not None:
        lines.append(f"NCCL_IB_GID_INDEX={gid_index}")
    return "".join(f"{line}\n" for line in lines)


def vf_ipv4(first: str, subnet: str, position: int) -> str:
    """The address of a VF with the length of its subnet: "10.1.0.17/24".

    Args:
        first: address of the first VF of the NIC; the others follow it.
        position: of the VF, from 0.

    Raises PlacementInvalid if the subnet has no such address for a host.
    """
    remedy = "give the first address of a range in the subnet, long enough for all VFs of the NIC"
    try:
        address, network = ip_address(first) + position, ip_network(subnet)
    except ValueError as error:
        raise PlacementInvalid(f"the addresses of VFs: {error}", remedy) from None
    if address not in network or address in (network.network_address, network.broadcast_address):
        raise PlacementInvalid(f"VF {position} would have {address}, which is not a host's address in {subnet}", remedy)
    return f"{address}/{network.prefixlen}"


def address_commands(interface: str, ipv4: str) -> tuple[tuple[str, ...], ...]:
    """The commands that give a VF its address and bring it up ([46]); repeating them is harmless."""
    return (("ip", "address", "replace", ipv4, "dev", interface), ("ip", "link", "set", "dev", interface, "up"))
