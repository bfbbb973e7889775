"""Everything hostile at once, for a while: into engines here, and at real devices beside a well-behaved job."""

from __future__ import annotations

import random as random_module
import secrets
import time

from fanin_tools import control
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.hostile.bystander import Bystander
from fanin_tools.hostile.clients import BOUND_S, attack_device
from fanin_tools.hostile.datagrams import Sender
from fanin_tools.hostile.parser import attack_engines, material
from fanin_tools.hostile.tally import Tally

NODES = 2
BURST = 200  # datagrams in a row
ENGINES_SHARE = 0.4  # of the time
PORT_DROPS = ("drop_runt", "drop_icrc", "drop_queue_pair", "drop_lane")


def run(seconds: float, seed: int) -> Tally:
    """Attack for so long; `findings` of the result says what must not have happened."""
    tally = Tally(seed)
    attack_engines(ENGINES_SHARE * seconds, seed, tally)
    attack_fabric((1 - ENGINES_SHARE) * seconds, seed, tally)
    return tally


def attack_fabric(seconds: float, seed: int, tally: Tally, lanes: int = 1) -> None:
    """Bring a fabric up, attack its devices for so long while a job runs on it, and take it down."""
    name = f"hostile-{secrets.token_hex(4)}"
    try:
        running = lifecycle.up(Plan(name, Shape(NODES, 4, lanes=lanes)), lambda _text: None)
        with Bystander(running, tally) as bystander:
            attack_running(running, bystander, seconds, seed, tally)
        look_after(running, tally)
    finally:
        lifecycle.down(name)


def attack_running(running: Running, bystander: Bystander, seconds: float, seed: int, tally: Tally) -> None:
    """Clients and packets in turn, from the addresses of members too."""
    random, stuff = random_module.Random(seed), material(seed)
    devices = running.fabric.devices
    senders = [Sender(device.address, stuff, tally) for device in devices]
    jid, key = int(bystander.description["jid"]), int(bystander.description["key"])
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and not tally.findings:
            nic = running.state.socket(random.choice(running.fabric.nics).name)
            attack_device(nic, random, tally)
            control.query(nic, BOUND_S)
            sender, device = random.choice(senders), random.choice(devices)
            for _ in range(BURST):
                sender.send(device.address, jid, key)
    except ToolError as error:
        tally.find(f"a device does not answer: {error}")
    finally:
        for sender in senders:
            sender.close()


def look_after(running: Running, tally: Tally) -> None:
    """Every device lives, and holds nothing of anybody who has gone."""
    for device in running.fabric.devices:
        try:
            status = control.query(running.state.socket(device.name))
        except ToolError as error:
            tally.find(f"{device.name} has ended: {error}")
            continue
        held = [job for job in status["jobs"] if job["state"] not in ("aborted", "joining", "configuring")]
        if device.kind == "nic" and held:
            tally.find(f"{device.name} still has jobs: {held}")
        for counter, value in status["counters"].items():
            if counter.startswith("drop_"):
                tally.drops[counter] += value
