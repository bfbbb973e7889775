"""Everything hostile at once, for a while: into engines here, and at real devices beside a well-behaved job."""

from __future__ import annotations

import os
import random as random_module
import secrets
import time

from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query, lifecycle
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.fuzz.control_job import Bystander
from fanin_tools.stress.fuzz.engine_fuzz import attack_engines, material
from fanin_tools.stress.fuzz.hostile_client import BOUND_S, attack_device
from fanin_tools.stress.fuzz.hostile_sender import Sender
from fanin_tools.stress.fuzz.tally import Tally

NODES = 2
BURST = 200  # datagrams in a row
LIVING = ("joining", "configuring", "active")  # states of jobs that somebody must be in
ENGINES_SHARE = 0.4  # of the time


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
        before = open_descriptors(running)
        with Bystander(running, tally) as bystander:
            attack_running(running, bystander, seconds, seed, tally)
        look_after(running, before, tally)
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
            device_query.query(nic, BOUND_S)
            sender, device = random.choice(senders), random.choice(devices)
            for _ in range(BURST):
                sender.send(device.address, jid, key)
    except ToolError as error:
        tally.find(f"a device does not answer: {error}")
    finally:
        for sender in senders:
            sender.close()


def open_descriptors(running: Running) -> dict[str, int]:
    """How many descriptors each device has open, always with the one of this question."""
    found = {}
    for device in running.fabric.devices:
        with device_query.asked(running.state.socket(device.name)) as status:
            found[device.name] = len(os.listdir(f"/proc/{status['pid']}/fd"))
    return found


def look_after(running: Running, before: dict[str, int], tally: Tally) -> None:
    """Every device lives, and holds nothing of anybody who has gone: no job, no descriptor more than `before`."""
    end = time.monotonic() + BOUND_S
    try:
        while (left := leaks(running, before)) and time.monotonic() < end:
            time.sleep(0.1)
        for device in running.fabric.devices:
            counters = device_query.query(running.state.socket(device.name))["counters"]
            tally.drops.update({name: value for name, value in counters.items() if name.startswith("drop_")})
    except ToolError as error:
        left = [f"a device has ended: {error}"]
    for leak in left:
        tally.find(leak)


def leaks(running: Running, before: dict[str, int]) -> list[str]:
    """Jobs of clients that have gone (those that end may wait some seconds for an answer), and descriptors."""
    found = []
    for nic in running.fabric.nics:
        jobs = device_query.query(running.state.socket(nic.name))["jobs"]
        found += [f"{nic.name} still has the job {job}" for job in jobs if job["state"] in LIVING]
    now = open_descriptors(running)
    return found + [f"{name}: {before[name]} descriptors, now {now[name]}" for name in now if now[name] > before[name]]
