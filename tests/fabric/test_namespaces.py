"""Fabrics in namespaces: reachability, MTU, rate, and that nothing is left."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fanin_tools.doctor import system
from fanin_tools.doctor.check import Level
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle, namespaces
from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.state import FabricState
from tests.fabric.fixtures import Up, fake_devices, ignore, own_state_folder

BIG_PACKET = "8972"  # bytes of ICMP data that fill an IP packet of 9000


def needs_namespaces(test: Callable[..., None]) -> Callable[..., None]:
    """Decorator: the test makes network namespaces, and is skipped where that is not possible."""
    reason = "root, iproute2 and leave to make namespaces"
    return pytest.mark.netns(pytest.mark.skipif(not namespaces.are_allowed(), reason=reason)(test))


def inside(fabric: Fabric, host: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*namespaces.prefix_command(fabric, host), *command], capture_output=True, text=True)


def reaches(fabric: Fabric, host: str, address: str) -> bool:
    """Whether a UDP datagram of a full MTU with DF set gets from `host` to `address`."""
    receive = f"import socket; s = socket.socket(2, 2); s.bind(('{address}', 9)); s.settimeout(10); s.recv(9000)"
    send = (
        f"import socket; s = socket.socket(2, 2); s.setsockopt(0, 10, 2); "
        f"[s.sendto(bytes({BIG_PACKET}), ('{address}', 9)) for _ in range(3)]"
    )
    owner = next(device.host for device in fabric.devices if device.address == address)
    with subprocess.Popen(
        [*namespaces.prefix_command(fabric, owner), "python3", "-c", receive], stderr=subprocess.DEVNULL
    ) as receiver:
        while receiver.poll() is None and inside(fabric, host, "python3", "-c", send).returncode == 0:
            try:
                receiver.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        if receiver.poll() is None:
            receiver.kill()
    return receiver.returncode == 0


@needs_namespaces
def test_every_host_reaches_every_other_through_the_bridge(up: Up) -> None:
    fabric = make("nsbridge", Shape(nodes=2, netns=True))
    up(fabric)
    (switch,) = fabric.switches
    assert reaches(fabric, "host0", fabric.nics[1].address)
    assert reaches(fabric, "host0", switch.address)


@needs_namespaces
def test_hosts_of_a_tree_reach_each_other_over_its_cables(up: Up) -> None:
    """One plain switch, one that offloads, one above both; a cable that is pulled shows that there is no other way."""
    whole = make("nstree", Shape(nodes=4, netns=True, fanout=(2, 2)))
    devices = [replace(each, offload=False, address="") if each.name == "switch-0" else each for each in whole.devices]
    fabric = check(replace(whole, devices=tuple(devices)), "test")
    up(fabric)
    assert reaches(fabric, "host0", fabric.nics[1].address)
    assert reaches(fabric, "host0", fabric.nics[3].address)
    assert reaches(fabric, "switch-1", fabric.device("switch").address)
    uplink = next(index for index, link in enumerate(fabric.links) if link.ends == ("switch-0", "switch"))
    inside(fabric, "switch-0", "ip", "link", "set", f"link{uplink}", "down")
    assert reaches(fabric, "host0", fabric.nics[1].address)
    assert not reaches(fabric, "host0", fabric.nics[3].address)


@needs_namespaces
def test_direct_links_reach_neighbours_only(up: Up) -> None:
    fabric = make("nsdirect", Shape(nodes=4, netns=True, direct=True))
    up(fabric)
    assert reaches(fabric, "host0", fabric.nics[1].address)
    assert reaches(fabric, "host0", fabric.nics[3].address)
    route = inside(fabric, "host0", "ip", "route", "get", fabric.nics[2].address)
    assert "unreachable" in route.stderr


@needs_namespaces
def test_rate_shapes_both_ends(up: Up) -> None:
    fabric = make("nsrate", Shape(nodes=1, netns=True, rate="1gbit"))
    up(fabric)
    for host in ("host0", "switch"):
        assert re.search(r"qdisc tbf .* rate 1Gbit", inside(fabric, host, "tc", "qdisc", "show").stdout)


@needs_namespaces
def test_down_removes_namespaces_also_after_a_crash(up: Up) -> None:
    fabric = make("nscrash", Shape(nodes=1, netns=True))
    up(fabric)
    names = {namespaces.namespace(fabric, device.host) for device in fabric.devices}
    assert names <= namespaces.existing()
    devices = FabricState("nscrash").processes().values()
    (FabricState("nscrash").folder / "processes.json").unlink()
    lifecycle.down("nscrash")
    assert not any(device.alive for device in devices)
    assert not names & namespaces.existing()


@needs_namespaces
def test_namespaces_of_another_state_folder_are_left_alone(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = make("nsboth", Shape(nodes=1, netns=True))
    running = up(fabric)
    with monkeypatch.context() as patch, own_state_folder(patch):
        assert namespaces.namespace(fabric, "host0") not in namespaces.existing()
        lifecycle.up(fabric, ignore, fake_devices)
        lifecycle.down("nsboth")
    assert all(process.alive for process in running.state.processes().values())
    assert reaches(fabric, "host0", fabric.nics[0].address)


@needs_namespaces
def test_unowned_namespaces_are_neither_used_nor_removed(up: Up) -> None:
    fabric = make("nsstray", Shape(nodes=1, netns=True))
    stray = namespaces.namespace(fabric, "host0")
    subprocess.run(["ip", "netns", "add", stray], check=True)
    try:
        with pytest.raises(ToolError, match=f"FABRIC_DIFFERS: .*{stray}.*ip netns delete"):
            up(fabric)
        assert stray in namespaces.existing()
        assert lifecycle.find("nsstray") is None
        assert not FabricState("nsstray").exists
    finally:
        subprocess.run(["ip", "netns", "delete", stray], check=True)


def test_namespaces_without_root_are_refused(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda command: command)
    with pytest.raises(ToolError, match="PERMISSION_DENIED: namespaces need root"):
        up(make("nsuser", Shape(nodes=1, netns=True)))
    assert lifecycle.find("nsuser") is None


@needs_namespaces
def test_nothing_is_left_of_a_trial() -> None:
    before = namespaces.existing()
    assert namespaces.are_allowed()
    assert namespaces.existing() == before


@pytest.mark.process
def test_root_that_may_not_make_namespaces_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container: the commands are there, and the user is root, but the kernel refuses."""
    for name in ("ip", "tc"):
        (tmp_path / name).write_text("#!/bin/sh\necho Operation not permitted >&2\nexit 1\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not namespaces.are_allowed()
    with pytest.raises(ToolError, match=r"PERMISSION_DENIED: this machine .*: Operation not permitted"):
        namespaces.require()
    finding = next(finding for finding in system.run_checks() if finding.subject == "namespaces")
    assert finding.level is Level.MISSING
    assert "Operation not permitted" in finding.detail


def test_namespaces_without_ip_are_refused(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(ToolError, match="NOT_SUPPORTED: namespaces need the commands ip and tc"):
        up(make("nsbare", Shape(nodes=1, netns=True)))
