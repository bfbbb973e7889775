"""Programs in C of our own, compiled with the real header and linked with the real libibverbs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verbs_lib.conftest import Programs, build


@pytest.mark.parametrize("name", ["refusals", "events", "operations", "pollers"])
def test_program(programs: Programs, tmp_path: Path, name: str) -> None:
    ended = programs.run(build(f"{name}.c", tmp_path))
    assert ended.returncode == 0, ended.stderr
