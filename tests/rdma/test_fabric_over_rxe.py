"""The engine over the kernel's RoCE: devices whose packets are datagrams of rxe queue pairs do all collectives.

Two NICs and a switch are at one end of a lossy link, or at the other.
"""

import json
import os
import re
import sys
from typing import Any, NamedTuple

import pytest

from fanin_tools.launch.collective_call import COLLECTIVES
from tests.verbs_lib import heat

from .conftest import lossy
from .machine import programs
from .machine.guest import Guest

SECONDS = 1200  # a bound; an idle machine needs one
PLACES = {
    "nic1": ("10.9.0.1", "rxe1"),
    "nic2": ("10.9.1.1", "rxe2"),
    "nic3": ("10.9.0.2", "rxe1"),
    "leaf": ("10.9.1.2", "rxe2"),
}
ALONE = (("tree", 1, ""), ("ring", 1, ""))
MORE = (*ALONE, ("tree", 2, "reproducible shape"), ("ring", 2, "wide partials"), ("tree", 3, ""), ("ring", 3, ""))
RANKS = 4
HAS_PYVERBS = sys.version_info[:2] == programs.PYVERBS_VERSION
REFUSAL = (
    "NOT_SUPPORTED: Fanin's verbs library is not loaded in this process. "
    "Start the program with LD_PRELOAD=$(fanin verbs-lib), and open a device fanin0, fanin1, ...\n"
)
IS_WHOLE = os.environ.get("FANIN_TEST_RDMA") == "all"
PROGRAMS: dict[str, tuple[int, list[str], str]] = {  # ranks, program, what it prints
    "heat": (RANKS, ["examples/verbs/heat.py"], heat.output(RANKS)),
    **({"objects of rxe": (2, ["-m", "tests.rdma.objects_of_rxe"], REFUSAL * 2)} if IS_WHOLE else {}),
}
CASES = [("2%", ALONE), *([("", MORE), ("5%", MORE)] if IS_WHOLE else [])]


class Outcome(NamedTuple):
    """result: the output of `fabric_over_rxe`. lost: packets lost on the link."""

    has_loss: bool
    result: dict[str, Any]
    lost: int


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0] or "no loss")
def outcome(request: pytest.FixtureRequest, linked: Guest, environment: dict[str, str]) -> Outcome:
    """Of a fabric in a guest with the files of this machine."""
    loss, setups = request.param
    commands = [command for *command, _ in PROGRAMS.values()] if HAS_PYVERBS else []
    wanted = {"places": PLACES, "setups": setups, "seed": 1, "ranks": RANKS, "programs": commands}
    with lossy(linked, loss):
        arguments = [json.dumps(wanted)]
        output = programs.run_module(linked, environment, "tests.rdma.fabric_over_rxe", arguments, SECONDS)
        return Outcome(bool(loss), json.loads(output), lost_packets(linked))


@pytest.mark.process
@pytest.mark.deep
def test_collectives(outcome: Outcome) -> None:
    result = outcome.result
    assert result["failures"] == []
    done = {(row["collective"], row["topology"]): row["cases"] for row in result["table"]}
    assert all(done[collective, topology] for collective in COLLECTIVES for topology in ("tree", "ring"))
    sent = [counted["tx_CONTRIBUTION"] for name, counted in result["counters"].items() if name != "leaf"]
    assert min(sent) > 100
    assert (outcome.lost > 20) if outcome.has_loss else (outcome.lost == 0)


@pytest.mark.process
@pytest.mark.deep
def test_results_go_to_the_group(outcome: Outcome) -> None:
    """Each once for all NICs: by multicast of rxe, at both ends of the link. Results that do not fit are not taken."""
    result = outcome.result
    children = [counted for name, counted in result["counters"].items() if name != "leaf"]
    assert result["to_group"] > 100
    assert not any(counted.get("drop_icrc") for counted in result["counters"].values())
    assert min(counted["rx_RESULT"] for counted in children) > 100


@pytest.mark.process
@pytest.mark.deep
def test_refusals(outcome: Outcome) -> None:
    little, enough = outcome.result["ports"]
    assert "cannot register 20 MiB with rxe1: " in little
    assert "; raise the limit of locked memory (ulimit -l)" in little
    assert enough == "open"


@pytest.mark.process
@pytest.mark.deep
def test_port_that_goes_down(outcome: Outcome) -> None:
    """Jobs end as if the network were cut; the device reports it, and goes on when the port is up again."""
    lost = outcome.result["lost"]
    assert len(lost["ended"]) == RANKS
    assert set(lost["ended"]) <= {"PEER_LOST", "ABORTED", "TIMEOUT"}, lost
    assert lost["refused"] == "port 1 of rxe1 is down; set its network interface up"
    assert lost["meanwhile"]["device"] == "rxe1"
    assert lost["then"]["events"]["PORT_ERR"] >= 1  # rxe reports the port as up twice: by its flag and its carrier
    assert lost["then"]["events"]["PORT_ACTIVE"] >= 1
    assert lost["log"].count("port 1 of verbs device rxe1 is down") == 1
    assert lost["log"].count("port 1 of verbs device rxe1 is up again") == 1
    assert lost["after"]["code"] == 0, lost["after"]


@pytest.mark.process
@pytest.mark.deep
@pytest.mark.skipif(not HAS_PYVERBS, reason="Python 3.11, for which the guest's pyverbs is")
def test_programs_with_traffic_of_their_own(outcome: Outcome) -> None:
    ended = outcome.result["programs"]
    assert [program["code"] for program in ended] == [0] * len(PROGRAMS), ended
    assert [program["output"] for program in ended] == [printed for *_, printed in PROGRAMS.values()]


def lost_packets(machine: Guest) -> int:
    shown = machine.call("run", command=["/usr/sbin/tc", "-s", "qdisc", "show"])
    return sum(map(int, re.findall(r"qdisc netem.*\n.*dropped (\d+)", shown)))
