"""Which tests run on emulated Arm, and which qemu-user can not run.

An emulated Python is ten times slower, and device code that only tests call has to be compiled there. So `make arm`
runs a sample of each folder; with FANIN_TEST_ARM=all, the folders as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

ALL = os.environ.get("FANIN_TEST_ARM") == "all"


class Part(NamedTuple):
    """Tests of one folder. sample: what is run by default; whole: with FANIN_TEST_ARM=all."""

    name: str
    sample: Sequence[str]
    whole: Sequence[str]

    @property
    def chosen(self) -> Sequence[str]:
        """The files of this run."""
        return self.whole if ALL else self.sample


PARTS = (
    Part("wire", ("tests/wire/test_codec.py", "tests/wire/test_golden.py", "tests/wire/test_icrc.py"), ("tests/wire",)),
    Part(
        "engine",
        ("tests/engine/test_vectors.py", "tests/engine/test_kernels.py", "tests/engine/test_recovery.py"),
        ("tests/engine",),
    ),
    Part("driver", ("tests/host/test_core.py", "tests/host/test_rings.py"), ("tests/host",)),
    Part("port", ("tests/port/test_icrc.py", "tests/port/test_round_trip.py"), ("tests/port",)),
    Part("lanes", ("tests/lanes/test_split.py", "tests/lanes/test_merge.py"), ("tests/lanes",)),
)

LEFT_OUT: dict[str, str] = {}
"""Tests by their names, or the start of them, and why an emulated program can not run them."""
