"""Packets lost at random in the kernel, by nftables."""

from __future__ import annotations

import json
import shutil
from types import TracebackType
from typing import Self

from fanin_tools.errors import ToolError
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.faults.hosts import inside
from fanin_wire.fields import UDP_PORT

TABLE = "fanin_loss"
PARTS = 100_000  # in which the share is counted


def lacking() -> str:
    """What this machine lacks to lose packets; "" if nothing."""
    return "" if shutil.which("nft") else "the program nft (nftables), to lose packets in the kernel"


class Loss:
    """Lose a share of the RoCEv2 packets where they arrive, on every host of a fabric of namespaces, while in a `with`.

    Per packet only after `hosts.cut_super_packets`, else per super-packet. share: from 0 to 1; lost: how many packets
    were, known when the `with` is over.
    """

    def __init__(self, running: Running, share: float) -> None:
        if missing := lacking():
            raise ToolError("NOT_SUPPORTED", missing, "install nftables")
        self._running = running
        self._hosts = [device.host for device in running.fabric.devices]
        self._rules = _rules(share)
        self.share = share
        self.lost = 0

    def __enter__(self) -> Self:
        for host in self._hosts:
            inside(self._running.fabric, host, "nft", "-f", "-", text=self._rules)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for host in self._hosts:
            self.lost += self._count(host)
            inside(self._running.fabric, host, "nft", "delete", "table", "ip", TABLE)

    def _count(self, host: str) -> int:
        """Packets lost on a host so far."""
        text = inside(self._running.fabric, host, "nft", "-j", "list", "counter", "ip", TABLE, "lost")
        return sum(item["counter"]["packets"] for item in json.loads(text)["nftables"] if "counter" in item)


def _rules(share: float) -> str:
    rule = f'udp dport {UDP_PORT} numgen random mod {PARTS} < {round(share * PARTS)} counter name "lost" drop'
    chain = f"chain arriving {{\ntype filter hook input priority 0;\n{rule}\n}}\n"
    return f"table ip {TABLE} {{\ncounter lost {{\n}}\n{chain}}}\n"
