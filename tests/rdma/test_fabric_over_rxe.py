"""The engine over the kernel's RoCE: devices whose packets are datagrams of rxe queue pairs do all collectives.

Two NICs and a switch are at one end of a link, or at the other, and the link loses packets.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest

from fanin_tools.launch.collective_call import COLLECTIVES

from .machine import programs
from .machine.guest import Guest, running
from .machine.image import Image
from .machine.packages import PackagesMissing

SECONDS = 1200  # a bound; an idle machine needs one
PLACES = {
    "nic1": ("10.9.0.1", "rxe1"),
    "nic2": ("10.9.1.1", "rxe2"),
    "nic3": ("10.9.0.2", "rxe1"),
    "leaf": ("10.9.1.2", "rxe2"),
}
ALONE = (("tree", 1, ""), ("ring", 1, ""))
MORE = (*ALONE, ("tree", 2, "reproducible shape"), ("ring", 2, "wide partials"), ("tree", 3, ""), ("ring", 3, ""))
IS_WHOLE = os.environ.get("FANIN_TEST_RDMA") == "all"
CASES = [("2%", ALONE), *([("", MORE), ("5%", MORE)] if IS_WHOLE else [])]


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Of programs in the guest."""
    try:
        return programs.prepare()
    except PackagesMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def machine(guest_image: Image, environment: dict[str, str]) -> Iterator[Guest]:
    """A guest with the files of this machine."""
    with running(guest_image, with_files=True) as guest:
        programs.install_verbs(guest)
        yield guest


@pytest.mark.process
@pytest.mark.deep
@pytest.mark.parametrize(("loss", "setups"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_collectives(machine: Guest, environment: dict[str, str], loss: str, setups: tuple) -> None:
    machine.call("run", command=["busybox", "sh", "/link.sh", loss])
    wanted = json.dumps({"places": PLACES, "setups": setups, "seed": 1})
    result = json.loads(programs.run_module(machine, environment, "tests.rdma.fabric_over_rxe", [wanted], SECONDS))
    assert result["failures"] == []
    done = {(row["collective"], row["topology"]): row["cases"] for row in result["table"]}
    assert all(done[collective, topology] for collective in COLLECTIVES for topology in ("tree", "ring"))
    sent = [counted["tx_CONTRIBUTION"] for name, counted in result["counters"].items() if name != "leaf"]
    assert min(sent) > 100
    lost = lost_packets(machine)
    assert (lost > 20) if loss else (lost == 0)


def lost_packets(machine: Guest) -> int:
    """Packets that the link has lost."""
    shown = machine.call("run", command=["/usr/sbin/tc", "-s", "qdisc", "show"])
    return sum(map(int, re.findall(r"qdisc netem.*\n.*dropped (\d+)", shown)))
