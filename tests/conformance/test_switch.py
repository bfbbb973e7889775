"""A switch as a process passes the whole suite over UDP, with the port's scripts."""

import json

import pytest
from typer.testing import CliRunner

from fanin_tools.cli.app import app
from tests.fabric.fixtures import own_state_folder

pytestmark = pytest.mark.process


def test_the_software_switch_passes_over_udp() -> None:
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        done = CliRunner().invoke(app, ["conform", "--target", "switch", "--json"])
    entries = json.loads(done.stdout)["scripts"]
    assert [(entry["script"], entry["text"]) for entry in entries if entry["outcome"] == "failed"] == []
    not_run = {entry["script"] for entry in entries if entry["outcome"] == "not run"}
    assert not_run == {
        "silence/jobs_age_out",  # 72 s
        "standing/draining",
        "standing/a_device_that_stood_still",
    }
    assert done.exit_code == 0
    assert len(entries) > 60
