"""Processes that each report one result: forked, so that they have the data of their parent."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any

from fanin_tools.fabric.processes import end_with_caller


def start_each(parts: Iterable[Callable[[], dict[str, Any]]]) -> list[int]:
    """Run each part in a process, which prints its result as a line of JSON. Returns their ids.

    They end with their parent, also if it is killed.
    """
    children = []
    for part in parts:
        end_as_well = end_with_caller(signal.SIGKILL)
        child = os.fork()
        if not child:
            end_as_well()
            sys.stdout.write(json.dumps(part()) + "\n")
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    return children


def wait_for(children: Iterable[int]) -> None:
    for child in children:
        os.waitpid(child, 0)
