"""A program of this machine in the namespace: devices for arm64, and ranks of this machine on them.

`python -m tests.arm.programs.host_ranks WANTED`, WANTED in JSON: `root`, the file system for arm64; `environment`, of
its programs; `options`, of the fabric; `demo`, of the demonstration. `fanin fabric up` for arm64 starts the devices;
`fanin demo` of this machine starts the ranks. One line of output is JSON: `devices`, what executes the process of each
device; `demo`, the output of `fanin demo --json`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fanin_tools.fabric.state import FabricState
from tests.arm import namespace

NAME = "arm"


def main() -> None:
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    os.environ["XDG_RUNTIME_DIR"] = wanted["environment"]["XDG_RUNTIME_DIR"]

    def arm(*arguments: str) -> None:
        subprocess.run(
            ["/usr/bin/fanin", *arguments],
            env=wanted["environment"],
            preexec_fn=lambda: namespace.enter(wanted["root"]),
            check=True,
        )

    shape = ["--name", NAME, *wanted["options"]]
    arm("fabric", "up", *shape)
    try:
        processes = FabricState(NAME).processes()
        devices = {name: Path(f"/proc/{each.pid}/exe").readlink().name for name, each in processes.items()}
        demo = [str(Path(sys.executable).with_name("fanin")), "demo", "--json", *shape, *wanted["demo"]]
        shown = subprocess.run(demo, stdout=subprocess.PIPE, text=True)
        print(json.dumps({"devices": devices, "demo": json.loads(shown.stdout)}))
    finally:
        arm("fabric", "down", "--name", NAME)
    sys.exit(shown.returncode)


if __name__ == "__main__":
    main()
