"""Communicators that come and go leave nothing in the ranks' processes and on the devices.

400 of them by default; FANIN_TEST_COMMUNICATORS=10000 makes more.
"""

import os

from fanin_tools.stress.faults.resource_leaks import ResourceGrowth, devices_holding_resources
from tests.mpi.conftest import BOUND_S, Fabrics, Mpi
from tests.mpi.report import offloaded

COMMUNICATORS = int(os.environ.get("FANIN_TEST_COMMUNICATORS", "400"))
OF_A_ROUND = 2
PATIENCE_S = 0.05  # for each


def test_communicators_leave_nothing(mpi: Mpi, fabrics: Fabrics) -> None:
    rounds = COMMUNICATORS // OF_A_ROUND
    growth = ResourceGrowth()
    growth.measure(fabrics.running)
    command = [mpi.build("mixed"), "communicators", str(rounds)]
    ended = mpi.succeed(4, command, fabrics.variables(4, "tree"), bound_s=BOUND_S + COMMUNICATORS * PATIENCE_S)
    assert "communicators: 0 wrong" in ended.stdout
    assert offloaded(ended.stderr)["Allreduce"] == (4 * OF_A_ROUND * rounds, 0)
    assert devices_holding_resources(fabrics.running) == []
    assert growth.measure(fabrics.running) == ({}, {})
