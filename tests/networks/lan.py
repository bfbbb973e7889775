"""Hosts of a network that nothing of ours has made. Devices are started on them by hand, as an administrator does."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from fanin import Communicator, Job
from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query
from fanin_tools.launch.job_file import chunk_for
from fanin_tools.stress.faults.rank_threads import run_ranks
from tests.ethernet import Ethernet
from tests.waiting import BOUND_S, DETECTION_S

POLL_S = 0.05
SWITCH = 0  # the host of the switch; NICs are on the others


class Lan:
    """Hosts h0, h1, ... on one bridge. mtu: of the interfaces of hosts and bridge. folder: of sockets and logs."""

    def __init__(self, folder: Path, hosts: int, mtu: int = 1500) -> None:
        self.folder, self.hosts = folder, hosts
        self._devices: dict[int, subprocess.Popen[bytes]] = {}
        self.ethernet = Ethernet(f"fanin-lan-{os.getpid()}", mtu)
        with contextlib.ExitStack() as undone:
            undone.callback(self.close)
            for host in range(hosts):
                self.ethernet.add(self.name(host), self.address(host))
            undone.pop_all()

    def move(self, address: str, host: int) -> None:
        """Let all other hosts take an address for one of `host`, as when two have the same."""
        link = json.loads(self.on(host, "ip", "-json", "link", "show", "eth0"))[0]["address"]
        for other in range(self.hosts):
            if self.address(other) != address:
                self.ip(other, f"neigh replace {address} lladdr {link} dev eth0")

    @staticmethod
    def name(host: int) -> str:
        """The name of a host, and of its port of the bridge."""
        return f"h{host}"

    @staticmethod
    def address(host: int) -> str:
        """The IPv4 address of a host."""
        return f"10.83.0.{1 + host}"

    def ip(self, host: int, words: str) -> None:
        """A command of iproute2 on a host."""
        self.ethernet.ip(self.name(host), words)

    def on(self, host: int, *words: str, text: str | None = None) -> str:
        """What a command on a host says."""
        return self.ethernet.on(self.name(host), *words, text=text)

    def command(self, host: int, *words: str) -> list[str]:
        """A command line that does something on a host."""
        return ["ip", "netns", "exec", self.ethernet.namespace(self.name(host)), *words]

    def filter(self, host: int, hook: str, rule: str) -> None:
        """A rule of nftables on a host. hook: input or output."""
        chain = f"chain c {{\ntype filter hook {hook} priority 0\n{rule}\n}}"
        self.on(host, "nft", "-f", "-", text=f"table ip fanin_{hook} {{\n{chain}\n}}\n")

    # Devices

    def start(self, host: int, kind: str = "nic", **options: Any) -> None:
        """Start a device on a host, and wait until it is ready."""
        settings = {"name": self.name(host), "address": self.address(host), "socket": self.socket(host)}
        settings |= {"detection": DETECTION_S} | options
        words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        command = self.command(host, str(Path(sys.executable).parent / f"fanin-{kind}"), *words)
        with self._log(host).open("wb") as log:
            self._devices[host] = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 5 * BOUND_S  # it may compile
        while not self._is_ready(host):
            assert self._devices[host].poll() is None, self.log(host)
            assert time.monotonic() < end, f"h{host} is not ready: {self.log(host)}"
            time.sleep(POLL_S)

    def start_tree(self, **options: Any) -> None:
        """A switch on the first host and a NIC on each other."""
        self.start(SWITCH, "switch", **options)
        self.start_nics(**options)

    def start_nics(self, **options: Any) -> None:
        """A NIC on each host but the first."""
        for host in range(1, self.hosts):
            self.start(host, **options)

    def _is_ready(self, host: int) -> bool:
        try:
            return bool(self.status(host))
        except ToolError:
            return False

    def socket(self, host: int) -> str:
        """Path of the control socket of the device of a host."""
        return str(self.folder / f"h{host}.sock")

    def status(self, host: int) -> dict[str, Any]:
        """The STATUS of the device of a host."""
        return device_query.query_status(Path(self.socket(host)))

    def _log(self, host: int) -> Path:
        return self.folder / f"h{host}.log"

    def log(self, host: int) -> str:
        """What the device of a host has said."""
        return self._log(host).read_text()

    def close(self) -> None:
        """End the devices, and remove the hosts."""
        for device in self._devices.values():
            device.terminate()
            device.wait(BOUND_S)
        self.ethernet.close()

    # Ranks

    def job(self, route: str) -> Job:
        """A new job of a rank on each host with a NIC, with the longest segments that all NICs take."""
        nics = range(1, self.hosts)
        chunk = min(chunk_for(self.status(host)["mtu"]) for host in nics)
        nodes = []
        for host in nics:
            way = {"switches": [self.address(SWITCH)]} if route == "tree" else {"ring": host - 1}
            nodes.append({"address": self.address(host), "ranks": [host - 1], **way})
        number = 1 + secrets.randbelow(0xFFFFFFFE)
        return Job.from_dict({"jid": number, "key": number, "route": route, "chunk": chunk, "nodes": nodes})

    def ranks(self, job: Job, act: Any) -> list[Any]:
        """What each rank gets that joins the job and does `act(communicator, rank)`: a result, or its FaninError."""

        def run(rank: int) -> Any:
            with Communicator(job, rank, self.socket(rank + 1), timeout=BOUND_S) as member:
                return act(member, rank)

        return run_ranks(self.hosts - 1, run, 3 * BOUND_S)
