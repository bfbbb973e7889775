"""The plugin of a node: a resource for each class, kept registered, and the health of its pairs."""

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanin_cluster.errors import ClusterError
from fanin_cluster.placement.node import NodePair, address_commands, chosen_pair, grant, nccl_conf, prefer
from fanin_device_plugin.claims import (
    Claim,
    ClaimsUnknown,
    ClaimsUnsupported,
    claims_on_halves,
    claims_on_pairs,
    read_claims,
)
from fanin_device_plugin.files import write_file
from fanin_device_plugin.grants import Grants
from fanin_device_plugin.inventory import Entry, Inventory
from fanin_device_plugin.kubelet_api import messages
from fanin_device_plugin.resource import Refused, Resource, State
from fanin_device_plugin.settings import Settings

log = logging.getLogger(__name__)
CLAIM_PERIODS = 5  # between two questions for claims, which cost the kubelet work
RTMGRP_LINK = 1  # linux/rtnetlink.h: changes of network interfaces


class AnotherPlugin(ClusterError):
    """Another plugin serves this node's pairs."""


class Plugin:
    """Raises TopologyInvalid."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.inventory = Inventory(settings)
        self.files, self.folder = Path(settings.files), Path(settings.plugins)
        self.pod_resources = Path(settings.pod_resources)
        self.grants = Grants(Path(settings.state) / "granted.json")
        self.claimed: dict[str, Claim] = {}
        self.resources: dict[str, Resource] = {}
        self._lock: int | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.resources)

    @property
    def pairs(self) -> list[NodePair]:
        return [each.pair for each in self.inventory.entries.values()]

    def prefer(self, available: Sequence[NodePair], must: Sequence[NodePair], size: int) -> list[NodePair]:
        named = {each.pair: each for each in available}
        chosen = prefer(self.inventory.machine, list(named), [each.pair for each in must], size)
        return [named[pair] for pair in chosen]

    async def allocate(self, pairs: Sequence[NodePair]) -> Any:
        """Grant pairs to a container, unless another has one of them. Raises Refused."""
        await self.refuse_what_is_taken(pairs)
        for pair in pairs:
            entry = self.inventory.entries.get(pair.id)
            if entry is None or entry.pair != pair:  # changed while the kubelet was asked
                raise Refused(f"{pair.name} has changed at this moment")
        one = chosen_pair(pairs)
        entry = self.inventory.entries[one.id]
        conf = self.write_conf(one)
        given = grant(pairs, conf, Path(entry.socket) if entry.socket else None, entry.address)
        self.grants.note(one)
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
        """Write NCCL's file for the container with this pair's VF. Names may change: its path has none."""
        path = self.files / f"{pair.vf_address.replace(':', '-')}.conf"  # runtimes end a path at ":"
        write_file(path, nccl_conf(pair, self.settings.gid_index))
        return path

    def write_confs(self) -> None:
        """After a reboot the kubelet starts containers without a question. Earlier releases named it by the VF."""
        for pair in self.pairs:
            self.write_conf(pair)
            write_file(self.files / f"{pair.pair.vf}.conf", nccl_conf(pair, self.settings.gid_index))

    async def refuse_what_is_taken(self, pairs: Sequence[NodePair]) -> None:
        """Ask the kubelet who has these pairs, or a half of one. Raises Refused. Only while a container has a pair is
        it asked for once: the kubelet notes a grant after Allocate."""
        if not self.pod_resources.exists():
            return
        try:
            claims = await read_claims(self.pod_resources)
        except ClaimsUnsupported:
            return
        except ClaimsUnknown as error:
            raise Refused(f"the kubelet does not say which devices pods have: {error}") from None
        taken = {**claims_on_pairs(claims, self.names), **claims_on_halves(claims, self.pairs, self.names)}
        for pair in pairs:
            if pair.id in taken:
                raise Refused(f"{pair.name} is taken: {told(taken[pair.id])}")

    async def start(self, pairs: Sequence[NodePair]) -> None:
        """Check that a container can start with its grant, and give its VF its address. Raises Refused."""
        one = chosen_pair(pairs)
        if differs := self.grants.differs(one):
            raise Refused(differs)
        address = self.inventory.entries[one.id].address
        if not address:
            return
        if not one.interface:
            raise Refused(f"the VF {one.pair.vf} has no network interface here, so it gets no address")
        for command in address_commands(one.interface, address):
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
            _, complaint = await process.communicate()
            if process.returncode:
                raise Refused(f"{' '.join(command)}: {complaint.decode(errors='replace').strip()}")

    async def look(self, *, at_once: bool = False) -> None:
        """Look at all pairs, and report changes. at_once: even if nothing seems to have changed."""
        if self.inventory.refresh(at_once=at_once):
            try:
                self.write_confs()
            except OSError as error:
                if not self.resources:
                    raise
                log.warning("the files of the pairs can not be written, and stay as they are: %s", error)
        states: dict[str, dict[str, State]] = {name: {} for name in self.resources}
        for name, entry in self.inventory.entries.items():
            claim = self.claimed.get(name)
            fault = self.inventory.fault(entry) or self.silent_device(entry) or (told(claim) if claim else "")
            states.setdefault(f"{self.settings.domain}/{entry.resource}", {})[name] = State(entry.pair, fault)
        for name, own in states.items():
            if name not in self.resources:
                self.resources[name] = Resource(
                    name, self.folder, self.look_at_once, self.prefer, self.allocate, self.start
                )
            await self.resources[name].show(own)

    async def look_at_once(self) -> None:
        await self.look(at_once=True)

    def silent_device(self, entry: Entry) -> str:
        """Why a pair's Fanin NIC can not be used; "" if it can, or there is none."""
        path = entry.socket
        if path is None:
            return ""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.setblocking(False)
            try:
                client.connect(path)
            except BlockingIOError:
                return ""  # it runs, and its backlog is full
            except OSError as error:
                return f"the Fanin NIC at {path} does not answer: {os.strerror(error.errno or 0)}"
        return ""

    async def watch_claims(self) -> None:
        """Read periodically what pods have."""
        warned = ""
        while True:
            warning = ""
            if self.pod_resources.exists():
                try:
                    claims = await read_claims(self.pod_resources)
                    self.claimed = dict(claims_on_halves(claims, self.pairs, self.names))
                except (ClaimsUnknown, ClaimsUnsupported) as error:
                    warning = str(error)
            else:
                warning = f"{self.pod_resources} is missing"
            if warning and not warned:
                log.warning("%s: devices that other plugins give away are not seen", warning)
            warned = warning
            await asyncio.sleep(CLAIM_PERIODS * self.settings.period)

    async def watch_kubelet(self) -> None:
        """Keep all resources registered. A kubelet that answers late must not delay other work."""
        while True:
            await asyncio.gather(*(each.keep_registered() for each in list(self.resources.values())))
            await asyncio.sleep(self.settings.period)

    def lock(self) -> None:
        """Lock the kubelet's folder as soon as it exists: the kubelet deletes all files in it. Raises AnotherPlugin."""
        try:
            descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        if self._lock is not None:
            same = os.path.sameopenfile(self._lock, descriptor)
            os.close(descriptor if same else self._lock)
            if same:
                return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            cause = f"another plugin serves the pairs of this node: it has locked {self.folder}"
            raise AnotherPlugin(cause, "stop one of the two, the DaemonSet or the service") from None
        self._lock = descriptor

    async def run(self) -> None:
        self.lock()
        for folder in (self.files, Path(self.settings.state)):
            folder.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        stop, wake = asyncio.Event(), asyncio.Event()

        def end() -> None:
            stop.set()
            wake.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        await self.look()
        tasks = [asyncio.create_task(each) for each in (self.watch_claims(), self.watch_kubelet())]
        with link_changes() as changes:
            if changes is not None:
                loop.add_reader(changes, drain, changes, wake)
            while not stop.is_set():
                wake.clear()
                self.lock()
                await self.look()
                for task in tasks:
                    if task.done():
                        task.result()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), self.settings.period)
            if changes is not None:
                loop.remove_reader(changes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for resource in self.resources.values():
            await resource.close()


def told(claim: Claim) -> str:
    return f"{claim.holder} has {claim.device} of {claim.resource}"


@contextlib.contextmanager
def link_changes() -> Any:
    """A socket that is readable when an interface changes; None if the kernel gives none."""
    try:
        found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
    except OSError:
        yield None
        return
    with found:
        found.bind((0, RTMGRP_LINK))
        yield found


def drain(changes: socket.socket, wake: asyncio.Event) -> None:
    """Take the kernel's messages, and look at the devices."""
    with contextlib.suppress(OSError):
        while changes.recv(1 << 16):
            pass
    wake.set()
