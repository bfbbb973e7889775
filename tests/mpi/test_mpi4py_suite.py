"""mpi4py's own collective tests under the shim: an independent judge of meaning.

A sample by default; FANIN_TEST_MPI4PY=all (`make mpi4py-suite`) runs all of them with both MPIs at 2, 3 and 4 ranks, by
tree, ring and local.
"""

import os
import re

import pytest

from tests.mpi.conftest import FAMILIES, PEERS, Fabrics, Mpi
from tests.mpi.report import eligible, offloaded

TESTS = PEERS / "mpi4py/test"
ROUTES = ("local", "tree", "ring")
ALL = os.environ.get("FANIN_TEST_MPI4PY") == "all"
MODULES = ("buf", "vec", "nb_buf", "nb_vec", "pr_buf", "pr_vec", "obj")
SAMPLE = {  # all modules but pr_buf, which makes thousands of jobs; on MPI_COMM_WORLD, not on a duplicate
    ("mpich", 3, "tree"): ("buf", "nb_buf", "obj"),
    ("openmpi", 2, "ring"): ("vec", "pr_vec"),
    ("openmpi", 3, "local"): ("nb_buf", "nb_vec"),
}
LEAST = 0.95  # of the eligible calls
BOUND_S = 1800.0  # for all modules of four ranks; a quiet machine needs a fifth of it
RAN = re.compile(r"^Ran (\d+) tests in", re.M)


EVERYTHING = {(family, ranks, route): MODULES for family in FAMILIES for ranks in (2, 3, 4) for route in ROUTES}
CHOSEN = EVERYTHING if ALL else SAMPLE


@pytest.mark.parametrize(("mpi", "ranks", "route"), sorted(CHOSEN), indirect=["mpi"])
def test_collectives(mpi: Mpi, fabrics: Fabrics, ranks: int, route: str) -> None:
    chosen = CHOSEN[mpi.family, ranks, route]
    if not (TESTS / "main.py").exists():
        pytest.skip(f"mpi4py's own tests in {TESTS} (make peers)")
    names = f"test_cco_({'|'.join(chosen)})[.]py$"
    command = mpi.python(TESTS / "main.py", "-q", "-i", names, *([] if ALL else ["-k", "World."]))
    ended = mpi.succeed(ranks, command, fabrics.variables(ranks, route, PYTHONPATH=""), bound_s=BOUND_S)
    assert len(RAN.findall(ended.stderr)) == ranks
    done, able = sum(offload for offload, _ in offloaded(ended.stderr).values()), eligible(ended.stderr)
    ran = int(RAN.findall(ended.stderr)[0])
    print(f"{mpi.family}, {ranks} ranks, {route}: {ran} tests, {done} of {able} eligible calls offloaded")
    assert done >= LEAST * able > 0, ended.stderr
