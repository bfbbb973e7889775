"""A member of a training by torchft: `torchft_worker ADDRESS LIGHTHOUSE MEMBER STEPS FOLDER [FAULT_STEP]`. It trains
the network of the trainees by Gloo, and kills itself in FAULT_STEP.

ADDRESS is that of its node. Spares compute as well, and add zeros. In FOLDER all wait for each other before the first
step: a late member would have to get the state of the others.
"""

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed import TCPStore
from torchft import Manager, ProcessGroupGloo
from torchft.manager import WorldSizeMode

from tests.training.replacement.scenes import MEASURED_S, MEMBERS, WORKERS
from tests.training.replacement.torch_models import Network
from tests.waiting import BOUND_S


def wait_for_all(folder: Path, member: int) -> None:
    """Wait until all members have come here."""
    (folder / f"ready-{member}").touch()
    while len(list(folder.glob("ready-*"))) < MEMBERS:
        time.sleep(0.01)


def main(address: str, lighthouse: str, member: int, steps: int, folder: Path, fault_step: int) -> None:
    network = Network(lambda: None)
    parts = network.parts()

    def state_dict() -> dict[str, Any]:
        return {name: part.state_dict() for name, part in parts.items()}

    def load_state_dict(state: dict[str, Any]) -> None:
        for name, part in parts.items():
            part.load_state_dict(state[name])

    limit = timedelta(seconds=MEASURED_S)
    store = TCPStore(address, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        ProcessGroupGloo(limit),
        load_state_dict,
        state_dict,
        min_replica_size=WORKERS,
        timeout=limit,
        quorum_timeout=timedelta(seconds=BOUND_S),
        rank=0,
        world_size=1,
        world_size_mode=WorldSizeMode.FIXED_WITH_SPARES,
        store_addr=address,
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"member{member}",
        hostname=address,
        init_sync=False,  # all have the same seed
    )
    wait_for_all(folder, member)
    while manager.current_step() < steps:
        number, random = manager.current_step(), torch.get_rng_state()
        manager.start_quorum()
        position = manager.participating_rank()
        gradient = torch.from_numpy(network.gradient(np.random.default_rng((position or 0, number))))
        if number == fault_step:
            print(f"fault {time.monotonic():.3f}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        manager.allreduce(gradient).wait()
        if not manager.should_commit():
            torch.set_rng_state(random)
            continue
        network.update(gradient.numpy()[:-1])
        if position is not None:
            print(f"loss {number} {float(gradient[-1]).hex()} {time.monotonic():.3f}", flush=True)
    manager.shutdown(wait=False)


if __name__ == "__main__":
    address, lighthouse, member, steps, folder, *fault_step = sys.argv[1:]
    main(address, lighthouse, int(member), int(steps), Path(folder), int(*fault_step or ["-1"]))
