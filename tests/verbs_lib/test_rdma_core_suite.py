"""rdma-core's own Python tests, with Debian's pyverbs, on a device: passed, skipped by the suite, or explained here."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from tests.verbs_lib.conftest import PROGRAMS, Programs

PACKAGED = Path("/usr/share/doc/rdma-core/tests")  # some of the files are compressed
PYTHON = "/usr/bin/python3"
MIN_PASSED = 70
EXPLAINED = {  # a test that fails, or may fail: why
    "test_cq.CQTest.test_resize_cq": "expects that requests are complete before the device had a turn"
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The folder of the tests, decompressed."""
    if subprocess.run([PYTHON, "-c", "import pyverbs.device"], capture_output=True).returncode:
        pytest.skip("pyverbs (Debian: python3-pyverbs)")
    if not PACKAGED.exists():
        pytest.skip(f"{PACKAGED} (Debian: python3-pyverbs, installed with its documentation)")
    target = tmp_path / "tests"
    target.mkdir()
    for file in PACKAGED.iterdir():
        if file.suffix == ".gz":
            (target / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.suffix == ".py":
            (target / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_suite_of_rdma_core(programs: Programs, suite: Path) -> None:
    said = programs.run(PYTHON, PROGRAMS / "run_suite.py", suite, "--dev", "fanin0", "--gid", "0", cwd=suite)
    assert said.returncode == 0, said.stderr
    ended = json.loads(said.stdout.splitlines()[-1])
    unexplained = {name: text for name, text in ended["failed"].items() if short(name) not in EXPLAINED}
    assert not unexplained, "\n".join(unexplained.values())
    assert len(ended["passed"]) >= MIN_PASSED, ended
    assert all(ended["skipped"].values())


def short(name: str) -> str:
    """Without its package."""
    return name.removeprefix("tests.")
