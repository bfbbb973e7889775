"""The program that measures doorbells: both ways bring every message."""

from pathlib import Path

from tests.verbs_lib import doorbells
from tests.verbs_lib.conftest import Programs

ROUNDS = 50


def test_both_ways(programs: Programs, tmp_path: Path) -> None:
    sockets = [str(programs.running.state.socket(nic.name)) for nic in programs.running.fabric.nics]
    found = doorbells.on_fanin(doorbells.build(tmp_path), sockets, ROUNDS)
    assert list(found) == ["immediate", "polling"]
    assert found["immediate"].torn == 0
    assert min(min(figures.microseconds, figures.rate) for figures in found.values()) > 0
