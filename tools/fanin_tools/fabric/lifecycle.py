"""Bring a fabric up, look at it, take it down. Whatever fails in between, nothing is left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanin_tools import control
from fanin_tools.errors import ToolError
from fanin_tools.fabric import devices, generate, namespaces, state
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.processes import terminate
from fanin_tools.fabric.state import FabricState

TERMINATE_SECONDS = 5.0


@dataclass(frozen=True)
class Running:
    """A fabric that is up, and where its devices listen. fresh: whether this call brought it up."""

    fabric: Fabric
    state: FabricState
    fresh: bool = False


def up(wanted: Fabric, say: devices.Say, command_of: devices.CommandOf = devices.daemon_command) -> Running:
    """Bring `wanted` up and wait until every device answers; does nothing if it is up already.

    Raises ToolError FABRIC_DIFFERS if another fabric of that name is up. On any failure nothing is left behind.
    """
    folder = FabricState(wanted.name)
    with state.locked():
        if folder.exists:
            if _healthy(folder):
                return _same_or_refuse(folder, wanted)
            say(f"fabric {wanted.name}: cleaning up after a crash")
            _clean(folder)
        try:
            _bring_up(wanted, folder, say, command_of)
        except BaseException:
            _clean(folder)
            raise
    return Running(wanted, folder, fresh=True)


def _bring_up(fabric: Fabric, folder: FabricState, say: devices.Say, command_of: devices.CommandOf) -> None:
    if fabric.netns:
        namespaces.require()
    folder.create(fabric)
    if fabric.netns:
        namespaces.build(fabric)
    if command_of is devices.daemon_command:
        devices.compile_device_code(say)
    processes = {}
    for device in fabric.devices:
        processes[device.name] = devices.start(device, fabric, folder, command_of)
        folder.record(processes)
    devices.wait_until_ready(processes, folder)


def _healthy(folder: FabricState) -> bool:
    """Whether every device of the description runs."""
    fabric, processes = folder.description(), folder.processes()
    if fabric is None:
        return False
    return all(device.name in processes and processes[device.name].alive for device in fabric.devices)


def _same_or_refuse(folder: FabricState, wanted: Fabric) -> Running:
    present = folder.description()
    if present != wanted:
        cause = f"fabric {wanted.name} is up with another description"
        raise ToolError("FABRIC_DIFFERS", cause, f"fanin fabric down --name {wanted.name}, or choose another --name")
    return Running(wanted, folder)


def generated(name: str, shape: generate.Shape) -> Fabric:
    """The description that `shape` makes; with the addresses of the fabric `name` where that is up."""
    present = FabricState(name).description()
    prefix = None
    if present is not None and present.netns == shape.netns:
        prefix = present.nics[0].address.rpartition(".")[0]
    return generate.make(name, shape, prefix)


def find(name: str) -> Running | None:
    """The fabric `name` if it is up and whole."""
    folder = FabricState(name)
    fabric = folder.description() if _healthy(folder) else None
    return Running(fabric, folder) if fabric is not None else None


def down(name: str) -> bool:
    """Take the fabric `name` down, whatever state it is in; False if there was nothing."""
    folder = FabricState(name)
    with state.locked():
        present = folder.exists
        _clean(folder)
    return present


def _clean(folder: FabricState) -> None:
    """End its processes, delete its namespaces, remove its files."""
    if not folder.exists:
        return
    terminate(list(folder.processes().values()), TERMINATE_SECONDS)
    fabric = folder.description()
    if fabric is not None and fabric.netns:
        namespaces.remove(fabric)
    folder.remove()


def status(name: str) -> dict[str, Any]:
    """What every device of fabric `name` says of itself; `answer` is None for one that is gone or silent."""
    folder = FabricState(name)
    fabric = folder.description()
    if fabric is None:
        raise ToolError("NO_FABRIC", f"there is no fabric {name}", "fanin fabric up")
    processes = folder.processes()
    rows: list[dict[str, Any]] = []
    for device in fabric.devices:
        process = processes.get(device.name)
        pid = process.pid if process and process.alive else None
        row = {"name": device.name, "kind": device.kind, "address": device.address, "host": device.host}
        rows.append(row | {"pid": pid, "answer": _answer(folder, device.name)})
    return {"name": name, "mtu": fabric.mtu, "netns": fabric.netns, "devices": rows}


def _answer(folder: FabricState, device: str) -> dict[str, Any] | None:
    try:
        return control.query(folder.socket(device))
    except ToolError:
        return None
