"""`fanin fabric check` finds, by name, the one of four hosts that is wrong; in each test something else is."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from fanin_tools.hosts import description
from tests.ethernet import BRIDGE
from tests.fabric.test_namespaces import needs_namespaces
from tests.hosts import rig
from tests.hosts.rig import Hosts, commands

MTU = 9000
SHORT = 1400
GROUP = "239.77.0.1"
NODE3 = "node3"


@pytest.fixture(scope="module")
def four() -> Iterator[Hosts]:
    """Four hosts with the devices of the page, a tree."""
    if lacking := rig.needs():
        pytest.skip(lacking)
    with rig.hosts(MTU) as made:
        for block in commands("systemctl"):
            made.run(block.text)
        yield made


@pytest.fixture
def undo(four: Hosts) -> Iterator[ExitStack]:
    """What a test has changed is changed back."""
    with ExitStack() as stack:
        yield stack


def check(four: Hosts, file: str = "hosts.toml") -> list[dict[str, Any]]:
    """What is found. A run without findings has verified an allreduce."""
    ended = four.run(f"fanin fabric check {file} --json", check=False)
    found = json.loads(ended.stdout)
    findings: list[dict[str, Any]] = found["findings"]
    assert ended.returncode == (1 if findings else 0), ended.stderr
    assert bool(found["path"]) is not bool(findings)
    assert ("HOSTS_DIFFER" in ended.stderr) is bool(findings)
    return findings


def names(findings: list[dict[str, Any]], host: str = NODE3) -> set[str]:
    """The names of findings, all of which are about one host."""
    assert {finding["host"] for finding in findings} == {host}, findings
    return {finding["name"] for finding in findings}


def filtered(four: Hosts, undo: ExitStack, host: str, family: str, hook: str, rule: str) -> None:
    """A packet filter at a host, or in the bridge."""
    undo.callback(four.ethernet.on, host, "nft", "delete", "table", family, "f")
    chain = f"chain {family} f c {{ type filter hook {hook} priority 0; }}"
    four.ethernet.on(host, "nft", f"add table {family} f; add {chain}; add rule {family} f c {rule}")


@needs_namespaces
def test_nothing_is_wrong(four: Hosts) -> None:
    assert check(four) == []


@needs_namespaces
def test_interface_with_a_smaller_mtu(four: Hosts, undo: ExitStack) -> None:
    undo.callback(four.ethernet.on, NODE3, "ip", "link", "set", "eth0", "mtu", str(MTU))
    four.ethernet.on(NODE3, "ip", "link", "set", "eth0", "mtu", str(SHORT))
    findings = check(four)
    assert names(findings) == {"MTU_TOO_SMALL", "PATH_MTU"}
    assert any(f"carries packets of {SHORT} bytes" in finding["cause"] for finding in findings)


@needs_namespaces
@pytest.mark.parametrize("direction", ["iifname", "oifname"])
def test_long_packets_that_get_lost_in_one_direction(four: Hosts, undo: ExitStack, direction: str) -> None:
    """In the switch between the hosts, where no host sees it. It says how long a packet may be."""
    filtered(four, undo, BRIDGE, "bridge", "forward", f"{direction} {NODE3} meta length > {SHORT} drop")
    (finding,) = check(four)
    assert names([finding]) == {"PATH_MTU"}
    assert f"those of {SHORT} bytes do" in finding["cause"]
    nic, switch = "nic 10.0.0.3 of node3", "switch 10.0.0.101 of node1"
    source, target = (nic, switch) if direction == "iifname" else (switch, nic)
    assert re.search(f"from the {source} do not arrive at the {target}", finding["cause"])


@needs_namespaces
@pytest.mark.parametrize("hook", ["input", "output"])
def test_firewall(four: Hosts, undo: ExitStack, hook: str) -> None:
    filtered(four, undo, NODE3, "inet", hook, "udp dport 4791 drop")
    assert names(check(four)) == {"FILTERED"}


@needs_namespaces
def test_address_that_two_hosts_have(four: Hosts, undo: ExitStack) -> None:
    undo.callback(four.ethernet.on, "node4", "ip", "address", "del", "10.0.0.3/32", "dev", "lo")
    four.ethernet.on("node4", "ip", "address", "add", "10.0.0.3/32", "dev", "lo")
    findings = check(four)
    assert ("node4", "ADDRESS_TWICE") in {(finding["host"], finding["name"]) for finding in findings}
    assert any("nic of node3" in finding["cause"] for finding in findings)


@needs_namespaces
def test_group_that_is_not_joined(four: Hosts) -> None:
    """None of the NICs has `parent_group`."""
    text = (four.folder / "hosts.toml").read_text()
    (four.folder / "group.toml").write_text(f'{text}\ngroup = "{GROUP}"\n')
    findings = check(four, "group.toml")
    assert {(finding["host"], finding["name"]) for finding in findings} == {
        (name, "NO_MULTICAST") for name in rig.NAMES
    }


@needs_namespaces
def test_host_that_is_not_reached(four: Hosts) -> None:
    text = (four.folder / "hosts.toml").read_text()
    (four.folder / "absent.toml").write_text(text.replace('"node3"', '"node9"'))
    (finding,) = check(four, "absent.toml")
    assert names([finding], "node9") == {"HOST_UNREACHABLE"}
    assert "Could not resolve hostname node9" in finding["cause"]


@needs_namespaces
def test_user_who_may_not_use_the_device(four: Hosts) -> None:
    launch = "ssh {host} setpriv --reuid=65534 --clear-groups"
    ended = four.run(f"fanin fabric check hosts.toml --json --launch '{launch}'", check=False)
    found = {finding["name"] for finding in json.loads(ended.stdout)["findings"]}
    assert found == {"PERMISSION_DENIED"}, ended.stdout + ended.stderr


@needs_namespaces
def test_host_without_a_device(four: Hosts, undo: ExitStack) -> None:
    socket = "/run/fanin/nic0/control.sock"
    told = four.run(f"ssh {NODE3} /opt/fanin/bin/fanin device status {socket} --json").stdout
    undo.callback(four.run, f"ssh {NODE3} systemctl enable --now fanin-nic@nic0")
    os.kill(json.loads(told)["pid"], signal.SIGKILL)
    four.run(f"ssh {NODE3} rm {socket}")
    (finding,) = check(four)
    assert names([finding]) == {"NO_DEVICE"}


HOST = '[[host]]\nname = "a"\naddress = "10.0.0.1"\n'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "host: missing"),
        (HOST + HOST, "name: 'a' occurs twice"),
        (HOST + '[[switch]]\naddress = "10.0.0.1"\n', "address: '10.0.0.1' occurs twice"),
        (HOST + 'switches = ["10.0.0.9"]\n', r"host a: there is no \[\[switch\]\] 10.0.0.9"),
        (
            HOST + '[[switch]]\naddress = "10.0.0.8"\n[[switch]]\naddress = "10.0.0.9"\n',
            "2 switches, and a host does not say",
        ),
        (HOST + "mtu = 100\n", "unknown key"),
        ("mtu = 100\n" + HOST, "100 is out of range"),
        (HOST.replace("10.0.0.1", "10.0.0"), "'10.0.0' is not an IPv4 address"),
        ("not TOML", "not TOML"),
    ],
)
def test_wrong_file(tmp_path: Any, text: str, cause: str) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(text)
    ended = CliRunner().invoke(app, ["fabric", "check", str(file)])
    assert ended.exit_code == 2
    assert re.search(cause, ended.stderr), ended.stderr


def test_launcher_without_a_host(tmp_path: Any) -> None:
    file = tmp_path / "hosts.toml"
    file.write_text(HOST)
    ended = CliRunner().invoke(app, ["fabric", "check", str(file), "--launch", "ssh node1"])
    assert (ended.exit_code, "has no {host}" in ended.stderr) == (2, True)


def test_switches_above_a_host(tmp_path: Any) -> None:
    """The only switch of the file, if the host does not say it."""
    file = tmp_path / "hosts.toml"
    file.write_text(f'{HOST}[[switch]]\naddress = "10.0.0.9"\n')
    job = description.read(file).job(ranks_per_host=2)
    assert [(node.address, node.ranks, node.switches) for node in job.nodes] == [("10.0.0.1", (0, 1), ("10.0.0.9",))]
