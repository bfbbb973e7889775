"""The steps of `make arm`. Each reports its result in a few words, or raises StepFailed."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fanin_image.wheels import LIBRARIES
from fanin_nic.native.cache import ENVIRONMENT_VARIABLE
from fanin_nic.native.target import TARGETS
from tests.deploy.manager import listening

from . import entries, image, selection
from .machine import Machine, StepFailed, last_lines, processor_seconds, stop
from .scene import scene

TARGET = "arm64"
SECONDS = 3600.0  # a bound for one program; an idle machine needs a twentieth
SHOWN = 500  # characters of what a program said
SHAPE = ("--nodes", "2", "--ranks-per-node", "2", "--lanes", "1")
DEMO = ("--bytes", "64K", "--sections", "allreduce,collectives")


class Step(NamedTuple):
    """A step, by its name on the command line."""

    name: str
    run: Callable[[Machine], str]


def library(machine: Machine) -> str:
    """The driver, the MPI shim, the verbs library and the binding, by the cross compiler."""
    image.install_fanin(machine.image, machine.fanin)
    return f"{', '.join(LIBRARIES)}: compiled here, for aarch64"


def device_code(machine: Machine) -> str:
    """The device code, by the module for owners of cards."""
    command = [sys.executable, "-m", "fanin_nic.daemon.cross", "--target", TARGET, str(machine.code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise StepFailed(done.stderr.strip() or f"it ended with {done.returncode}")
    return done.stdout.strip().splitlines()[-1] + ", compiled here"


def files_of_code(machine: Machine) -> list[Path]:
    return sorted(path for path in machine.code.rglob("*") if path.is_file())


def shown_in(output: str, beginning: str) -> dict[str, Any]:
    """The JSON with this start in the output of a program."""
    at = output.find(beginning)
    try:
        return json.JSONDecoder().raw_decode(output, max(at, 0))[0] if at >= 0 else {}
    except ValueError as error:
        raise StepFailed(f"{error}: {output[at : at + 200]!r}") from None


def member(shown: dict[str, Any], name: str) -> Any:
    """A member of a program's JSON."""
    if name not in shown:
        raise StepFailed(f"the program has shown no {name}: {json.dumps(shown)[:200]}")
    return shown[name]


def nothing_compiled(machine: Machine) -> str:
    """A device compiles nothing when it loads its code, and that is counted."""
    ended = machine.run("loaded", [machine.python, "-m", "tests.arm.programs.loaded"], SECONDS)
    shown = shown_in(ended.output, "{")
    compiled, counted, cpu = (member(shown, name) for name in ("compiled", "counted", "cpu"))
    if compiled or counted != 1 or cpu != TARGETS[TARGET].cpu:
        raise StepFailed(str(shown)[:SHOWN])
    return f"0 functions compiled, {len(files_of_code(machine))} files before and after, code for {cpu}"


def ready(machine: Machine) -> str:
    """From the start of a device until it reports that it is ready, emulated and on this processor."""
    emulated = _until_ready(machine, "ready", emulated=True)
    _until_ready(machine, "ready-first", emulated=False)  # writes the bytecode, and the device code if that is missing
    return (
        f"{emulated} emulated; the same device on this processor: {_until_ready(machine, 'ready-here', emulated=False)}"
    )


def _until_ready(machine: Machine, name: str, *, emulated: bool) -> str:
    """Start and end a device. Returns the time until it was ready."""
    notices, control = (machine.work / f"{name}{ending}" for ending in (".notify", ".socket"))
    log = machine.log(name)
    folder = Path("/usr/bin") if emulated else Path(sys.executable).parent
    options = ["--name", name, "--address", "127.0.0.1", "--socket", str(control)]
    command = ["/usr/bin/env", f"NOTIFY_SOCKET={notices}", str(folder / "fanin-nic"), *options]
    variables = {} if emulated else {"PYTHONDONTWRITEBYTECODE": ""}
    with listening(str(notices)) as manager, log.open("wb") as output:
        begin = time.monotonic()
        device = machine.start(command, output, emulated=emulated, variables=variables)
        try:
            manager.wait_for("READY=1")
            return f"{time.monotonic() - begin:.1f} s ({processor_seconds(device):.1f} s of processor)"
        except TimeoutError:
            raise StepFailed(f"the device is not ready; {last_lines(log)}") from None
        finally:
            stop(device)


def tests_of(part: selection.Part) -> Callable[[Machine], str]:
    """The step that runs the tests of a folder."""

    def run(machine: Machine) -> str:
        options = ["-p", "no:xdist", "-p", "no:faulthandler", *part.chosen]  # which would be in the way for minutes
        options += [word for name in selection.LEFT_OUT for word in ("--deselect", name)]
        command = [machine.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        for folder in machine.code.iterdir():
            if not (machine.code_of_tests / folder.name).exists():
                shutil.copytree(folder, machine.code_of_tests / folder.name)
        if part.calls_device_code:
            entries.compile_for_tests(TARGET, options, machine.code_of_tests, machine.work / f"entries-{part.name}")
        variables = {ENVIRONMENT_VARIABLE: str(machine.code_of_tests)}
        output = machine.run(f"tests-{part.name}", command, SECONDS, variables=variables).output
        return f"{output.strip().splitlines()[-1]} ({', '.join(part.chosen)})"

    return run


def demo(machine: Machine) -> str:
    """`fanin demo`, wholly on arm64: devices, ranks, the driver and numpy."""
    # Not leased: qemu-user shows a process a start time that others do not see, so the lease would look orphaned.
    shape = " ".join(("--name", "demo", *SHAPE))
    script = f"fanin fabric up {shape} && fanin demo --json {shape} {' '.join(DEMO)} >&2"
    ended = machine.run("demo", ["/bin/bash", "-c", script], SECONDS)
    return _judged(shown_in(ended.output, "{\n"))


def host_ranks(machine: Machine) -> str:
    """Ranks of this processor on devices for arm64, all processes of one kernel: they share sockets of the file system,
    rings and the memory of ranks."""
    wanted = {"root": machine.root.folder, "environment": machine.environment(), "options": SHAPE, "demo": DEMO}
    command = [sys.executable, "-m", "tests.arm.programs.host_ranks", json.dumps(wanted)]
    ended = machine.run("host-ranks", command, SECONDS, emulated=False)
    shown = shown_in(ended.output, '{"devices"')
    devices = member(shown, "devices")
    if set(devices.values()) != {machine.image.emulator.name}:
        raise StepFailed(f"devices are executed by {devices}")
    return f"{len(devices)} emulated devices, ranks of this processor: {_judged(member(shown, 'demo'))}"


def _judged(shown: dict[str, Any]) -> str:
    """The verdict of a demonstration."""
    if not member(shown, "verified"):
        raise StepFailed(f"not verified: {json.dumps(shown)}")
    routes, rows = member(shown, "routes"), member(shown, "collectives")
    if not routes or not rows:
        raise StepFailed("the demonstration has shown nothing")
    return f"{len(routes)} allreduces and {len(rows)} collectives verified"


def on_shipped_code(step: Callable[[Machine], str]) -> Callable[[Machine], str]:
    """A step whose programs compile nothing: the folder of the device code stays unchanged."""

    def run(machine: Machine) -> str:
        before = files_of_code(machine)
        found = step(machine)
        if added := set(files_of_code(machine)) - set(before):
            raise StepFailed(f"device code was compiled: {', '.join(sorted(path.name for path in added))}")
        return found

    return run


STEPS: Sequence[Step] = (
    Step("library", library),
    Step("code", device_code),
    Step("compiled", on_shipped_code(nothing_compiled)),
    Step("ready", on_shipped_code(ready)),
    *(Step(part.name, tests_of(part)) for part in selection.PARTS),
    Step("demo", on_shipped_code(demo)),
    Step("ranks", on_shipped_code(host_ranks)),
    Step("scene", on_shipped_code(scene)),
)
