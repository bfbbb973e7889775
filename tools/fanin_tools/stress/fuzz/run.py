"""All kinds of hostile input: for engines and transports in memory, and for real devices beside the control job."""

import math
import os
import secrets
import time
from random import Random

from fanin_sim.findings import Category
from fanin_tools.errors import ToolError
from fanin_tools.fabric import device_query
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lease import leased
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.fuzz.control_job import ControlJob
from fanin_tools.stress.fuzz.engine_fuzz import attack_engines, packet_source
from fanin_tools.stress.fuzz.hostile_client import REPLY_SECONDS, attack_device
from fanin_tools.stress.fuzz.hostile_sender import Sender
from fanin_tools.stress.fuzz.ordinary_target import OrdinaryTarget
from fanin_tools.stress.fuzz.transport_fuzz import attack_transports
from fanin_tools.stress.tally import Tally

NODES = 2
BURST = 200  # datagrams in a row
ORDINARY_BURST = 100  # then, of ordinary RDMA traffic
WHOLE = 0.95  # share with a right ICRC
DROPS = ("drop_", "ordinary_drop_", "ordinary_refused_")  # beginnings of counters of packets that were not carried out
ACTIVE_STATES = ("joining", "configuring", "active")  # states of jobs that have members
ENGINES_SHARE, TRANSPORTS_SHARE = 0.3, 0.3  # of the time


def run(seconds: float, seed: int, tally: Tally) -> None:
    """Attack transports, engines, then a fabric of devices, for `seconds` together, and add to `tally`."""
    attack_transports(TRANSPORTS_SHARE * seconds, seed, tally)
    tally.begin(f"python -m fanin_tools.stress.fuzz --seconds {max(1, math.ceil(seconds))} --seed {seed}")
    attack_engines(ENGINES_SHARE * seconds, seed, tally)
    attack_fabric((1 - ENGINES_SHARE - TRANSPORTS_SHARE) * seconds, seed, tally)


def attack_fabric(seconds: float, seed: int, tally: Tally, lanes: int = 1) -> None:
    """Bring a fabric up, attack it for `seconds` beside the control job, and take it down, even after a kill."""
    plan = Plan(f"hostile-{secrets.token_hex(4)}", Shape(NODES, 4, lanes=lanes))
    with leased(plan, lambda _text: None) as running:
        before = open_descriptors(running)
        with ControlJob(running, tally) as control_job:
            attack_running(running, control_job, seconds, seed, tally)
        check_leaks(running, before, tally)


def attack_running(running: Running, control_job: ControlJob, seconds: float, seed: int, tally: Tally) -> None:
    """With clients and packets in turns, also from the addresses of members."""
    random, packets = Random(seed), packet_source(seed)
    devices = running.fabric.devices
    senders = [Sender(device.address, packets, tally) for device in devices]
    targets = ordinary_targets(running, tally)
    jid, key = int(control_job.description["jid"]), int(control_job.description["key"])
    violations_before = tally.violations.total()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and tally.violations.total() == violations_before:
            nic = running.state.socket(random.choice(running.fabric.nics).name)
            attack_device(nic, random, tally)
            device_query.query_status(nic, REPLY_SECONDS)
            sender, device = random.choice(senders), random.choice(devices)
            for _ in range(BURST):
                sender.send(device.address, jid, key)
            target = random.choice(targets)
            if random.random() < 0.5:
                sender = next(one for one in senders if one.address == target.peer)
            for _ in range(ORDINARY_BURST):
                sender.send_packet(target.address, target.packet(random), is_whole=random.random() < WHOLE)
            target.check()
    except ToolError as error:
        tally.find(Category.OTHER, f"a device does not answer: {error}")
    finally:
        for sender in senders:
            sender.close()
        for target in targets:
            target.close()


def ordinary_targets(running: Running, tally: Tally) -> list[OrdinaryTarget]:
    """On each NIC, connected with the next one, whose address a sender has."""
    nics = running.fabric.nics
    return [
        OrdinaryTarget(str(running.state.socket(nic.name)), nic.address, peer.address, tally)
        for nic, peer in zip(nics, (*nics[1:], nics[0]), strict=True)
    ]


def open_descriptors(running: Running) -> dict[str, int]:
    """Open descriptors of each device, with the one of this query."""
    found = {}
    for device in running.fabric.devices:
        with device_query.status_connection(running.state.socket(device.name)) as status:
            found[device.name] = len(os.listdir(f"/proc/{status['pid']}/fd"))
    return found


def check_leaks(running: Running, before: dict[str, int], tally: Tally) -> None:
    """Every device must run, and hold no job of an ended client and no more descriptors than `before`."""
    end = time.monotonic() + REPLY_SECONDS
    try:
        while (left := leaks(running, before)) and time.monotonic() < end:
            time.sleep(0.1)
        for device in running.fabric.devices:
            counters = device_query.query_status(running.state.socket(device.name))["counters"]
            tally.drops.update({name: value for name, value in counters.items() if name.startswith(DROPS)})
    except ToolError as error:
        left = [f"a device has ended: {error}"]
    for leak in left:
        tally.find(Category.OTHER, leak)


def leaks(running: Running, before: dict[str, int]) -> list[str]:
    """In words. A job of a client that has just ended may stay for some seconds."""
    found = []
    for nic in running.fabric.nics:
        jobs = device_query.query_status(running.state.socket(nic.name))["jobs"]
        found += [f"{nic.name} still has the job {job}" for job in jobs if job["state"] in ACTIVE_STATES]
    now = open_descriptors(running)
    return found + [f"{name}: {before[name]} descriptors, now {now[name]}" for name in now if now[name] > before[name]]
