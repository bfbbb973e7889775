"""On networks that are not our own, a job works, or ends by name in bounded time and the log says why. Hosts are made
with `ip`: a stock bridge, its MTU, filters, routes, interfaces that go away."""

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fanin import Communicator
from fanin_tools.fabric.namespaces import are_allowed
from tests.ethernet import BRIDGE
from tests.networks.lan import SWITCH, Lan
from tests.waiting import BOUND_S

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(not are_allowed(), reason="root, iproute2 and leave to make namespaces"),
]
LONG = 1 << 16  # elements: more segments than a window
JUMBO = 9000
NAMED = {"PATH_MTU", "PEER_LOST"}
ONLY_LONG = "meta length > 1000 udp dport 4791 drop"
ALL = "udp dport 4791 drop"


@pytest.fixture
def make_lan(tmp_path: Path) -> Iterator[Callable[..., Lan]]:
    """Makes the network of a test, once."""
    made: list[Lan] = []

    def make(hosts: int = 3, mtu: int = 1500) -> Lan:
        made.append(Lan(tmp_path, hosts, mtu))
        return made[-1]

    yield make
    for lan in made:
        lan.close()


def reduce_long(member: Communicator, rank: int) -> bool:
    """A long allreduce, with a check of its bits."""
    total = member.allreduce(np.full(LONG, 1 + rank, np.float32), timeout=BOUND_S)
    return bool(np.all(total == sum(range(1, 1 + member.size))))


def names_of(outcomes: list[Any]) -> list[str]:
    """What the ranks got: a result, or the name of an error."""
    return [str(outcome).split(":")[0] for outcome in outcomes]


# What carries


@pytest.mark.parametrize("route", ["tree", "ring"])
@pytest.mark.parametrize("mtu", [1500, JUMBO])
def test_devices_take_the_mtu_of_their_interface(make_lan: Callable[..., Lan], mtu: int, route: str) -> None:
    lan = make_lan(mtu=mtu)
    lan.start_tree()
    assert [lan.status(host)["mtu"] for host in range(lan.hosts)] == [mtu] * lan.hosts
    assert lan.ranks(lan.job(route), reduce_long) == [True, True]
    assert lan.status(1)["counters"]["drop_message_size"] == 0


def test_mtu_above_that_of_the_interface_is_refused(make_lan: Callable[..., Lan]) -> None:
    lan = make_lan(1)
    settings = ["--name", "nic", "--address", lan.address(0), "--socket", lan.socket(0), "--mtu", str(JUMBO)]
    command = lan.command(0, str(Path(sys.executable).parent / "fanin-nic"), *settings)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=5 * BOUND_S)
    assert ended.returncode == 1
    assert "network interface eth0 of 10.83.0.1 carries packets of 1500 bytes, MTU 9000 needs more" in ended.stderr
    assert "use --mtu 1500, or leave it out" in ended.stderr


def test_multicast_that_is_not_forwarded_costs_no_result(make_lan: Callable[..., Lan]) -> None:
    lan = make_lan()
    for host in range(lan.hosts):
        lan.ethernet.ip(BRIDGE, f"link set {lan.name(host)} type bridge_slave mcast_flood off")
    lan.start(SWITCH, "switch", group="239.83.0.1")
    lan.start_nics(parent_group="239.83.0.1")
    assert lan.ranks(lan.job("tree"), reduce_long) == [True, True]


# What does not


class Fault(NamedTuple):
    """A fault of the network of host 1, whose NIC is the first.

    inject: how it comes. statuses: the names with which jobs end. said: what the log of that host's device says.
    """

    inject: Callable[[Lan], None]
    statuses: set[str] = NAMED
    said: str = ""


def on_port(words: str) -> Callable[[Lan], None]:
    """A change of the bridge's port of host 1."""
    return lambda lan: lan.ethernet.ip(BRIDGE, f"link set {lan.name(1)} {words}")


def on_host(words: str) -> Callable[[Lan], None]:
    """A command of iproute2 on host 1."""
    return lambda lan: lan.ip(1, words)


def filtering(hook: str, rule: str) -> Callable[[Lan], None]:
    """A packet filter on host 1."""
    return lambda lan: lan.filter(1, hook, rule)


def queue_that_stands_still(lan: Lan) -> None:
    """The interface of host 1 sends a bit a second."""
    rate = ("tbf", "rate", "8bit", "burst", "100", "limit", "1000000000")
    lan.on(1, "tc", "qdisc", "add", "dev", "eth0", "root", *rate)


def two_with_one_address(lan: Lan) -> None:
    """A device of another host, which has the address of host 1, gets what is sent there."""
    lan.ethernet.add(lan.name(SPARE), lan.address(1))
    lan.start(SPARE, address=lan.address(1))
    lan.move(lan.address(1), SPARE)


SPARE = 9
PATH = {"PATH_MTU"}
LOST = {"PEER_LOST"}
FAULTS = {
    "a bridge port of a smaller MTU": Fault(on_port("mtu 1500"), PATH),
    "long packets are dropped on arrival": Fault(filtering("input", ONLY_LONG), PATH),
    "long packets are not let out": Fault(filtering("output", ONLY_LONG), PATH, "EPERM"),
    "the MTU of the interface is lowered": Fault(on_host("link set eth0 mtu 1500"), PATH, "EMSGSIZE"),
    "the MTU of the route is lowered": Fault(
        on_host("route change 10.83.0.0/24 dev eth0 mtu lock 1400"), PATH, "EMSGSIZE"
    ),
    "nothing is let out": Fault(filtering("output", ALL), LOST, "EPERM"),
    "nothing is let in": Fault(filtering("input", ALL), LOST),
    "the route is gone": Fault(on_host("route flush dev eth0 table main"), LOST, "ENETUNREACH"),
    "the interface is down": Fault(on_host("link set eth0 down"), LOST, "ENETUNREACH"),
    "the interface is gone": Fault(on_host("link delete eth0"), LOST, "could not be sent: E"),
    "the address is gone": Fault(on_host("address flush dev eth0"), LOST, "could not be sent: E"),
    "the route is a black hole": Fault(on_host("route add blackhole 10.83.0.0/25"), LOST, "EINVAL"),
    "the route is prohibited": Fault(on_host("route add prohibit 10.83.0.0/25"), LOST, "EACCES"),
    "the queue of the interface stands still": Fault(queue_that_stands_still, LOST),
    "two devices have one address": Fault(two_with_one_address, LOST),
    "the bridge forwards nothing": Fault(on_port("down"), LOST),
}
IN_RINGS = [name for name, fault in FAULTS.items() if fault.statuses == PATH]
AT_JOIN = ["a bridge port of a smaller MTU", "long packets are not let out"]


def cases(names: Iterable[str]) -> list[tuple[str, str]]:
    """Faults, each with the routes on which it is tried."""
    return [(name, route) for name in names for route in ("tree", "ring") if route == "tree" or name in IN_RINGS]


@pytest.mark.parametrize(("name", "route"), cases(FAULTS))
def test_fault_under_a_job(make_lan: Callable[..., Lan], name: str, route: str) -> None:
    lan, fault = make_lan(4, JUMBO), FAULTS[name]
    lan.start_tree()

    def act(member: Communicator, rank: int) -> None:
        assert reduce_long(member, rank)
        member.barrier(timeout=BOUND_S)
        if rank == 0:
            fault.inject(lan)
        while True:
            reduce_long(member, rank)

    outcomes = lan.ranks(lan.job(route), act)
    assert set(names_of(outcomes)) <= fault.statuses, outcomes
    assert fault.said in lan.log(1), lan.log(1)
    assert any(name in lan.log(host) for host in range(lan.hosts) for name in fault.statuses)


@pytest.mark.parametrize(("name", "route"), cases(AT_JOIN))
def test_fault_before_a_job(make_lan: Callable[..., Lan], name: str, route: str) -> None:
    lan, fault = make_lan(4, JUMBO), FAULTS[name]
    lan.start_tree()
    fault.inject(lan)
    outcomes = lan.ranks(lan.job(route), reduce_long)
    assert set(names_of(outcomes)) <= fault.statuses, outcomes
    assert any(lan.address(1) in str(outcome) for outcome in outcomes)
