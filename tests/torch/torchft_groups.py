"""torchft's own tests of its reconfigurable groups, with groups of Fanin instead of Gloo's.

    python -m tests.torch.torchft_groups

needs torchft and parameterized, as `make torch-suite` installs them. The tests have three ranks as threads of one
process, which form a group, lose one of them, and form a group anew.
"""

from datetime import timedelta
from typing import Any

import pytest
from torchft import process_group_test as theirs
from torchft.process_group import ProcessGroupWrapper

from fanin_torch.process_group import FaninProcessGroup

LEAST = timedelta(seconds=60)  # to form a group; the tests give Gloo one


class ProcessGroupFanin(ProcessGroupWrapper):
    """A group that torchft makes anew when its members have changed."""

    def __init__(self, timeout: timedelta = LEAST) -> None:
        super().__init__(max(timeout, LEAST))

    def _create_pg(self, store: Any, rank: int, world_size: int) -> FaninProcessGroup:
        return FaninProcessGroup(store, rank, world_size, self._timeout)

    def getBackendName(self) -> str:
        return "torchft-fanin"

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = max(timeout, LEAST)
        if isinstance(self._pg, FaninProcessGroup):
            self._pg.set_timeout(timeout)


class Tests(theirs.NormalGlooMultiPgTest):
    """Fanin's words for a lost rank replace Gloo's."""

    def assertRaisesRegex(self, kind: Any, words: str) -> Any:
        return pytest.raises(kind, match=f"{words}|PEER_LOST|TIMEOUT")


if __name__ == "__main__":
    import unittest

    theirs.ProcessGroupGloo = ProcessGroupFanin
    theirs.NormalGlooMultiPgTest = Tests
    names = ["ProcessGroupTest.test_gloo_apis_0_cpu", "NormalGlooMultiPgTest"]
    unittest.main(theirs, argv=["torchft_groups", "-v", *names])
