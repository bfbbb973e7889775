"""One rank of a test: python -m tests.torch.rank PROGRAM, with the environment of torchrun.

It runs a function of a module of this folder, `MODULE.FUNCTION`, in a group of the back-end `fanin`. The function makes
what it needs beside, such as a group of Gloo. A wrong result is a traceback, and the exit code says so.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys

import torch
import torch.distributed as dist

from tests.torch.launch import BOUND_S


def main() -> None:
    faulthandler.dump_traceback_later(float(os.environ.get("FANIN_TEST_SECONDS", BOUND_S - 10)), exit=True)
    torch.set_num_threads(1)  # the ranks share the cores
    module, _, function = sys.argv[1].partition(".")
    dist.init_process_group("fanin")  # known by its name, without an import
    getattr(importlib.import_module(f"tests.torch.{module}"), function)()
    dist.destroy_process_group()
    print("ok", flush=True)


if __name__ == "__main__":
    main()
