"""`fanin conform`: the conformance suite against a device."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanin_tools.cli import files, options
from fanin_tools.cli.output import print_json, print_table, print_wrong, reporting
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.progress import Activity, print_progress, steady

if TYPE_CHECKING:
    from fanin_conform.capture import Capture
    from fanin_conform.profile import Profile
    from fanin_conform.suite import Verdict
    from fanin_conform.targets.target import Target
    from fanin_wire.agent import AgentError


SWITCH, REFERENCE, RTL, NIC, NIC_LANES = "switch", "reference", "rtl", "nic", "nic-lanes"
ENGINE, ENGINE_NIC = "engine", "engine-nic"
OPENING = {
    ENGINE: options.LOADING,
    ENGINE_NIC: options.LOADING,
    RTL: "compiling the switch in Verilog (half a minute, unless it is already compiled)",
}
FILES = ("junit", "wave", "pcap", "json_output")  # options that `again:` leaves out, to keep earlier results


@contextlib.contextmanager
def own_switch() -> Iterator[tuple[str, str]]:
    """Address and group of a switch that runs for the time of the block, in a fabric of its own."""
    from fanin_conform.profile import load
    from fanin_tools.fabric.generate import Plan, Shape
    from fanin_tools.fabric.lease import leased, private_name

    stated = load(SWITCH)
    shape = Shape(nodes=2, ranks_per_node=1, lanes=stated.lanes, detection=stated.detection_s, loopback_group=True)
    with leased(Plan(private_name(), shape), print_progress) as running:
        switch = running.fabric.switches[0]
        yield switch.address, switch.group


@contextlib.contextmanager
def own_reference() -> Iterator[tuple[str, str]]:
    """Address of the switch in plain Python, a process for the time of the block. It has no group."""
    address = f"127.{160 + (os.getpid() >> 8) % 32}.{os.getpid() % 256}.100"
    with subprocess.Popen([sys.executable, "-m", "fanin_reference", address], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise ToolError("DEVICE_LOST", "the reference switch ended while starting", f"free {address}")
            yield address, ""
        finally:
            process.terminate()


@contextlib.contextmanager
def own_nic(profile: str) -> Iterator[tuple[str, str]]:
    """Address of a NIC with this profile, in a fabric of its own for the time of the block, and its agent's command."""
    from fanin_conform.profile import load
    from fanin_tools.fabric.generate import Plan, Shape
    from fanin_tools.fabric.lease import leased, private_name

    stated = load(profile)
    shape = Shape(nodes=1, direct=True, lanes=stated.lanes, detection=stated.detection_s)
    with leased(Plan(private_name(), shape), print_progress) as running:
        (nic,) = running.fabric.nics
        command = [sys.executable, "-m", "fanin_agent", str(running.state.socket(nic.name))]
        yield nic.address, shlex.join(command)


def named_target(name: str, group: str, agent: str, held: contextlib.ExitStack) -> tuple[str, str, str]:
    """Target, group and agent for `open_target`; processes of our own run until `held` is closed."""
    if name in (NIC, NIC_LANES):
        address, command = held.enter_context(own_nic(name))
        return f"nic://{address}", group, agent or command
    own = {SWITCH: own_switch, REFERENCE: own_reference}.get(name)
    if own is None:
        return name, group, agent
    address, group = held.enter_context(own())
    return f"udp://{address}", group, agent


def is_nic(target: str) -> bool:
    from fanin_conform.targets import opening

    return target in (NIC, NIC_LANES) or opening.is_nic(target)


@reporting
def conform(
    context: typer.Context,
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
        str, typer.Option(metavar="PLACE", help="Agent that drives the NIC as its host does: HOST:PORT, or a command.")
    ] = "",
    profile: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="What the device implements: a TOML file, or a shipped one: switch, reference, nic, "
            "nic-lanes, rocev2. Default: everything.",
        ),
    ] = "",
    seed: options.Seed = 1,
    conversations: Annotated[
        int, options.count(min=0, help="Instead of scripts: N random conversations, from --seed on.")
    ] = 0,
    junit: Annotated[Path | None, files.output_file(help="Write the verdicts as JUnit XML.")] = None,
    wave: Annotated[Path | None, files.output_file(help="With rtl: write the waveform of all signals, as VCD.")] = None,
    pcap: Annotated[Path | None, files.output_file(help="Write all packets as pcapng, each with its script.")] = None,
    json_output: options.Json = False,
) -> None:
    """Test packet by packet whether a device follows the protocol. Each script names the demands of SPEC.md."""
    from fanin_conform import report, suite
    from fanin_conform.listener import NoFaninDevice
    from fanin_conform.targets.opening import TargetInvalid, open_target, opens_several
    from fanin_wire.agent import AgentError

    stated = _profile(profile, target)
    if (stated.role == SWITCH) is is_nic(target):
        raise UsageError(f"{target} is not a {stated.role}", "name another target, or correct `role` of the profile")
    selected = suite.chosen(scripts or [], stated.role)
    if not selected:
        called = " or ".join(scripts or [])
        raise UsageError(f"no script for {stated.role} is called {called}", "see docs/conformance.md for the names")
    if conversations and is_nic(target):
        raise UsageError("--conversations needs a switch", "name a switch, or leave --conversations out")
    _refuse_unused(context, target, conversations)
    with contextlib.ExitStack() as held:
        capture = held.enter_context(contextlib.closing(_capture(pcap))) if pcap else None
        try:
            place, address, worker = named_target(target, group, agent, held)
            with steady(OPENING.get(target, f"opening {place}")):
                target_opened = open_target(place, local, suite.ADDRESSES, address, worker, wave=wave)
            opened = held.enter_context(contextlib.closing(target_opened))
        except TargetInvalid as error:
            raise UsageError(str(error), error.remedy) from None
        except AgentError as error:
            raise _agent_error(error) from None
        try:
            if conversations:
                captured = capture.of(opened, "conversation") if capture else opened
                return _converse(captured, context, range(seed, seed + conversations), stated)
            several = functools.partial(open_target, place, "", suite.ADDRESSES, "", worker)
            beside = (lambda number: several(number=number)) if opens_several(place, local, worker) else None
            with steady("running scripts", total=len(selected)) as running:
                count = itertools.count(1)
                say = lambda _: running.update(next(count))  # noqa: E731
                verdicts = suite.run(opened, selected, seed, say, stated, beside, capture)
        except NoFaninDevice as error:
            cause = f"no Fanin device answers at {error}"
            raise ToolError("NO_DEVICE", cause, "start the device, or correct the address") from None
        except AgentError as error:
            raise _agent_error(error) from None
    again = functools.partial(_again, context)
    if json_output:
        print_json(report.as_dict(verdicts, target, seed, again))
    else:
        _print(verdicts, target, again)
    if junit:
        junit.write_bytes(report.junit(verdicts, target, again))  # after the verdicts are printed, in case it fails
    failed = [verdict for verdict in verdicts if verdict.outcome == suite.FAILED]
    if failed:
        names = ", ".join(verdict.script.name for verdict in failed)
        cause = f"{len(failed)} of {len(verdicts)} scripts failed: {names}"
        remedy = "compare what was expected with what was seen, above; --profile says what a device does not implement"
        raise ToolError("NOT_CONFORMING", cause, remedy)


def _refuse_unused(context: typer.Context, target: str, conversations: int) -> None:
    """Refuse options that the run would ignore."""
    at_address = target.startswith(("udp://", "nic://"))
    unused = {"group": not at_address, "local": target in (ENGINE, ENGINE_NIC, RTL)}
    unused |= {"agent": not is_nic(target) or target == ENGINE_NIC}
    unused |= dict.fromkeys(("scripts", "junit", "json_output"), conversations > 0)
    others = options.given(context, *(name for name in context.params if not unused.get(name)))
    if others:
        way = "--conversations" if conversations else f"--target {target}"
        raise UsageError(f"{', '.join(others)} can not be used with {way}", "leave it out")


def _capture(file: Path) -> Capture:
    from fanin_conform.capture import Capture

    try:
        return Capture(file)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}", "give a file that can be written (--pcap)") from None


def _again(context: typer.Context, script: str) -> str:
    """Repeats a script."""
    return options.again(context, [script], *FILES)


def _agent_error(error: AgentError) -> ToolError:
    return ToolError(error.name, error.text, "start the agent, or correct --agent (docs/conformance.md)")


def _converse(device: Target, context: typer.Context, seeds: range, profile: Profile) -> None:
    from fanin_conform import conversation, suite
    from fanin_conform.targets.reference import ReferenceTarget

    with steady("holding conversations", total=len(seeds)) as holding:
        found = conversation.search(device, ReferenceTarget(suite.ADDRESSES), _counted(seeds, holding), profile)
    if found is None:
        print(f"{len(seeds)} conversations: {device.name} answered each as the reference switch does")
        return
    seed = found.conversation.seed
    once = ["--seed", str(seed), "--conversations", "1"]
    print(f"{found}\nagain: {options.again(context, once, *FILES, 'seed', 'conversations')}")
    cause = f"the device and the reference switch differ in the conversation of seed {seed}"
    raise ToolError("NOT_CONFORMING", cause, "compare the last packets, above; the conversation was minimised")


def _counted(seeds: range, holding: Activity) -> Iterator[int]:
    for done, seed in enumerate(seeds):
        holding.update(done)
        yield seed


def _profile(place: str, target: str) -> Profile:
    from fanin_conform.profile import EVERY_NIC, EVERYTHING, load, read, shipped
    from fanin_conform.targets.rtl import RtlMissing, profile
    from fanin_wire.settings import InvalidSetting

    if not place and target == RTL:
        try:
            return read(profile())
        except RtlMissing as lacking:
            raise UsageError(str(lacking), lacking.remedy) from None
    if not place and target not in shipped():
        return EVERY_NIC if is_nic(target) else EVERYTHING
    try:
        return load(place or target)
    except InvalidSetting as error:
        raise UsageError(f"{place}: {error.place}: {error.cause}", error.remedy) from None


def _print(verdicts: list[Verdict], target: str, again: Callable[[str], str]) -> None:
    from fanin_conform import report, suite

    groups = dict.fromkeys(verdict.script.name.partition("/")[0] for verdict in verdicts)
    outcomes = (suite.PASSED, suite.FAILED, suite.NOT_RUN)
    rows = []
    for group in groups:
        own = [verdict for verdict in verdicts if verdict.script.name.startswith(f"{group}/")]
        rows.append([group, *(str(sum(verdict.outcome == each for verdict in own)) for each in outcomes)])
    print_table(f"conformance of {target}", ["group", *outcomes], rows, wrong=suite.FAILED)
    for verdict in verdicts:
        if verdict.outcome == suite.FAILED:
            print_wrong(f"\n{report.failure_text(verdict, again)}")
        elif verdict.outcome == suite.NOT_RUN:
            print_progress(f"not run: {verdict.script.name}: {verdict.text}")
        if verdict.left_out:
            print_progress(f"not run: {verdict.script.name}: {', '.join(verdict.left_out)}")
