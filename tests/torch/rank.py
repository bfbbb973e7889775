"""One rank of a test, in a group of the back-end `fanin`.

A program is MODULE.FUNCTION, a function of a module of this folder. It makes what else it needs, such as a group of
Gloo. A wrong result is a traceback and an exit code.

A test forks its ranks from a process that has loaded this module, and torch with it (`launch.py`). Under torchrun the
module is a program: python -m tests.torch.rank PROGRAM.
"""

import atexit
import faulthandler
import importlib
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch._dynamo  # else torch.optim loads it in every rank, for seconds
import torch.distributed as dist

import fanin_torch.process_group  # noqa: F401 - loads the driver
from tests.waiting import TORCH_BOUND_S

SECONDS = TORCH_BOUND_S - 10  # then a rank shows where it stands, and ends

test: Connection | None = None  # to the test that has started this rank


def run(program: str) -> None:
    """Run a program as one rank, by torchrun's environment."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    torch.set_num_threads(1)  # the ranks share the cores
    if os.environ["RANK"] in os.environ.get("FANIN_TEST_NIC_RANKS", ""):
        os.environ["FANIN_TORCH_MESSAGES"] = "nic"
    module, _, function = program.partition(".")
    dist.init_process_group(os.environ.get("FANIN_TEST_BACKEND", "fanin"))  # known by its name, without an import
    getattr(importlib.import_module(f"tests.torch.{module}"), function)()
    dist.destroy_process_group()
    print("ok", flush=True)


def run_forked(program: str, environment: dict[str, str], output: Path, connection: Connection) -> None:
    """In a forked process. output: where standard output and error go, with the endings .out and .err."""
    global test
    test = connection
    for stream, ending in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(output.with_suffix(ending), os.O_WRONLY | os.O_CREAT, 0o600), stream)
    os.environ.clear()
    os.environ.update(environment)
    try:
        run(program)
    finally:
        atexit._run_exitfuncs()  # multiprocessing does not, and the driver's are under test


def tell_test(text: str) -> None:
    assert test is not None
    test.send(text)


def await_test() -> None:
    """Until the test says something."""
    assert test is not None
    test.recv()


if __name__ == "__main__":
    run(sys.argv[1])
