"""What a container gets with its pairs (002, [39], [45], [46]).

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

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

from fanin_cluster.placement.classes import PlacementInvalid, vf_of_container
from fanin_cluster.placement.node import NodePair

RDMA_CM = "/dev/infiniband/rdma_cm"
NCCL_CONF = "/etc/nccl.conf"
SOCKET_FOLDER = "/run/fanin"


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
