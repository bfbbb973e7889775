"""Jobs made from jobs: who is in them, where they lie, what tells them apart."""

from __future__ import annotations

import numpy as np
import pytest

from fanin import Job, JobNode
from fanin.job.derived_jobs import derived, slots_for, split_members
from fanin_wire.abi import Route

PATHS = [("10.0.1.1", "10.0.0.1"), ("10.0.1.1", "10.0.0.1"), ("10.0.1.2", "10.0.0.1"), ("10.0.1.2", "10.0.0.1")]
EIGHT = Job(
    7, 9, tuple(JobNode(f"10.1.0.{n}", (n, n + 4), path) for n, path in enumerate(PATHS)), slots=64, reproducible="run"
)


def test_ranks_are_renumbered_and_keep_their_nodes():
    """Bits within a node follow the new ranks, nodes stay in the order of the parent."""
    part = derived(EIGHT, 1, 0, (5, 1, 0, 6))
    assert [(node.address, node.ranks) for node in part.nodes] == [
        ("10.1.0.0", (2,)),
        ("10.1.0.1", (0, 1)),
        ("10.1.0.2", (3,)),
    ]
    assert (part.slots, part.chunk, part.reproducible) == (64, 4096, "run")


def test_path_ends_at_the_lowest_shared_switch():
    pair = derived(EIGHT, 1, 0, (0, 1, 4, 5))
    assert [hop.mask for hop in pair.membership(0).hops] == [0b11]
    assert pair.membership(0).hops[0].address == 0x0A000101
    assert derived(EIGHT, 1, 0, (0, 4)).chosen_route == "local"


def test_ring_of_which_one_node_is_left():
    rings = tuple(JobNode(f"10.1.0.{n}", (n,), ("10.0.0.1",), ring) for n, ring in enumerate([1, 1, 2, 2]))
    job = Job(1, 1, rings)
    part = derived(job, 1, 0, (1, 2, 3))
    assert [node.ring for node in part.nodes] == [None, 2, 2]
    assert part.membership(0).route == Route["TREE"]
    assert derived(job, 1, 0, (2, 3)).chosen_route == "ring"


def test_each_job_has_its_own_identity():
    """The same on every rank, and different for every call, color and parent."""
    made = [derived(EIGHT, number, color, range(8)) for number in (1, 2) for color in (0, 1, -1)]
    made += [derived(made[0], 1, 0, range(8)), EIGHT]
    assert len({job.jid for job in made}) == len({(job.jid, job.key) for job in made}) == len(made)
    assert derived(EIGHT, 1, 0, (0, 1)).jid == made[0].jid
    assert all(0 < job.jid < 1 << 32 and 0 <= job.key < 1 << 32 for job in made)


def test_groups_of_a_split():
    rows = np.array([[1, 5, 2], [1, 3, 0], [0, 5, 0], [1, 5, -1], [1, 5, 2]])
    assert split_members(rows, 0) == split_members(rows, 3) == (3, 0, 4)
    assert split_members(rows, 1) == (1,)


@pytest.mark.parametrize(("positions", "slots"), [(0, 8), (1, 8), (4, 8), (5, 16), (16, 32), (17, 64), (1000, 64)])
def test_slots_of_a_stream(positions, slots):
    assert slots_for(EIGHT, positions) == slots
