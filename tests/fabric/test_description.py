"""Descriptions: made from options, written, read again, refused with the place and the remedy."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanin_tools.errors import UsageError
from fanin_tools.fabric import description, description_file
from fanin_tools.fabric.description import DescriptionError
from fanin_tools.fabric.generate import Plan, Shape, make

shapes = st.builds(
    lambda fanout, **options: Shape(math.prod(fanout), fanout=fanout, **options),
    fanout=st.one_of(st.tuples(st.integers(1, 64)), st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)),
    plain_leaves=st.booleans(),
    ranks_per_node=st.integers(1, 64),
    netns=st.just(True),
    rate=st.sampled_from(["", "1gbit", "100mbit"]),
    slots=st.sampled_from([2, 256, 4096]),
    mtu=st.integers(1280, 65535),
    lanes=st.sampled_from([1, 2, 4, 8, 16]),
    detection=st.sampled_from([0.2, 1, 2.5, 3600]),
)

GOOD = """
name = "bench"
[[device]]
kind = "nic"
name = "nic0"
address = "127.77.9.1"
host = "a"
ranks = 4
[[device]]
kind = "switch"
name = "s"
address = "127.77.9.254"
host = "b"
[[link]]
ends = ["nic0", "s"]
"""


@given(shapes)
def test_written_description_is_read_back(shape: Shape) -> None:
    fabric = make("round-trip", shape)
    assert description_file.parse(description_file.render(fabric), "memory") == fabric


@pytest.mark.parametrize(("nodes", "links"), [(1, 0), (2, 1), (3, 3), (8, 8)])
def test_direct_links_form_a_cycle(nodes: int, links: int) -> None:
    fabric = make("ring", Shape(nodes, direct=True), "127.77.9")
    assert fabric.switches == ()
    assert len(fabric.links) == links
    ends = [end for link in fabric.links for end in link.ends]
    assert all(ends.count(nic.name) == min(2, nodes - 1) for nic in fabric.nics)


def test_star_links_every_nic_to_the_switch() -> None:
    fabric = make("star", Shape(3), "127.77.9")
    assert [link.ends for link in fabric.links] == [(f"nic{node}", "switch") for node in range(3)]


@pytest.mark.parametrize(
    ("cores", "nodes", "asked", "lanes"),
    [(4, 1, None, 2), (1, 1, None, 1), (4, 2, None, 1), (4, 1, 1, 1), (4, 4, 4, 4)],
)
def test_lanes_are_those_asked_for_or_two_in_one_node(
    cores: int, nodes: int, asked: int | None, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(cores)))
    assert make("bench", Shape(nodes, 1, netns=True, lanes=asked)).lanes == lanes


def test_a_fabric_that_is_up_keeps_its_lanes_unless_others_are_asked_for() -> None:
    present = make("bench", Shape(1, 1, netns=True, lanes=4))
    assert Plan("bench", Shape(1, 1, netns=True)).with_addresses_of(present) == present
    assert Plan("bench", Shape(1, 1, netns=True, lanes=2)).with_addresses_of(present) != present


@pytest.mark.parametrize("netns", [True, False])
def test_plan_in_namespaces_differs_from_one_that_is_not(netns: bool) -> None:
    """Neither takes the addresses of the other, which it may not have."""
    present = make("bench", Shape(2, 1, netns=netns, lanes=2), "10.77.0" if netns else "127.77.3")
    asked = Plan("bench", Shape(2, 1, netns=not netns)).with_addresses_of(present)
    assert description.describe_differences(present, asked) == f"netns {netns} (asked: {not netns})"


def test_file_has_defaults() -> None:
    fabric = description_file.parse(GOOD, "bench.toml")
    assert (fabric.mtu, fabric.netns, fabric.nics[0].slots) == (9000, False, 4096)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('kind = "nic"', 'kind = "hub"', "bench.toml: device[0].kind"),
        ('name = "nic0"', 'name = "NIC 0"', "bench.toml: device[0].name"),
        ("127.77.9.1", "127.77.9", "bench.toml: device[0].address"),
        ("127.77.9.1", "10.0.0.1", "bench.toml: device.address"),
        ("127.77.9.254", "127.77.9.1", "bench.toml: device.address"),
        ("ranks = 4", "ranks = 0", "bench.toml: device[0].ranks"),
        ("ranks = 4", 'ranks = "4"', "bench.toml: device[0].ranks"),
        ("ranks = 4", "ranks = true", "bench.toml: device[0].ranks"),
        ("ranks = 4", "ranks = 4\nslots = 100", "bench.toml: device[0].slots"),
        ("ranks = 4", "rank = 4", "bench.toml: device[0].rank"),
        ('host = "a"', "", "bench.toml: device[0].host"),
        ('["nic0", "s"]', '["nic0", "x"]', "bench.toml: link[0].ends"),
        ('["nic0", "s"]', '["nic0"]', "bench.toml: link[0].ends"),
        ('["nic0", "s"]', '["nic0", "s"]\nrate = "fast"', "bench.toml: link[0].rate"),
        ('["nic0", "s"]', '["nic0", "s"]\nrate = "1gbit"', "bench.toml: link[0].rate"),
        ('name = "bench"', "", "bench.toml: name"),
        ('name = "bench"', 'name = "bench"\nmtu = 100', "bench.toml: mtu"),
        ('name = "bench"', 'name = "bench"\nlanes = 3', "bench.toml: lanes"),
        ('name = "bench"', 'name = "bench"\nlanes = 32', "bench.toml: lanes"),
        ('name = "bench"', 'name = "bench"\ndetection = 0.1', "bench.toml: detection"),
        ('name = "bench"', 'name = "bench"\ndetection = "5"', "bench.toml: detection"),
        ('name = "bench"', 'name = "bench"\ndevices = 1', "bench.toml: devices"),
        ('name = "bench"', "name = ", "bench.toml"),
        ("ranks = 4", "ranks = 4\noffload = false", "bench.toml: device[0].offload"),
        ("ranks = 4", "ranks = 4\noffload = 1", "bench.toml: device[0].offload"),
        ('address = "127.77.9.254"', "", "bench.toml: device[1].address"),
        ("ranks = 4", 'ranks = 4\ngroup = "239.0.0.1"', "bench.toml: device[0].group"),
        ('address = "127.77.9.254"', 'address = "127.77.9.254"\ngroup = "10.0.0.1"', "bench.toml: device[1].group"),
        ('address = "127.77.9.254"', 'address = "127.77.9.254"\ngroup = "a"', "bench.toml: device[1].group"),
    ],
)
def test_mistake_is_named_with_its_place(old: str, new: str, place: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        description_file.parse(GOOD.replace(old, new, 1), "bench.toml")
    assert caught.value.cause.startswith(place)
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_file_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'name = "bench"\n# f\xfcr den Versuch\n')
    with pytest.raises(DescriptionError, match=r"BAD_DESCRIPTION: .*latin\.toml: line 2: it is not UTF-8; save"):
        description_file.read(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.toml: No such file"):
        description_file.read(tmp_path / "absent.toml")


def test_plain_switch_needs_no_address() -> None:
    text = GOOD.replace('address = "127.77.9.254"', "offload = false")
    fabric = description_file.parse(text, "bench.toml")
    assert [device.name for device in fabric.daemons] == ["nic0"]
    assert description_file.parse(description_file.render(fabric), "again") == fabric


@pytest.mark.parametrize(
    "shape",
    [
        Shape(0),
        Shape(65),
        Shape(65, direct=True),
        Shape(1 << 40),
        Shape(ranks_per_node=65),
        Shape(rate="1gbit"),
        Shape(8, fanout=(2, 2)),
        Shape(0, fanout=(0, 2)),
        Shape(130, fanout=(2, 65)),
        Shape(4, fanout=(2, 2), direct=True),
        Shape(4, plain_leaves=True, direct=True),
    ],
)
def test_impossible_options_are_refused(shape: Shape) -> None:
    with pytest.raises(DescriptionError, match="options"):
        make("impossible", shape, "127.77.9")


VERBS = GOOD.replace("ranks = 4", 'ranks = 4\nport = "verbs://rxe0"').replace(
    'host = "b"', 'host = "b"\nport = "verbs://mlx5_1"'
)


def test_devices_over_verbs() -> None:
    """Their addresses are those of network interfaces, and their packets are no longer than a datagram."""
    fabric = description_file.parse(VERBS.replace("127.77.9", "10.1.2"), "file")
    assert [device.port for device in fabric.devices] == ["verbs://rxe0", "verbs://mlx5_1"]
    assert (fabric.is_over_datagrams, fabric.path_mtu) == (True, 4096 + 28)
    assert description_file.parse(description_file.render(fabric), "memory") == fabric
    grouped = description_file.parse(VERBS.replace('host = "b"', 'host = "b"\ngroup = "239.77.0.1"'), "file")
    assert [device.group for device in grouped.devices] == ["", "239.77.0.1"]
    narrow = description_file.parse("mtu = 2076\n" + VERBS, "file")
    assert narrow.path_mtu == 2076
    plain = description_file.parse(GOOD, "file")
    assert (plain.is_over_datagrams, plain.path_mtu) == (False, plain.mtu)


FRAMES = VERBS.replace("rxe0", "rxe0?raw").replace("mlx5_1", "mlx5_1?raw")


def test_frames_are_as_long_as_the_mtu() -> None:
    fabric = description_file.parse(FRAMES, "file")
    assert [device.port for device in fabric.devices] == ["verbs://rxe0?raw", "verbs://mlx5_1?raw"]
    assert (fabric.is_over_datagrams, fabric.path_mtu) == (False, fabric.mtu)


def test_frames_and_sockets_are_on_one_network_in_namespaces() -> None:
    """Without them the sockets are on loopback, which no verbs device reaches."""
    mixed = FRAMES.replace('port = "verbs://mlx5_1?raw"', "")
    assert description_file.parse(mixed.replace('name = "bench"', 'name = "bench"\nnetns = true'), "file").netns
    with pytest.raises(DescriptionError, match="nic0 has a verbs device and s has none: they would not hear"):
        description_file.parse(mixed, "file")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('port = "verbs://mlx5_1"', "", "nic0 has a verbs device and s has none"),
        ('name = "bench"', 'name = "bench"\nlanes = 2', "lanes = 2 is not supported over verbs"),
        ('name = "bench"', 'name = "bench"\nnetns = true', "netns = true is not supported over verbs"),
        ("verbs://rxe0", "verbs://rxe0?raw", "nic0 has a RAW_PACKET queue pair and s a UD one: they would not hear"),
        ("verbs://rxe0", "verbs://rxe0?udp", "'verbs://rxe0?udp' is not allowed; use udp, or verbs://"),
        ("verbs://rxe0", "verbs:rxe0", "'verbs:rxe0' is not allowed; use udp, or verbs://"),
        ("verbs://rxe0", "verbs://a/b", "'verbs://a/b' is not allowed; use udp, or verbs://"),
    ],
)
def test_what_verbs_lack_is_named(old: str, new: str, said: str) -> None:
    assert old in VERBS
    with pytest.raises(DescriptionError) as refusal:
        description_file.parse(VERBS.replace(old, new), "file")
    assert said in str(refusal.value)
