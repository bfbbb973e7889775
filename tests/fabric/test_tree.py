"""Trees of switches: made from a fan-out, read from links, refused where they are none."""

import pytest
from msgspec.structs import replace

from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import DescriptionError, Device, Fabric, Link, summary
from fanin_tools.fabric.generate import Shape, make
from fanin_tools.fabric.tree import Tree

PREFIX = "127.77.9"
DEEP = make("deep", Shape(12, 1, fanout=(2, 2, 3)), PREFIX)


def fabric_of(links: str, plain: str = "") -> Fabric:
    """A fabric whose devices and links stand in `links` as "n0-a a-top"; devices that begin with n are NICs."""
    pairs = [tuple(word.split("-")) for word in links.split()]
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    devices = []
    for number, name in enumerate(names):
        kind = "nic" if name.startswith("n") else "switch"
        offload = name not in plain.split()
        address = f"127.77.{number // 200}.{1 + number % 200}" if offload else ""
        devices.append(
            Device(
                kind=kind, name=name, address=address, host=f"host-{name}", ranks=int(kind == "nic"), offload=offload
            )
        )
    return Fabric("test", tuple(devices), tuple(Link((lower, upper)) for lower, upper in pairs))


def names(devices: tuple[Device, ...]) -> list[str]:
    return [device.name for device in devices]


def test_fanout_makes_levels_from_the_top_down() -> None:
    assert summary(DEEP) == "12 NICs, 7 switches"
    tree = Tree(DEEP)
    assert names(tree.above(DEEP.device("nic0"))) == ["switch-0-0", "switch-0", "switch"]
    assert names(tree.above(DEEP.device("nic11"))) == ["switch-1-1", "switch-1", "switch"]
    assert [tree.children(DEEP.device(name)) for name in ("switch", "switch-1", "switch-0-1")] == [2, 2, 3]
    assert names(tree.nics()) == [f"nic{node}" for node in range(12)]


def test_plain_leaves_are_rings_below_the_switch_above() -> None:
    fabric = make("mixed", Shape(8, 1, fanout=(2, 4), plain_leaves=True), PREFIX)
    assert summary(fabric) == "8 NICs, 1 switch, 2 plain switches"
    assert [device.address for device in fabric.switches[1:]] == ["", ""]
    assert Tree(fabric).children(fabric.device("switch")) == 2


def test_hundreds_of_devices_have_addresses_of_their_own() -> None:
    fabric = make("large", Shape(512, 1, fanout=(8, 8, 8)), "127.77.255")
    assert len({device.address for device in fabric.devices}) == 512 + 1 + 8 + 64
    assert (fabric.nics[0].address, fabric.nics[-1].address) == ("127.77.255.1", "127.78.1.4")
    assert (fabric.switches[0].address, fabric.switches[-1].address) == ("127.78.1.254", "127.78.1.182")


def test_links_to_nics_may_be_written_either_way_round() -> None:
    fabric = check(replace(fabric_of("n0-a"), links=(Link(("a", "n0")),)), "test")
    assert names(Tree(fabric).above(fabric.device("n0"))) == ["a"]


def test_nodes_come_switch_by_switch() -> None:
    fabric = check(fabric_of("n0-a n1-b a-top n2-a b-top n3-top"), "test")
    assert names(Tree(fabric).nics()) == ["n3", "n0", "n2", "n1"]


def test_children_are_counted_through_plain_switches() -> None:
    fabric = check(fabric_of("p-top n0-p n1-p a-p n2-a n3-top", plain="p"), "test")
    assert Tree(fabric).children(fabric.device("top")) == 3  # the ring of n0 and n1, a, n3


@pytest.mark.parametrize(
    ("links", "complaint"),
    [
        ("n0-a n1-b", "2 switches have no link to one above: a, b"),
        ("n0-a a-b b-a", "a cycle: a - b - a"),
        ("n0-top n1-a a-b b-c c-a", "a cycle: a - b - c - a"),
        ("n0-a n0-b a-b", "n0 has links up to a and b"),
        ("n0-a a-b a-c b-c", "a has links up to b and c"),
        ("n0-n1 n1-a n0-a", "the link joins two NICs, n0 and n1, although there is a switch"),
        (" ".join(f"n{node}-a" for node in range(65)), "a has 65 children"),
        (" ".join([f"n{node}-p{node % 65}" for node in range(130)] + [f"p{n}-top" for n in range(65)]), "65 children"),
        ("n0-a a-b b-c c-d d-e e-f f-g g-h h-i", "9 offloading switches above n0"),
    ],
)
def test_links_that_form_no_tree_are_refused(links: str, complaint: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        check(fabric_of(links), "test")
    assert complaint in caught.value.cause
    assert caught.value.cause.startswith("test: ")


def test_a_ring_on_a_plain_switch_has_a_limit() -> None:
    with pytest.raises(DescriptionError, match="65 NICs on p, which does not offload"):
        check(fabric_of(" ".join(f"n{node}-p" for node in range(65)), plain="p"), "test")


def test_nic_without_a_link_is_named() -> None:
    fabric = fabric_of("n0-a n1-a")
    with pytest.raises(DescriptionError, match=r"device\[2\]: n1 has no link to a switch; add .* \[\"n1\", \"a\"\]"):
        check(replace(fabric, links=fabric.links[:1]), "test")
