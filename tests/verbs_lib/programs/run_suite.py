"""Runs the tests of rdma-core in a folder on a device, and prints as JSON how each ended.

Arguments: the folder, then those of rdma-core's run_tests.py. Needs the system's Python, which has pyverbs.
"""

import json
import sys
import unittest

OWN = ("test_mlx5_", "test_efa", "test_cuda")  # of other devices
folder, arguments = sys.argv[1], sys.argv[2:]
sys.path[:0] = [folder, f"{folder}/tests"]
sys.argv[1:] = arguments

from args_parser import parser  # noqa: E402

parser.parse_args()
import tests  # noqa: E402

loader, suite = unittest.TestLoader(), unittest.TestSuite()
for module in tests.__test_modules__:
    if not module.__name__.rpartition(".")[2].startswith(OWN):
        suite.addTests(loader.loadTestsFromModule(module))


class Kept(unittest.TestResult):
    """Remembers passed tests, too."""

    passed = ()

    def addSuccess(self, test):
        self.passed = (*self.passed, test.id())


result = Kept()
suite.run(result)
print(
    json.dumps(
        {
            "passed": sorted(result.passed),
            "failed": {test.id(): text for test, text in result.failures + result.errors},
            "skipped": {test.id(): reason for test, reason in result.skipped},
        }
    )
)
