"""The control server alone: a fault in a request, a status of too many links."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from fanin_nic.daemon.status import MAX_LINKS, OTHER, busiest
from fanin_nic.hostif.client import Client
from fanin_nic.hostif.ordinary import OrdinaryClient
from fanin_nic.hostif.ports import Refused
from fanin_nic.hostif.server import ControlServer
from fanin_tools.stress.fuzz.hostile_client import message
from fanin_wire import abi
from fanin_wire.abi import Access

PACKETS = {"rx_packets": 1, "tx_packets": 0}


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "control"


def ask(server: ControlServer, path: Path) -> bytes:
    """STATUS over a new connection; empty if the server hangs up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stream:
        stream.connect(str(path))
        stream.send(message("STATUS").tobytes())
        for _ in range(3):
            server.service()
        return stream.recv(1 << 18)


def test_fault_of_the_device_ends_the_connection_that_met_it_and_nothing_else(path: Path) -> None:
    faults = [ZeroDivisionError(), KeyError("x")]

    def status() -> dict[str, Any]:
        if faults:
            raise faults.pop()
        return {"fine": True}

    server = ControlServer(path, status)
    assert [ask(server, path), ask(server, path)] == [b"", b""]
    assert b"fine" in ask(server, path)
    server.close()


def test_closed_server_leaves_no_descriptor(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    server = ControlServer(path, dict)
    ask(server, path)
    server.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_client_is_told_that_it_is_alone_when_nothing_of_its_is_read_any_more() -> None:
    """After the reply a client may reuse its memory. The device reads nothing that was unmapped before."""
    calls = Mock()
    calls.mapping.access = int(sum(Access))
    calls.configure_mock(
        _queues={0: Mock(queue=7)}, _regions={5: calls.mapping}, _completion_queues={4}, index=3,
        _forget_regions=lambda: Client._forget_regions(calls),
        _forget_region=lambda lkey: Client._forget_region(calls, lkey),
    )  # fmt: skip
    Client.close(calls)
    order = [name.removeprefix("_") for name, _, _ in calls.mock_calls]
    assert order == [
        "engine.destroy_queue",
        "ordinary.close",
        "ordinary.close_completions",
        "region.mark_gone",
        "ordinary.deregister",
        "engine.deregister",
        "mapping.close",
        "engine.detach",
        "resources.close",
    ]


def test_few_links_are_shown_as_they_are() -> None:
    links = {f"10.0.0.{n}": PACKETS for n in range(20)}
    assert busiest(links) == links


def test_strangers_with_many_addresses_are_one_line() -> None:
    members = {f"10.0.0.{n}": {"rx_packets": 1000, "tx_packets": 1000} for n in range(10)}
    strangers = {f"10.{n // 250}.9.{n % 250}": PACKETS for n in range(1, 1000)}
    shown = busiest(strangers | members | {OTHER: {"rx_packets": 5000, "tx_packets": 0}})
    assert len(shown) <= MAX_LINKS + 1
    assert members.items() <= shown.items()
    assert sum(link["rx_packets"] for link in shown.values()) == 999 + 10 * 1000 + 5000


def test_unknown_rights_of_process_memory_are_refused() -> None:
    """The library refuses them; this is a client without it."""
    transport = Mock()
    transport.register.return_value = 77
    client = OrdinaryClient(0, transport, Mock(), lambda cq: True, has_memory=True)
    record = np.zeros(1, abi.REGISTER)[0]
    record["address"], record["length"], record["access"] = 4096, 64, Access.ORDINARY
    assert client.register(record, None) == 77
    record["access"] |= 1 << 20
    with pytest.raises(Refused, match="rights"):
        client.register(record, None)
