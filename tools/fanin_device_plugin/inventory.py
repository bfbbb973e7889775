"""What this node has to give, kept up to date: devices come, go and change names while the plugin runs.

A pair is two PCI addresses. While a half of it is missing it stays listed as unusable, so that the kubelet recognises
it when VFs or drivers come back. It is dropped when its GPU or VF joins another pair.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fanin_cluster.errors import ClusterError
from fanin_cluster.placement.classes import Kept, PlacementInvalid, ServerClasses, classes_now
from fanin_cluster.placement.node import NodePair, NodePaths, fault, node_pairs, vf_ipv4
from fanin_cluster.topology.machine import Machine
from fanin_cluster.topology.report import by_component
from fanin_cluster.topology.sysfs import read_sysfs
from fanin_device_plugin.settings import Settings

log = logging.getLogger(__name__)
SECONDS = 5.0  # until all is read again although nothing seems to have changed; a driver may have been told an id
FOLDERS = ("bus/pci/devices", "class/infiniband", "class/infiniband_verbs", "class/net")


@dataclass(frozen=True)
class Entry:
    """A pair, with the name of its class, its VF's address and length of subnet ("": the plugin gives none), and the
    control socket of the Fanin NIC beside it (None: there is none)."""

    pair: NodePair
    resource: str
    address: str = ""
    socket: str | None = None


@dataclass
class Inventory:
    """The pairs of a node. Raises TopologyInvalid if the kernel shows no devices.

    entries: all pairs, by id; those of them that are missing now are in `lost` as well. hindrances: why other pairs do
    not exist, in sentences.
    """

    settings: Settings
    entries: dict[str, Entry] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    hindrances: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths = NodePaths(Path(self.settings.sysfs), Path(self.settings.proc))
        self.machine: Machine = read_sysfs(self.paths.sysfs)
        self._rdma: set[str] = set()  # addresses of all NICs that ever had RDMA: their drivers come back
        self._stamp: Any = None
        self._read_at = 0.0
        self._warned = False

    def refresh(self, *, at_once: bool = False) -> bool:
        """Read all again after a change, after some time, or at once. Returns whether it did."""
        stamp = list(self._names())
        due = at_once or stamp != self._stamp or time.monotonic() - self._read_at > SECONDS
        if due:
            self._read()
            self._stamp, self._read_at = stamp, time.monotonic()
        return due

    def _names(self) -> Iterator[Any]:
        """What a change of devices changes. Inodes tell a device from a later one of the same name."""
        folders = [self.paths.sysfs / each for each in FOLDERS]
        for folder in (*folders, self.paths.proc / "driver/nvidia/gpus"):
            try:
                yield sorted((each.name, each.inode()) for each in os.scandir(folder))
            except OSError:
                yield None
        yield [fault(each.pair, self.paths) for each in self.entries.values()]

    def _read(self) -> None:
        try:
            entries, hindrances = self._read_entries()
        except ClusterError as error:  # the settings do not fit what is there now
            self._tell([str(error)])
            return
        self._tell(hindrances)
        if not (entries or self.entries or self._warned):
            log.warning("NO_RESOURCES: there is no pair of a GPU and a VF yet; see fanin placement classes")
            self._warned = True
        taken = {address for each in entries.values() for address in (each.pair.gpu_address, each.pair.vf_address)}
        lost = {
            name: each
            for name, each in self.entries.items()
            if name not in entries and not {each.pair.gpu_address, each.pair.vf_address} & taken
        }
        self.entries, self.lost = {**lost, **entries}, frozenset(lost)

    def _tell(self, hindrances: list[str]) -> None:
        for each in hindrances:
            if each not in self.hindrances:
                log.warning("not given away: %s", each)
        self.hindrances = hindrances

    def _read_entries(self) -> tuple[dict[str, Entry], list[str]]:
        """The pairs that exist now, and what hinders others."""
        settings, machine = self.settings, read_sysfs(self.paths.sysfs)
        for nic in machine.nics:
            nic.rdma = nic.rdma or nic.address in self._rdma
        self._rdma |= {nic.address for nic in machine.rdma_nics}
        self.machine = machine
        known = [each.pair for each in self.entries.values()]
        kept = [Kept(each.gpu_address, each.vf_address, each.nic_address) for each in known]
        classes = classes_now(machine, settings.subnets, settings.affinity, kept, whole_nics=settings.whole_nics)
        found, hindrances = node_pairs(machine, classes, self.paths, settings.gpu_ids)
        hindrances += [f"the subnet of {each} is not given" for each in classes.without_subnet]
        hindrances += [f"no NIC with RDMA is near enough to {each}" for each in classes.without_nic]
        hindrances += [f"there is no VF for {each}" for each in classes.without_vf]
        return self._entries(classes, found, hindrances), hindrances

    def _entries(
        self, classes: ServerClasses, found: Mapping[str, NodePair], hindrances: list[str]
    ) -> dict[str, Entry]:
        """What goes with each pair, by the settings of its NIC."""
        settings, nics = self.settings, self.machine.nics
        subnets, _ = by_component(settings.subnets, nics)
        firsts, without_address = by_component(settings.addresses, nics)
        sockets, without_socket = by_component(settings.sockets, nics)
        for name in dict.fromkeys([*classes.absent, *without_address, *without_socket]):
            hindrances.append(f"the settings name {name}, which is no NIC with RDMA here")
        resources = {pair: each.name for each in classes.classes for pair in each.pairs}
        entries = {}
        for one in found.values():
            nic, address = one.pair.nic, ""
            try:
                if nic in firsts:
                    address = vf_ipv4(firsts[nic], subnets.get(nic, ""), one.position)
            except PlacementInvalid as error:
                hindrances.append(f"{one.name}: {error}")
                continue
            entries[one.id] = Entry(one, resources[one.pair], address, sockets.get(nic))
        return entries

    def fault(self, entry: Entry) -> str:
        """Why a pair can not be used now; "" if it can."""
        found = fault(entry.pair, self.paths)
        if not found and entry.pair.id in self.lost:
            return f"{entry.pair.name} can not be had any more, see the log"
        return found
