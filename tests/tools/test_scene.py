"""The scene of the founding document, with real devices: the traffic of each link of its three networks."""

from typing import Any

import pytest

from fanin_tools.demo import scene
from fanin_tools.demo.scene import NetworkResult
from fanin_tools.fabric import namespaces, state
from fanin_tools.launch import verified_call
from fanin_wire.settings import JobSettings
from tests.fabric.fixtures import ignore

pytestmark = pytest.mark.process
PLAYS = 8  # each network needs one without a process kept off its core until a device asks again
SEGMENTS = scene.MESSAGE_BYTES // 4096
TREE = {f"nic{node}": ("switch", SEGMENTS, SEGMENTS, (16 << 10, 16 << 10)) for node in range(4)}
RING = {f"nic{node}": (f"nic{(node + 1) % 4}", 3, 3, (24 << 10, 0)) for node in range(4)}


@pytest.mark.parametrize("where", ["loopback", pytest.param("namespaces", marks=pytest.mark.netns)])
def test_each_network_carries_what_it_must(state_root: Any, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """In the tree each segment goes up once and down once. In a ring of four, where each node completes one of the four
    segments, each NIC sends three partial sums and three results."""
    if where == "namespaces" and not namespaces.are_allowed():
        pytest.skip("namespaces need root, ip and tc")
    monkeypatch.setattr(namespaces, "are_allowed", lambda: where == "namespaces")
    calm: dict[str, NetworkResult] = {}
    for _ in range(PLAYS):
        for network in scene.show("scene", False, JobSettings(), ignore):
            assert network.verified
            assert network.netns == (where == "namespaces")
            if not network.probes:
                calm[network.network] = network
        if len(calm) == len(scene.NETWORKS):
            break
    for described, carried in zip(scene.NETWORKS, (TREE, RING, RING), strict=True):
        network = calm[described.name]
        assert links(network) == carried
        assert all(link.payload == link.expected for link in network.links)
    assert state.names() == []


def links(network: NetworkResult) -> dict[str, tuple[str, int, int, tuple[int, int]]]:
    return {link.near: (link.far, link.contributions, link.results, tuple(link.payload)) for link in network.links}


def test_the_shown_sum_is_that_of_the_shown_vectors() -> None:
    """The ranks between the shown ones are added here."""
    shown = scene.vectors()
    layout = verified_call.DataLayout(scene.CALL, scene.RANKS)
    total = [0] * scene.SHOWN_ELEMENTS
    for rank in range(scene.RANKS):
        vector = [int(value) for value in layout.data.contribution(rank, layout.period)[: scene.SHOWN_ELEMENTS]]
        assert shown.get(f"rank {rank}", vector) == vector
        total = [one + other for one, other in zip(total, vector, strict=True)]
    assert shown["sum of all"] == total
