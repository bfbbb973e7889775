"""The plugin of a node: a resource for each class, kept registered, with the health of its pairs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanin_cluster.errors import ClusterError
from fanin_cluster.placement.classes import server_classes
from fanin_cluster.placement.container import address_commands, chosen_pair, grant, nccl_conf, vf_ipv4
from fanin_cluster.placement.node import NodePair, NodePaths, fault, node_pairs
from fanin_cluster.placement.preference import prefer
from fanin_cluster.topology.sysfs import read_sysfs
from fanin_device_plugin.claims import Claim, ClaimsUnknown, foreign_claims, held_pairs, read_claims
from fanin_device_plugin.kubelet_api import messages
from fanin_device_plugin.resource import Refused, Resource
from fanin_device_plugin.settings import Settings, SettingsInvalid

log = logging.getLogger(__name__)
CLAIM_PERIODS = 5  # between two looks at what pods have: the kubelet works for an answer
RTMGRP_LINK = 1  # linux/rtnetlink.h: changes of network interfaces


class NothingToGive(ClusterError):
    """This node has no pair that can be given away."""


class Plugin:
    """The plugin of a node. Raises SettingsInvalid, PlacementInvalid, TopologyInvalid or NothingToGive."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.paths = NodePaths(Path(settings.sysfs), Path(settings.proc))
        self.machine = read_sysfs(self.paths.sysfs)
        classes = server_classes(self.machine, settings.subnets, settings.affinity)
        self.pairs, self.hindrances = node_pairs(self.machine, classes, self.paths, settings.gpu_ids)
        names = {nic.name for nic in self.machine.nics}
        for nic in {*settings.sockets, *settings.addresses} - names:
            raise SettingsInvalid(f"there is no NIC {nic}", f"name one that is there: {', '.join(sorted(names))}")
        self.addresses = {
            each.name: vf_ipv4(settings.addresses[nic], settings.subnets[nic], each.position)
            for each in self.pairs.values()
            if (nic := each.pair.nic) in settings.addresses
        }
        self.files = Path(settings.files)
        self.pod_resources = Path(settings.pod_resources)
        self.foreign: dict[str, Claim] = {}
        start = self.start if self.addresses else None
        self.resources = [
            Resource(f"{settings.domain}/{each.name}", own, Path(settings.plugins), self.prefer, self.allocate, start)
            for each in classes.classes
            if (own := {pair.name: self.pairs[pair.name] for pair in each.pairs if pair.name in self.pairs})
        ]
        self.names = frozenset(each.name for each in self.resources)
        if not self.resources:
            reasons = "; ".join(self.hindrances) or "no GPU has a NIC with RDMA near enough"
            raise NothingToGive(f"there is no pair of a GPU and a VF: {reasons}", "see fanin placement classes")

    def prefer(self, available: Sequence[NodePair], must: Sequence[NodePair], size: int) -> list[NodePair]:
        """The pairs that a container should get."""
        chosen = prefer(self.machine, [each.pair for each in available], [each.pair for each in must], size)
        return [self.pairs[pair.name] for pair in chosen]

    async def allocate(self, pairs: Sequence[NodePair]) -> Any:
        """Grant pairs to a container, unless somebody has one of them. Raises Refused."""
        await self.refuse_what_is_taken(pairs)
        one = chosen_pair(pairs)
        conf = self.write_conf(one)
        path = self.settings.sockets.get(one.pair.nic)
        given = grant(pairs, conf, Path(path) if path else None, self.addresses.get(one.name, ""))
        return messages["ContainerAllocateResponse"](
            envs=given.environment,
            mounts=[
                messages["Mount"](container_path=each.container, host_path=each.host, read_only=each.read_only)
                for each in given.mounts
            ],
            devices=[
                messages["DeviceSpec"](container_path=path, host_path=path, permissions="rw") for path in given.devices
            ],
            annotations=given.annotations,
        )

    def write_conf(self, pair: NodePair) -> Path:
        """Write the file for NCCL of a container that has the VF of this pair."""
        path = self.files / f"{pair.pair.vf}.conf"
        write_file(path, nccl_conf(pair, self.settings.gid_index))
        return path

    async def refuse_what_is_taken(self, pairs: Sequence[NodePair]) -> None:
        """Ask the kubelet who has these pairs, or a half of one. Raises Refused.

        A pair is asked for once only while a container has it: the kubelet notes what it has given after Allocate.
        """
        if not self.pod_resources.exists():
            return
        try:
            claims = await read_claims(self.pod_resources)
        except ClaimsUnknown as error:
            raise Refused(f"the kubelet does not tell which devices pods have: {error}") from None
        taken = {**held_pairs(claims, self.names), **foreign_claims(claims, self.pairs.values(), self.names)}
        for pair in pairs:
            if pair.name in taken:
                claim = taken[pair.name]
                raise Refused(f"{pair.name} is taken: {claim.holder} has {claim.device} of {claim.resource}")

    async def start(self, pairs: Sequence[NodePair]) -> None:
        """Give the VF of a container its address, and bring it up. Raises Refused."""
        one = chosen_pair(pairs)
        if one.name not in self.addresses:
            return
        if not one.interface:
            raise Refused(f"the VF {one.pair.vf} has no network interface here, so it gets no address")
        for command in address_commands(one.interface, self.addresses[one.name]):
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
            _, complaint = await process.communicate()
            if process.returncode:
                raise Refused(f"{' '.join(command)}: {complaint.decode(errors='replace').strip()}")

    async def look(self) -> None:
        """Look once at all pairs, and tell what has changed."""
        for resource in self.resources:
            faults = {}
            for name, pair in resource.pairs.items():
                claim = self.foreign.get(name)
                taken = f"{claim.holder} has {claim.device} of {claim.resource}" if claim else ""
                faults[name] = fault(pair, self.paths) or self.silent_device(pair) or taken
            await resource.set_faults(faults)

    def silent_device(self, pair: NodePair) -> str:
        """Why the Fanin NIC of a pair can not be used; "" if it can, or there is none."""
        path = self.settings.sockets.get(pair.pair.nic)
        if path is None:
            return ""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.setblocking(False)
            try:
                client.connect(path)
            except BlockingIOError:
                return ""  # it is there, and has many at its door
            except OSError as error:
                return f"the Fanin NIC at {path} does not answer: {os.strerror(error.errno or 0)}"
        return ""

    async def watch_claims(self) -> None:
        """Look now and then at what other plugins have given away."""
        warned = False
        while True:
            try:
                if self.pod_resources.exists():
                    claims = await read_claims(self.pod_resources)
                    self.foreign = dict(foreign_claims(claims, self.pairs.values(), self.names))
                    warned = False
                elif not warned:
                    log.warning("%s is not there: devices that other plugins give away go unseen", self.pod_resources)
                    warned = True
            except ClaimsUnknown as error:
                if not warned:
                    log.warning("%s", error)
                warned = True
            await asyncio.sleep(CLAIM_PERIODS * self.settings.period)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        for each in self.hindrances:
            log.warning("not given away: %s", each)
        self.files.mkdir(parents=True, exist_ok=True)
        for pair in self.pairs.values():
            # After a reboot the kubelet starts its containers with what they had, and asks for nothing.
            self.write_conf(pair)
        loop = asyncio.get_running_loop()
        stop, wake = asyncio.Event(), asyncio.Event()

        def end() -> None:
            stop.set()
            wake.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        claims = asyncio.create_task(self.watch_claims())
        with link_changes() as changes:
            if changes is not None:
                loop.add_reader(changes, drain, changes, wake)
            while not stop.is_set():
                wake.clear()
                await self.look()
                for resource in self.resources:
                    await resource.keep_registered()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), self.settings.period)
            if changes is not None:
                loop.remove_reader(changes)
        claims.cancel()
        for resource in self.resources:
            await resource.close()


@contextlib.contextmanager
def link_changes() -> Any:
    """A socket that is readable when an interface of this machine changes; None where there is none to be had."""
    try:
        found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
    except OSError:
        yield None
        return
    with found:
        found.bind((0, RTMGRP_LINK))
        yield found


def drain(changes: socket.socket, wake: asyncio.Event) -> None:
    """Take what the kernel has told, and look at the devices."""
    with contextlib.suppress(OSError):
        while changes.recv(1 << 16):
            pass
    wake.set()


def write_file(path: Path, text: str) -> None:
    """Write a file that everybody may read, whole or not at all: a container may have the old one mounted."""
    if path.exists() and path.read_text() == text:
        return
    part = path.with_suffix(".part")
    part.write_text(text)
    part.chmod(0o644)
    part.rename(path)
