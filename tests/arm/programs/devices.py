"""A program for an emulated arm64 machine: the devices of a fabric, which serve the ranks of another machine by RDMA.

`python -m tests.arm.programs.devices up WANTED` brings them up; `down` takes them down. WANTED in JSON: `places`, of
each device its address and verbs device; `token`, a file; `detection`, in seconds. Each prints JSON: `machine`, as the
kernel calls it; `files`, of the device code at the start of the program.
"""

import json
import os
import platform
import sys
from pathlib import Path

from msgspec.structs import replace

from fanin_nic.native.cache import ENVIRONMENT_VARIABLE
from fanin_tools.fabric import lifecycle
from tests.rdma.fabric_over_rxe import say
from tests.rdma.host_over_rxe import PORT, describe


def files_of_code() -> list[str]:
    return sorted(str(path) for path in Path(os.environ[ENVIRONMENT_VARIABLE]).rglob("*") if path.is_file())


def main() -> None:
    what, wanted = sys.argv[1], json.loads(sys.argv[2])
    files = files_of_code()
    fabric = replace(describe(wanted["places"], PORT, Path(wanted["token"])), detection=wanted["detection"])
    if what == "up":
        lifecycle.up(fabric, say)
    else:
        lifecycle.down(fabric.name)
    print(json.dumps({"machine": platform.machine(), "files": files}))


if __name__ == "__main__":
    main()
