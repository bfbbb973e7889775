"""The settings of the device plugin, a file in TOML."""

import re
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from fanin_cluster.errors import ClusterError
from fanin_cluster.placement.classes import Affinity, PlacementInvalid, subnet_text
from fanin_cluster.placement.node import vf_ipv4
from fanin_cluster.topology.report import canonical

DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class SettingsInvalid(ClusterError):
    """A file of settings with an error. `cause` names the file and the setting."""


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The plugin's settings. NICs and GPUs go by name, or by PCI address, which stays when names change.

    domain: of the names of resources: DOMAIN/gpu-roce-10-1-0-0-24
    subnets: of each NIC with GPUs, by its name
    affinity: how near a GPU must be to its NIC: "numa" or "switch"
    addresses: of the first VF of a NIC, by the NIC's name; its further VFs get the next addresses
    gid_index: NCCL_IB_GID_INDEX; None: NCCL chooses
    sockets: control socket of the Fanin NIC beside a NIC, by that NIC's name
    whole_nics: give away a NIC itself if it can have no VFs
    gpu_ids: ids of GPUs by name, if NVIDIA's driver does not show them
    plugins, pod_resources: the kubelet's folder of plugins, and its socket for what pods have
    files: folder for the files of containers
    state: folder for what must survive a boot
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
    """From a file, or the defaults. Raises SettingsInvalid."""
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
    """Check subnets and addresses as far as possible without the NICs. Raises PlacementInvalid."""
    subnets = {canonical(nic): subnet_text(nic, text) for nic, text in settings.subnets.items()}
    for nic, first in settings.addresses.items():
        if canonical(nic) in subnets:
            vf_ipv4(first, subnets[canonical(nic)], 0)
        elif len(subnets) < len(settings.addresses):
            raise PlacementInvalid(f"addresses has {nic}, subnets has not", "give the subnet of that NIC")
