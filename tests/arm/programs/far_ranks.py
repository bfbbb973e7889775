"""A program for a virtual machine: ranks that reach their devices, on another machine, by RDMA.

`python -m tests.arm.programs.far_ranks WANTED` makes every collective and verifies each. WANTED in JSON: `places`,
`token` and `detection` as for the devices (`devices.py`); `ranks_at`, the verbs device of this machine; `route`,
`ranks`, `sizes` and `long` as in tests/rdma/host_over_rxe.py. It prints JSON: `machine`, as the kernel calls it;
`calls` and `wrong`.
"""

import json
import platform
import sys
from pathlib import Path

from msgspec.structs import replace

from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.state import FabricState
from tests.rdma.host_over_rxe import PORT, describe, verified


def main() -> None:
    wanted = json.loads(sys.argv[1])
    fabric = replace(describe(wanted["places"], PORT, Path(wanted["token"])), detection=wanted["detection"])
    state = FabricState(fabric.name)  # of devices that run elsewhere: only jobs are described in it
    state.create(fabric)
    try:
        found = verified(Running(fabric, state), wanted | {"interfaces": ["rdma"]})
    finally:
        state.remove()
    print(json.dumps({"machine": platform.machine(), **found}))


if __name__ == "__main__":
    main()
