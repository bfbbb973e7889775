"""Addresses on loopback: never the same for two commands, also when they choose at the same time."""

import contextlib
import json
import subprocess
import sys

import pytest

from fanin_tools.fabric import lifecycle, namespaces
from fanin_tools.fabric.generate import Plan, Shape
from tests.fabric.fixtures import Up

AT_ONCE = 5

# Brings a fabric of stand-ins up in a state folder of its own, so that no lock is shared, waits, takes it down.
COMMAND = """
import json, os, sys, tempfile
with tempfile.TemporaryDirectory(prefix="fanin-test-", dir="/tmp") as folder:
    os.environ["XDG_RUNTIME_DIR"] = folder
    from fanin_tools.fabric import lifecycle
    from fanin_tools.fabric.generate import Plan, Shape
    from tests.fabric.fixtures import ignore, fake_devices
    print("ready", flush=True)
    sys.stdin.readline()
    running = lifecycle.up(Plan("racer", Shape(2)), ignore, fake_devices)
    print(json.dumps([device.address for device in running.fabric.devices]), flush=True)
    sys.stdin.readline()
    lifecycle.down("racer")
"""


def test_reserved_addresses_are_not_given_again() -> None:
    plan = Plan("any", Shape(2))
    with namespaces.reserved_addresses(plan) as first, namespaces.reserved_addresses(plan) as second:
        assert not {device.address for device in first.devices} & {device.address for device in second.devices}


def test_a_reservation_ends_with_its_block() -> None:
    plan = Plan("any", Shape(280, fanout=(10, 28)))  # two blocks
    with namespaces.reserved_addresses(plan) as first:
        blocks = {device.address.rpartition(".")[0] for device in first.devices}
    with contextlib.ExitStack() as held:
        assert len(blocks) == 2
        assert all(namespaces.bind(f"{block}.0", held) for block in blocks)


def test_addresses_in_use_are_passed_over(up: Up) -> None:
    running = up(Plan("holder", Shape(2)))
    taken = {device.address for device in running.fabric.devices}
    with namespaces.reserved_addresses(Plan("other", Shape(2))) as fabric:
        assert not taken & {device.address for device in fabric.devices}


def test_down_frees_the_addresses(up: Up) -> None:
    """Another run may bring a fabric up meanwhile, so the test asks for the addresses, not for the lowest free ones."""
    addresses = [device.address for device in up(Plan("first", Shape(1))).fabric.devices]
    with contextlib.ExitStack() as held:
        assert not any(namespaces.bind(address, held) for address in addresses)
    lifecycle.down("first")
    with contextlib.ExitStack() as held:
        assert all(namespaces.bind(address, held) for address in addresses)


@pytest.mark.process
def test_several_commands_at_once_choose_differently() -> None:
    start = [sys.executable, "-c", COMMAND]
    racers = [subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(AT_ONCE)]
    try:
        assert [answer(racer) for racer in racers] == ["ready\n"] * AT_ONCE
        for racer in racers:
            tell(racer)
        addresses = [address for racer in racers for address in json.loads(answer(racer))]
        assert len(set(addresses)) == len(addresses) == 3 * AT_ONCE
    finally:
        for racer in racers:
            racer.communicate("\n")
    assert [racer.returncode for racer in racers] == [0] * AT_ONCE


def tell(racer: subprocess.Popen[str]) -> None:
    assert racer.stdin is not None
    racer.stdin.write("\n")
    racer.stdin.flush()


def answer(racer: subprocess.Popen[str]) -> str:
    assert racer.stdout is not None
    return racer.stdout.readline()
