"""torch's own tests of back-ends on Fanin: python -m tests.torch.suite BACKEND [NAME ...], `make torch-suite`.

They are installed with torch, `torch/testing/_internal/distributed/distributed_test.py`. Many name Gloo, so Fanin's
group replaces Gloo's, under its name (BACKEND `fanin`). BACKEND `gloo` is Gloo itself, to compare with. Each test forks
four processes. It prints a line for each test, and writes all as JSON to the file that FANIN_SUITE_RESULTS names.
"""

import json
import os
import sys
import tempfile
import time
import unittest
from types import SimpleNamespace
from typing import Any

RANKS = 4
SECONDS = "30"  # of one test


class Outcomes(unittest.TestResult):
    """Notes and prints each test's outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self._started = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._started = time.monotonic()

    def _note(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        name, seconds = test.id().rpartition(".")[2], round(time.monotonic() - self._started, 1)
        self.rows.append({"test": name, "outcome": outcome, "seconds": seconds, "why": why})
        print(f"{outcome:8} {name} {seconds} s {why.strip().splitlines()[-1][:160] if why else ''}", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._note(test, "passed")

    def addFailure(self, test: unittest.TestCase, error: Any) -> None:
        super().addFailure(test, error)
        self._note(test, "failed", self._exc_info_to_string(error, test))

    def addError(self, test: unittest.TestCase, error: Any) -> None:
        super().addError(test, error)
        self._note(test, "failed", self._exc_info_to_string(error, test))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)


def take_the_place_of_gloo() -> None:
    """From now on a group of the back-end `gloo` is one of Fanin."""
    import torch.distributed as dist

    from fanin_torch.process_group import FaninProcessGroup

    class InPlaceOfGloo(FaninProcessGroup):
        def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
            super().__init__(store, rank, size, timeout)
            self.options = SimpleNamespace(_timeout=timeout)

    dist.distributed_c10d.ProcessGroupGloo = InPlaceOfGloo


def run(backend: str, names: list[str], folder: str) -> None:
    """The tests with these names, or all. folder: for their files."""
    os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": str(RANKS), "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": SECONDS}
    os.environ["TEMP_DIR"] = folder
    import torch
    from torch.testing._internal.distributed import distributed_test

    if backend == "fanin":
        take_the_place_of_gloo()
        # Gloo's C++ writes the back-end's events for torch's profiler.
        distributed_test.PROFILING_SUPPORTED_BACKENDS = []
        distributed_test.SEND_RECV_PROFILING_SUPPORTED_BACKENDS = []

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    wanted = [name for name in unittest.TestLoader().getTestCaseNames(Suite) if not names or name in names]
    outcomes = Outcomes()
    unittest.TestSuite(map(Suite, wanted)).run(outcomes)
    totals = {kind: sum(row["outcome"] == kind for row in outcomes.rows) for kind in ("passed", "failed", "skipped")}
    print(f"{backend}: " + ", ".join(f"{count} {kind}" for kind, count in totals.items()), flush=True)
    if results := os.environ.get("FANIN_SUITE_RESULTS"):
        with open(results, "w") as file:
            json.dump(outcomes.rows, file, indent=1)


def main() -> None:
    if sys.argv[1:2] not in (["fanin"], ["gloo"]):
        sys.exit("usage: python -m tests.torch.suite fanin|gloo [NAME ...]")
    with tempfile.TemporaryDirectory(prefix="fanin-suite-") as folder:
        run(sys.argv[1], sys.argv[2:], folder)


if __name__ == "__main__":
    main()
