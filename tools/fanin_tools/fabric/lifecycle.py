"""Bring a fabric up, query it, take it down. A failure leaves nothing behind."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric import daemons, description, device_query, generate, namespaces, state
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan
from fanin_tools.fabric.processes import ProcessIdentity, terminate
from fanin_tools.fabric.state import FabricState
from fanin_tools.fabric.tree import Tree
from fanin_tools.progress import ProgressCallback

TERMINATE_SECONDS = 5.0


@dataclass(frozen=True)
class Running:
    """A fabric that is up, and the folder of its state. fresh: this call brought it up."""

    fabric: Fabric
    state: FabricState
    fresh: bool = False


def up(
    wanted: Fabric | Plan,
    progress: ProgressCallback,
    start: daemons.Start = daemons.start,
    leaseholder: ProcessIdentity | None = None,
) -> Running:
    """Bring a fabric up and wait until every device answers. Does nothing if it is up already.

    wanted: a description; or a plan, which gets free addresses, or those of a fabric of its name that is up. progress:
    called with a line for the user. leaseholder: the process that leases the fabric; None: it stays up until it is
    taken down.

    Raises ToolError FABRIC_DIFFERS if a different fabric of that name is up or its namespaces exist; FABRIC_INCOMPLETE
    if only some of its devices run, which other programs may use. A failed call leaves nothing behind.
    """
    folder = FabricState(wanted.name)
    with state.locked():
        if folder.exists:
            present = _healthy(folder)
            if present is not None:
                running = _same_or_refuse(folder, present, wanted)
                _add_leaseholder(folder, leaseholder)
                return running
            _refuse_incomplete(folder)
            progress(f"fabric {wanted.name}: cleaning up after a crash")
            remove(folder)
        with _addressed(wanted) as fabric:
            if fabric.netns:
                namespaces.require()
                namespaces.require_absent(fabric)
            try:
                _bring_up(fabric, folder, progress, start, leaseholder)
            except BaseException:
                remove(folder)
                raise
    return Running(fabric, folder, fresh=True)


@contextlib.contextmanager
def _addressed(wanted: Fabric | Plan) -> Iterator[Fabric]:
    """With addresses that are reserved for the time of the block."""
    if isinstance(wanted, Fabric):
        yield wanted
    elif wanted.shape.netns:
        yield wanted.at(generate.NETNS_PREFIX)
    else:
        with namespaces.reserved_addresses(wanted) as fabric:
            yield fabric


def _add_leaseholder(folder: FabricState, leaseholder: ProcessIdentity | None) -> None:
    leaseholders = folder.leaseholders
    if leaseholder is None:
        folder.make_permanent()
    elif leaseholders is not None:
        folder.set_leaseholders([*leaseholders, leaseholder])


def release(name: str, leaseholder: ProcessIdentity) -> bool:
    """End the lease of `leaseholder`. Takes the fabric down if it was the last lease; returns whether it did."""
    folder = FabricState(name)
    with state.locked():
        leaseholders = folder.leaseholders
        if leaseholders is None or leaseholder not in leaseholders:
            return False  # it stays up without leases, or another fabric has its name
        leaseholders.remove(leaseholder)
        left = [other for other in leaseholders if other.alive]
        if left:
            folder.set_leaseholders(left)
        else:
            remove(folder)
    return not left


def clean_up(progress: ProgressCallback) -> None:
    """Take down the fabrics whose leaseholders were all killed."""
    with state.locked():
        for folder in map(FabricState, state.names()):
            leaseholders = folder.leaseholders
            if leaseholders is not None and not any(leaseholder.alive for leaseholder in leaseholders):
                progress(f"fabric {folder.name}: cleaning up after a command that was killed")
                remove(folder)


def _bring_up(
    fabric: Fabric,
    folder: FabricState,
    progress: ProgressCallback,
    start: daemons.Start,
    leaseholder: ProcessIdentity | None,
) -> None:
    folder.create(fabric)
    if leaseholder is not None:
        folder.set_leaseholders([leaseholder])
    if fabric.netns:
        namespaces.build(fabric, progress)
    processes = {}
    for name, process in start(fabric, folder, progress):
        processes[name] = process
        folder.record(processes)
    daemons.wait_until_ready(processes, folder, progress)


def _healthy(folder: FabricState) -> Fabric | None:
    """The description, if all its devices run."""
    fabric, processes = folder.description(), folder.processes()
    if fabric is None:
        return None
    alive = all(device.name in processes and processes[device.name].alive for device in fabric.daemons)
    return fabric if alive else None


def _refuse_incomplete(folder: FabricState) -> None:
    """Raise ToolError FABRIC_INCOMPLETE if only some devices run."""
    fabric, processes = folder.description(), folder.processes()
    names = [name for name, process in processes.items() if process.alive]
    if fabric is None or not names:
        return
    gone = [device.name for device in fabric.daemons if device.name not in names]
    cause = f"of fabric {folder.name} {', '.join(gone)} {'do' if len(gone) > 1 else 'does'} not run, others do"
    remedy = f"fanin fabric restart {gone[0]} --name {folder.name}, or end the others: fanin fabric down"
    raise ToolError("FABRIC_INCOMPLETE", cause, f"{remedy} --name {folder.name}")


def _same_or_refuse(folder: FabricState, present: Fabric, wanted: Fabric | Plan) -> Running:
    asked = wanted.with_addresses_of(present) if isinstance(wanted, Plan) else wanted
    if present != asked:
        cause = f"fabric {wanted.name} is up and differs: {description.describe_differences(present, asked)}"
        raise ToolError("FABRIC_DIFFERS", cause, f"fanin fabric down --name {wanted.name}, or choose another --name")
    return Running(present, folder)


def find(name: str) -> Running | None:
    """If all its devices run."""
    folder = FabricState(name)
    fabric = _healthy(folder) if folder.exists else None
    return Running(fabric, folder) if fabric is not None else None


def restart(name: str, device: str, progress: ProgressCallback) -> Running:
    """End the daemon `device` of the fabric `name`, if it runs, and start it anew. Its jobs are lost; other devices are
    not touched.

    Raises ToolError NO_FABRIC, or DEVICE_LOST if the device does not start, while the others stay up; UsageError
    NO_DEVICE for an unknown daemon.
    """
    folder = FabricState(name)
    with state.locked():
        fabric = folder.required_description()
        names = [daemon.name for daemon in fabric.daemons]
        if device not in names:
            cause = f"fabric {name} has no daemon {device!r}"
            raise UsageError(cause, f"name one of {', '.join(names)}", name="NO_DEVICE")
        present = folder.processes()
        if device in present:
            terminate([present[device]], TERMINATE_SECONDS)
        for started, process in daemons.start(fabric, folder, progress, [device]):
            present[started] = process
            folder.record(present)
        daemons.wait_until_ready({device: present[device]}, folder, progress)
    return Running(fabric, folder)


def down(name: str) -> bool:
    """Take the fabric `name` down, also after a crash. Returns whether anything existed."""
    folder = FabricState(name)
    with state.locked():
        present = folder.exists
        remove(folder)
    return present


def remove(folder: FabricState) -> None:
    """End its processes, delete its namespaces, remove its files. The caller holds `state.locked`."""
    if not folder.exists:
        return
    terminate(list(folder.processes().values()), TERMINATE_SECONDS)
    fabric = folder.description()
    if fabric is not None and fabric.netns:
        namespaces.remove(fabric)
    folder.remove()


def status(name: str) -> dict[str, Any]:
    """Of every device, the top switch first. `answer` is None if a device is gone, silent or plain; `depth` is the
    number of switches above it."""
    folder = FabricState(name)
    fabric = folder.required_description()
    processes = folder.processes()
    rows: list[dict[str, Any]] = []
    for device, depth in Tree(fabric).top_down():
        process = processes.get(device.name)
        pid = process.pid if process and process.alive else None
        keys = ("name", "kind", "address", "host", "offload")
        row = {key: getattr(device, key) for key in keys} | {"depth": depth}
        rows.append(row | {"pid": pid, "answer": _answer(folder, device.name) if device.offload else None})
    return {"name": name, "mtu": fabric.mtu, "netns": fabric.netns, "devices": rows}


def _answer(folder: FabricState, device: str) -> dict[str, Any] | None:
    try:
        return device_query.query_status(folder.socket(device))
    except ToolError:
        return None
