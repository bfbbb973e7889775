"""Verbs devices with RAW_PACKET queue pairs, and fabrics in namespaces that have them."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from fanin_nic.port.verbs import library
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.description import Device, Fabric
from fanin_wire.settings import RAW_SUFFIX, VERBS_PREFIX

HEADER = Path("/usr/include/infiniband/verbs.h")
SOURCE = Path(__file__).with_name("device.c")
WARNINGS = ("-Wall", "-Wextra", "-Werror")

Result = TypeVar("Result")


class NoLibrary(Exception):
    """The library can not be built. The message says what is missing."""


def build_library(folder: Path) -> Path:
    """`device.c` in the place of libibverbs, for LD_LIBRARY_PATH. Raises NoLibrary."""
    if not HEADER.exists() or shutil.which("cc") is None:
        raise NoLibrary(f"{HEADER} (Debian: libibverbs-dev), or a C compiler")
    built = folder / library.NAME
    subprocess.run(["cc", "-shared", "-fPIC", *WARNINGS, "-O1", "-o", built, SOURCE], check=True)
    return built


def over_frames(fabric: Fabric, over_sockets: Collection[str] = ()) -> Fabric:
    """The same fabric with queue pairs of its interfaces, but for some devices. It has namespaces and one switch."""

    def port(device: Device) -> str:
        name = "eth0" if device.kind == "nic" else namespaces.BRIDGE
        return "udp" if device.name in over_sockets else f"{VERBS_PREFIX}raw-{name}{RAW_SUFFIX}"

    return replace(fabric, devices=tuple(replace(device, port=port(device)) for device in fabric.devices))


def in_namespace(name: str, act: Callable[[], Result]) -> Result:
    """Call `act` in a namespace. Its sockets and threads stay there."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            namespaces.enter(name)
            outcome.append(act())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
