"""The example programs of rdma-core."""

import re

import pytest

from tests.verbs_lib.conftest import Programs

PINGPONGS = [
    "ibv_rc_pingpong -c",
    "ibv_rc_pingpong -c -e",
    "ibv_rc_pingpong -c -N",
    "ibv_rc_pingpong -c -N -e",
    "ibv_rc_pingpong -c -s 1000000 -n 50",
    "ibv_rc_pingpong -c -m 256 -s 10000",
    "ibv_uc_pingpong -c",
    "ibv_uc_pingpong -c -e",
    "ibv_ud_pingpong -c",
    "ibv_ud_pingpong -c -e",
    "ibv_srq_pingpong -c",
    "ibv_srq_pingpong -c -e -q 3",
]
LACKING = {  # messages of programs for a device that lacks what they need
    "ibv_rc_pingpong -t": "The device isn't completion timestamp capable",
    "ibv_rc_pingpong -o": "The device isn't ODP capable",
    "ibv_rc_pingpong -j": "Device doesn't support dm allocation",
}


def test_devices_are_found_beside_each_other(programs: Programs) -> None:
    said = programs.run("ibv_devinfo", "-v")
    assert said.returncode == 0, said.stderr
    assert re.findall(r"hca_id:\s+(\w+)", said.stdout) == ["fanin0", "fanin1"]
    addresses = [nic.address for nic in programs.running.fabric.nics]
    assert re.findall(r"GID\[ *0\]:\s+::ffff:(.*), RoCE v2", said.stdout) == addresses
    assert said.stdout.count("PORT_ACTIVE") == 2


def test_a_device_that_is_down_is_not_found(programs: Programs) -> None:
    nowhere = programs.running.state.folder / "nowhere.sock"
    alive = programs.running.state.socket(programs.running.fabric.nics[0].name)
    said = programs.run("ibv_devices", FANIN_SOCKET=f"{nowhere}:{alive}")
    assert re.findall(r"(fanin\d)", said.stdout) == ["fanin1"]  # the second that is named


@pytest.mark.parametrize("command", PINGPONGS)
def test_pingpong(programs: Programs, command: str) -> None:
    server, client = programs.run_pair(*command.split(), "-g", "0")
    assert (server.returncode, client.returncode) == (0, 0), server.stdout + client.stdout + client.stderr
    for said in (server.stdout, client.stdout):
        assert re.search(r"\d+ iters in .* seconds", said)
        assert "invalid data" not in said


@pytest.mark.parametrize("command", LACKING)
def test_what_a_device_lacks_is_said(programs: Programs, command: str) -> None:
    said = programs.run(*command.split(), "-d", "fanin0", "-g", "0")
    assert said.returncode != 0
    assert LACKING[command] in said.stdout + said.stderr
