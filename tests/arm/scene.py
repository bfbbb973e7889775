"""The whole scene: a virtual x86-64 machine as host, an emulated arm64 machine as DPU, each with rxe, and a link.

Ranks run on the host, their devices on the DPU, connected only by RDMA. This machine has compiled the device code for
arm64.
"""

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fanin_image.packages import NotPossible
from tests.rdma.machine import image as host_image
from tests.rdma.machine import programs
from tests.rdma.machine.guest import CallFailed, Guest, GuestFailed, running
from tests.rdma.machine.packages import PackagesMissing

from . import emulated
from .image import Say
from .machine import Machine, StepFailed

SECONDS = 3600.0  # a bound for one program; an idle machine needs a twentieth
VERBS_DEVICE = "rxe0"
TOKEN = "/run/token"
# The DPU's devices. Its interface has the first address from the start.
PLACES = {"nic1": ("10.0.0.2", "rxe0"), "nic2": ("10.0.0.3", "rxe0"), "leaf": ("10.0.0.4", "rxe0")}
ROUTES = {"local": [3], "tree": [2, 2], "ring": [2, 2]}  # and the ranks on each node
SIZES = [0, 1, 3_001, 65_536]  # elements
DETECTION = 60.0  # s: an emulated process may wait for a processor so long that others take it for dead
PING_PONG = ["/usr/bin/ibv_rc_pingpong", "-d", VERBS_DEVICE, "-g", "1", "-n", "100"]  # 1: the GID of the first address
PING_PONG_PORT, PING_PONG_SECONDS = 18515, 300
ROOT_SCRIPT = Path(__file__).parent / "guest/root.sh"
LAST_OF_LOGS = f"tail -n 5 {programs.FILES}/run/fanin/*/*.log"
SHOWN = ("/dev", "/proc", "/run", "/sys")  # beside the folders that namespaces show


@dataclass
class Side:
    """A guest, and how a program of Fanin runs there: environment, root file system, interpreter."""

    guest: Guest
    environment: dict[str, str]
    root: str
    python: str

    def shell(self, script: str, *arguments: str) -> str:
        """The output of a script of the guest's own shell."""
        return str(self.guest.call("run", command=["busybox", "sh", "-c", script, "script", *arguments]))

    def run(self, module: str, *arguments: str) -> dict[str, Any]:
        """The last JSON that a module prints."""
        where = {"root": self.root, "python": self.python}
        printed = programs.run_module(self.guest, self.environment, module, arguments, SECONDS, **where)
        return dict(json.loads(printed.splitlines()[-1]))


def host_side(guest: Guest) -> Side:
    variables = programs.environment() | {"FANIN_TOKEN_FILE": TOKEN}
    return Side(guest, variables, programs.FILES, sys.executable)


def dpu_side(guest: Guest, machine: Machine) -> Side:
    """With the programs for arm64, in their root file system."""
    variables = machine.environment() | {"LD_LIBRARY_PATH": programs.LIBRARIES, "RDMAV_DRIVERS": "rxe"}
    return Side(guest, variables | {"XDG_RUNTIME_DIR": "/run"}, programs.FILES + machine.root.folder, machine.python)


@contextlib.contextmanager
def sides(machine: Machine, say: Say) -> Iterator[tuple[Side, Side]]:
    """Host and DPU, ready for programs. Raises NotPossible."""
    try:
        with (
            running(host_image.image(), with_files=True) as first,
            running(emulated.image(say), peer=first, with_files=True) as second,
        ):
            host, dpu = host_side(first), dpu_side(second, machine)
            token = secrets.token_hex(32)
            for side in (host, dpu):
                programs.install_verbs(side.guest)
                side.shell(f"umask 077; echo {token} > {programs.FILES}{TOKEN}")
            dpu.shell(ROOT_SCRIPT.read_text(), programs.FILES, dpu.root, *SHOWN, *machine.root.shared)
            for address, _ in list(PLACES.values())[1:]:
                dpu.guest.call("run", command=["ip", "address", "add", f"{address}/24", "dev", "eth0"])
            yield host, dpu
    except PackagesMissing as missing:
        raise NotPossible(str(missing)) from None


def ping_pong(host: Side, dpu: Side) -> None:
    """Messages of a program of rdma-core, independent of Fanin."""
    server = host.guest.call("start", command=PING_PONG, port=PING_PONG_PORT, within=PING_PONG_SECONDS)
    dpu.guest.call("run", command=[*PING_PONG, host.guest.address], seconds=PING_PONG_SECONDS, within=SECONDS)
    ended = host.guest.call("finish", program=server, seconds=PING_PONG_SECONDS, within=SECONDS)
    if ended["status"]:
        raise StepFailed(f"ibv_rc_pingpong has ended with {ended['status']}: {ended['output']}")


def collectives(host: Side, dpu: Side) -> str:
    """Every collective on every route, by ranks of the host on devices of the DPU. Raises StepFailed."""
    wanted = {"places": PLACES, "ranks_at": VERBS_DEVICE, "token": TOKEN, "detection": DETECTION}
    begun = dpu.run("tests.arm.programs.devices", "up", json.dumps(wanted))
    found = {}
    for route, ranks in ROUTES.items():
        asked = json.dumps(wanted | {"route": route, "ranks": ranks, "sizes": SIZES, "long": 0})
        try:
            found[route] = host.run("tests.arm.programs.far_ranks", asked)
        except CallFailed as failure:
            raise StepFailed(f"{route}: {failure}; the devices say: {dpu.shell(LAST_OF_LOGS)}") from None
    return judged(begun, found, dpu.run("tests.arm.programs.devices", "down", json.dumps(wanted)))


def judged(begun: dict[str, Any], found: dict[str, dict[str, Any]], ended: dict[str, Any]) -> str:
    """The verdict. begun, ended: output of `devices`; found: output of `far_ranks`, by route."""
    if wrong := [each for said in found.values() for each in said["wrong"]]:
        raise StepFailed("\n".join(wrong))
    if compiled := sorted(set(ended["files"]) - set(begun["files"])):
        raise StepFailed(f"device code was compiled: {', '.join(compiled)}")
    ranks, devices = {said["machine"] for said in found.values()}, ended["machine"]
    if (ranks, devices) != ({"x86_64"}, "aarch64"):
        raise StepFailed(f"ranks ran on {', '.join(ranks)}, devices on {devices}")
    counted = ", ".join(f"{said['calls']} by {route}" for route, said in found.items())
    return f"ibv_rc_pingpong passes; calls verified: {counted}; nothing compiled on Arm"


def scene(machine: Machine, say: Say = print) -> str:
    try:
        with sides(machine, say) as (host, dpu):
            ping_pong(host, dpu)
            return collectives(host, dpu)
    except (CallFailed, GuestFailed) as failure:
        raise StepFailed(str(failure)) from None
