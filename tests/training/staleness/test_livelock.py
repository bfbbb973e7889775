"""The document's protocol stands still; the repaired one does not. docs/staleness.md has the scene."""

from dataclasses import replace

import pytest

from fanin_train.staleness.messages import forms, literal, repaired
from fanin_train.staleness.simulation.cluster import Cluster
from fanin_train.staleness.simulation.scenario import Network, Scenario

NODES, STALE_MAX = 8, 4
PART_S = 15.0  # where nothing more would be seen in a minute
SCENE = Scenario(nodes=NODES, network=Network(latency=0.02, jitter=0.25), duration=60.0)  # T 0.1 s, timer 1 s


def iterations(name: str) -> tuple[int, int]:
    """Of all nodes in PART_S, and how many synchronisations were completed."""
    cluster = Cluster(replace(SCENE, duration=PART_S), forms(STALE_MAX)[name])
    cluster.run()
    return cluster.iterations, sum(node.synchronisation.completed for node in cluster.nodes.values())


def test_the_text_lives_and_does_not_move() -> None:
    """All nodes reach the bound and refuse each other for ever."""
    cluster = Cluster(SCENE, literal(STALE_MAX))
    cluster.run()
    assert cluster.iterations == NODES * STALE_MAX
    assert sum(node.synchronisation.refused for node in cluster.nodes.values()) > 100


@pytest.mark.parametrize("name", ["an initiator refuses", "and says ABORT", "a jitter alone"])
def test_half_a_repair_does_not_help(name: str) -> None:
    assert iterations(name)[0] < NODES * (STALE_MAX + 2)


def test_the_repaired_form_never_waits() -> None:
    assert SCENE.compute == 0.1
    cluster = Cluster(replace(SCENE, duration=PART_S), repaired(STALE_MAX))
    cluster.run()
    assert cluster.iterations >= NODES * 149  # 15 s of 0.1 s each; the last may be under way
    assert cluster.snapshots == 0


def test_priority_abort_and_commit_alone_go_on() -> None:
    done, completed = iterations("lowest rank, ABORT, COMMIT")
    assert done > 1000
    assert completed > 25
