"""The settings of the device plugin, a file in TOML."""

import re
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from fanin_cluster.errors import ClusterError
from fanin_cluster.placement.classes import Affinity, PlacementInvalid, subnet_text
from fanin_cluster.placement.container import vf_ipv4
from fanin_cluster.topology.lookup import canonical

DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class SettingsInvalid(ClusterError):
    """A file of settings that can not be used. `cause` names the file and the setting."""


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the plugin is started with.

    NICs and GPUs are called by their names or by their PCI addresses, which stay when names change.

    domain: of the names of resources: DOMAIN/gpu-roce-10-1-0-0-24
    subnets: of each NIC with GPUs, by its name
    affinity: how near a GPU must be to its NIC: "numa" or "switch"
    addresses: of the first VF of a NIC, by its name; the plugin then gives its VFs this address and the next ones
    gid_index: NCCL_IB_GID_INDEX; NCCL chooses where there is none
    sockets: control socket of the Fanin NIC beside a NIC, by the name of that NIC
    whole_nics: a NIC that can have no VFs is given away itself
    gpu_ids: ids of GPUs by their names, where NVIDIA's driver does not tell them
    plugins, pod_resources: the kubelet's folder of plugins, and its socket that tells what pods have
    files: folder for the files of containers
    state: folder for what the plugin must know after a boot
    period: seconds between two looks at the devices and at the kubelet
    sysfs, proc: where the kernel shows its devices
    """

    domain: str = "fanin"
    subnets: dict[str, str] = {}
    affinity: Affinity = Affinity.NUMA
    addresses: dict[str, str] = {}
    gid_index: Annotated[int, Meta(ge=0, le=255)] | None = None
    sockets: dict[str, str] = {}
    whole_nics: bool = False
    gpu_ids: dict[str, str] = {}
    plugins: str = "/var/lib/kubelet/device-plugins"
    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    files: str = "/run/fanin-device-plugin"
    state: str = "/var/lib/fanin-device-plugin"
    period: Annotated[float, Meta(ge=0.01, le=60)] = 0.2
    sysfs: str = "/sys"
    proc: str = "/proc"


def read_settings(path: Path | None) -> Settings:
    """The settings of a file; without one the defaults. Raises SettingsInvalid."""
    if path is None:
        return Settings()
    try:
        settings = msgspec.convert(tomllib.loads(path.read_text()), Settings)
    except OSError as error:
        raise SettingsInvalid(f"{path} can not be read: {error.strerror}", "give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{path}: {error}", "docs/deployment.md has the settings") from None
    if not DOMAIN.fullmatch(settings.domain) or len(settings.domain) > 63:
        raise SettingsInvalid(f"{path}: domain = {settings.domain!r} is no DNS name", "write it as in example.com")
    try:
        _check_networks(settings)
    except ClusterError as error:
        raise SettingsInvalid(f"{path}: {error.cause}", error.remedy) from None
    return settings


def _check_networks(settings: Settings) -> None:
    """What can be said of subnets and addresses without the NICs. Raises PlacementInvalid."""
    subnets = {canonical(nic): subnet_text(nic, text) for nic, text in settings.subnets.items()}
    for nic, first in settings.addresses.items():
        if canonical(nic) in subnets:
            vf_ipv4(first, subnets[canonical(nic)], 0)
        elif len(subnets) < len(settings.addresses):
            raise PlacementInvalid(f"addresses has {nic}, subnets has not", "give the subnet of that NIC")
