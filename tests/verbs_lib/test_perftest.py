"""The programs of perftest, without rdma_cm."""

import re

import pytest

from tests.verbs_lib.conftest import Programs
from tests.verbs_lib.perftest import until_timed

COMMANDS = [
    "ib_send_bw",
    "ib_send_bw -b",
    "ib_send_bw -e",
    "ib_send_bw -e -b -q 2",
    "ib_send_bw -q 2",
    "ib_send_bw --use-srq",
    "ib_send_bw --use-srq -q 4",
    "ib_send_bw --use-srq -c UD",
    "ib_send_bw -c UC",
    "ib_send_bw -c UD",
    "ib_write_bw",
    "ib_write_bw --use_old_post_send",
    "ib_write_bw -a -n 20",
    "ib_write_bw -b",
    "ib_write_bw -q 4",
    "ib_write_bw -c UC",
    "ib_read_bw",
    "ib_atomic_bw -A FETCH_AND_ADD",
    "ib_atomic_bw -A CMP_AND_SWAP",
    "ib_send_lat",
    "ib_send_lat -e",
    "ib_send_lat -e -c UD",
    "ib_send_lat -I 64 -s 64",
    "ib_send_lat -c UC",
    "ib_send_lat -c UD",
    "ib_send_lat -c UD --use_old_post_send",
    "ib_write_lat",
    "ib_write_lat -c UC",
    "ib_read_lat",
    "ib_read_lat --use_old_post_send",
    "ib_atomic_lat",
    "ib_atomic_lat --use_old_post_send",
]
ROW = re.compile(r"^ *\d+ +(\d+) +[\d.]+ +[\d.]+", re.M)
ITERATIONS = 100  # if a command does not say how many


def option(name: str, line: str) -> str:
    """Value of an option; "" if it is missing."""
    found = re.search(rf" {name} (\S+)", line)
    return found[1] if found else ""


@pytest.mark.parametrize("command", COMMANDS)
def test_program_ends_well(programs: Programs, command: str) -> None:
    line = command if " -n " in command else f"{command} -n {ITERATIONS}"
    server, client = until_timed(lambda: programs.run_pair(*line.split()), lambda pair: pair[1].stderr)
    assert (server.returncode, client.returncode) == (0, 0), server.stdout + client.stdout + client.stderr
    rows = ROW.findall(client.stdout)
    expected = int(option("-n", line)) * int(option("-q", line) or 1)
    assert rows
    assert all(int(iterations) == expected for iterations in rows)


def test_without_a_kernel_there_is_no_rdma_cm(programs: Programs) -> None:
    said = programs.run("ib_write_bw", "-R", "-d", "fanin0")
    assert said.returncode != 0
    assert "rdma_create_event_channel failed" in said.stdout + said.stderr
