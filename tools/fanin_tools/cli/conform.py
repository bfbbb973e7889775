"""`fanin conform`: the conformance suite against a device."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, print_table, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import print_progress

if TYPE_CHECKING:
    from fanin_conform.profile import Profile
    from fanin_conform.suite import Verdict
    from fanin_conform.targets.target import Target
    from fanin_wire.agent import AgentError


SWITCH, REFERENCE, RTL, NIC, NIC_LANES = "switch", "reference", "rtl", "nic", "nic-lanes"
LANES = 2  # of all but `nic`
DETECTION_S = 3.0  # of the switch: the scripts of silence wait for it


@contextlib.contextmanager
def own_switch() -> Iterator[tuple[str, str]]:
    """The address and the group of a switch that runs for the time of the block, in a fabric of its own."""
    from fanin_tools.fabric.generate import Plan, Shape
    from fanin_tools.fabric.lease import leased, private_name

    shape = Shape(nodes=2, ranks_per_node=1, lanes=LANES, detection=DETECTION_S, loopback_group=True)
    with leased(Plan(private_name(), shape), print_progress) as running:
        switch = running.fabric.switches[0]
        yield switch.address, switch.group


@contextlib.contextmanager
def own_reference() -> Iterator[tuple[str, str]]:
    """The address of the switch in plain Python, as a process that runs for the time of the block. It has no group."""
    address = f"127.{160 + (os.getpid() >> 8) % 32}.{os.getpid() % 256}.100"
    with subprocess.Popen(
        [sys.executable, "-m", "fanin_reference", address, "--lanes", str(LANES)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise ToolError("DEVICE_LOST", "the reference switch ended while starting", f"free {address}")
            yield address, ""
        finally:
            process.terminate()


@contextlib.contextmanager
def own_nic(lanes: int) -> Iterator[tuple[str, str]]:
    """A NIC that runs for the time of the block, in a fabric of its own: its address, and the command of its agent."""
    from fanin_tools.fabric.generate import Plan, Shape
    from fanin_tools.fabric.lease import leased, private_name

    shape = Shape(nodes=1, direct=True, lanes=lanes, detection=DETECTION_S)
    with leased(Plan(private_name(), shape), print_progress) as running:
        (nic,) = running.fabric.nics
        command = [sys.executable, "-m", "fanin_agent", str(running.state.socket(nic.name))]
        yield nic.address, shlex.join(command)


def named_target(name: str, group: str, agent: str, held: contextlib.ExitStack) -> tuple[str, str, str]:
    """Target, group and agent as `open_target` takes them; processes of our own run until `held` is closed."""
    if name in (NIC, NIC_LANES):
        address, command = held.enter_context(own_nic(LANES if name == NIC_LANES else 1))
        return f"nic://{address}", group, agent or command
    own = {SWITCH: own_switch, REFERENCE: own_reference}.get(name)
    if own is None:
        return name, group, agent
    address, group = held.enter_context(own())
    return f"udp://{address}", group, agent


def is_nic(target: str) -> bool:
    """Whether a target is a NIC."""
    from fanin_conform.targets import opening

    return target in (NIC, NIC_LANES) or opening.is_nic(target)


@reporting
def conform(
    scripts: Annotated[
        list[str] | None, typer.Argument(help="Parts of the names of scripts. Default: all scripts.")
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="engine: a switch in this process. switch: Fanin's, started for this run. reference: the one in plain "
            "Python, started for this run. rtl: the one in Verilog, simulated. udp://ADDRESS: a switch. engine-nic, "
            "nic, nic://ADDRESS: the same of NICs. nic-lanes: one of two lanes."
        ),
    ] = "engine",
    local: Annotated[
        str, typer.Option(metavar="ADDRESS", help="First address of the tester; it uses four. Default: on loopback.")
    ] = "",
    group: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Multicast address of the device's results, if it has one.")
    ] = "",
    agent: Annotated[
        str, typer.Option(metavar="PLACE", help="What works the NIC as its host does: HOST:PORT, or a command.")
    ] = "",
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What the device implements, in TOML. Default: everything.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 1,
    conversations: Annotated[
        int, typer.Option(min=0, metavar="N", help="In place of scripts, N random conversations, from the seed on.")
    ] = 0,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the verdicts as JUnit XML.")] = None,
    wave: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of rtl: write the waveform of all signals, as VCD.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Test packet by packet whether a device follows the protocol. Each script names the demands of SPEC.md."""
    from fanin_conform import report, suite
    from fanin_conform.listener import NoFaninDevice
    from fanin_conform.targets.opening import TargetInvalid, open_target, opens_several
    from fanin_wire.agent import AgentError

    stated = _profile(profile, target)
    if (stated.role == SWITCH) is is_nic(target):
        raise UsageError(f"{target} is no {stated.role}", "name another target, or correct `role` of the profile")
    selected = suite.chosen(scripts or [], stated.role)
    if not selected:
        called = " or ".join(scripts or [])
        raise UsageError(f"no script for {stated.role} is called {called}", "see docs/conformance.md for the names")
    if conversations and is_nic(target):
        raise UsageError("there are no conversations with a NIC", "name a switch, or leave --conversations out")
    with contextlib.ExitStack() as held:
        try:
            place, address, worker = named_target(target, group, agent, held)
            target_opened = open_target(place, local, suite.ADDRESSES, address, worker, wave=wave)
            opened = held.enter_context(contextlib.closing(target_opened))
        except TargetInvalid as error:
            raise UsageError(str(error), error.remedy) from None
        except AgentError as error:
            raise _agent_error(error) from None
        try:
            if conversations:
                return _converse(opened, target, range(seed, seed + conversations), stated)
            several = functools.partial(open_target, place, "", suite.ADDRESSES, "", worker)
            beside = (lambda number: several(number=number)) if opens_several(place, local, worker) else None
            verdicts = suite.run(opened, selected, seed, lambda verdict: None, stated, beside)
        except NoFaninDevice as error:
            cause = f"no Fanin device answers at {error}"
            raise ToolError("NO_DEVICE", cause, "start the device, or correct the address") from None
        except AgentError as error:
            raise _agent_error(error) from None
    if junit:
        junit.write_bytes(report.junit(verdicts, target, seed))
    if json_output:
        print_json(report.as_dict(verdicts, target, seed))
    else:
        _print(verdicts, target, seed)
    failed = [verdict for verdict in verdicts if verdict.outcome == suite.FAILED]
    if failed:
        names = ", ".join(verdict.script.name for verdict in failed)
        cause = f"{len(failed)} of {len(verdicts)} scripts failed: {names}"
        raise ToolError("NOT_CONFORMING", cause, "compare what was expected with what was seen, above")


def _agent_error(error: AgentError) -> ToolError:
    return ToolError(error.name, error.text, "start the agent, or correct --agent (docs/agent.md)")


def _converse(device: Target, name: str, seeds: range, profile: Profile) -> None:
    from fanin_conform import conversation, suite
    from fanin_conform.targets.reference import ReferenceTarget

    found = conversation.search(device, ReferenceTarget(suite.ADDRESSES), seeds, profile)
    if found is None:
        print(f"{len(seeds)} conversations, and {name} said in each what the reference switch says")
        return
    seed = found.conversation.seed
    print(f"{found}\nagain: fanin conform --target {name} --seed {seed} --conversations 1")
    cause = f"the device does not say what the reference switch says, in the conversation of seed {seed}"
    raise ToolError("NOT_CONFORMING", cause, "compare the last packets, above; it was shrunk to what it needs")


def _profile(file: Path | None, target: str) -> Profile:
    from fanin_conform.profile import EVERY_NIC, EVERYTHING, read
    from fanin_conform.targets.rtl import RtlMissing, profile
    from fanin_wire.settings import InvalidSetting

    if file is None and target == RTL:
        try:
            return read(profile())
        except RtlMissing as lacking:
            raise UsageError(str(lacking), lacking.remedy) from None
    if file is None:
        own: dict[str, dict[str, Any]] = {
            SWITCH: {"lanes": LANES, "detection_s": DETECTION_S},
            REFERENCE: {"lanes": LANES, "middle": False, "ahead": False, "shares": False},
            NIC: {"detection_s": DETECTION_S},
            NIC_LANES: {"detection_s": DETECTION_S, "lanes": LANES},
        }
        return structs.replace(EVERY_NIC if is_nic(target) else EVERYTHING, **own.get(target, {}))
    try:
        return read(file.read_text())
    except InvalidSetting as error:
        raise UsageError(f"{file}: {error.place}: {error.cause}", error.remedy) from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "give a file in TOML") from None


def _print(verdicts: list[Verdict], target: str, seed: int) -> None:
    from fanin_conform import report, suite

    groups = dict.fromkeys(verdict.script.name.partition("/")[0] for verdict in verdicts)
    outcomes = (suite.PASSED, suite.FAILED, suite.NOT_RUN)
    rows = []
    for group in groups:
        own = [verdict for verdict in verdicts if verdict.script.name.startswith(f"{group}/")]
        rows.append([group, *(str(sum(verdict.outcome == each for verdict in own)) for each in outcomes)])
    print_table(f"conformance of {target}", ["group", *outcomes], rows)
    for verdict in verdicts:
        if verdict.outcome == suite.FAILED:
            print(f"\n{report.failure_text(verdict, target, seed)}")
        elif verdict.outcome == suite.NOT_RUN:
            print_progress(f"not run: {verdict.script.name}: {verdict.text}")
        if verdict.left_out:
            print_progress(f"not run: {verdict.script.name}: {', '.join(verdict.left_out)}")
