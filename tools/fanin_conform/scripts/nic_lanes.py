"""A NIC of several lanes in a tree: membership of each lane, and how a message is cut."""

import numpy as np

from fanin_conform.host import CLASSES
from fanin_conform.job import DATA, WANTS
from fanin_conform.laned import LanedTree
from fanin_conform.script import tree_script
from fanin_conform.tester import Expected, Tester
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode

CHUNK, ELEMENTS = 256, 64  # bytes of a segment, and its elements
MIN_RUN = 16  # segments for which a message takes another lane
DTYPE = 3  # i32


def numbers(segments: int) -> np.ndarray:
    """The data of a message of so many segments, the last of which is short."""
    return np.arange((segments - 1) * ELEMENTS + 5, dtype="<i4")


def runs(segments: int, lanes: int) -> list[range]:
    """The segments of each lane (6.1-13, 6.1-14)."""
    used = min(lanes, max(1, segments // MIN_RUN))
    return [range(lane * segments // used, (lane + 1) * segments // used) for lane in range(used)]


def contributions(job: LanedTree, data: np.ndarray, segments: int, mid: int, first: list[int]) -> list[Expected]:
    """The packets of a message; each lane's positions go on from `first`, which goes on."""
    packets = []
    for lane, run in enumerate(runs(segments, job.lanes)):
        for sid in run:
            part = data[sid * ELEMENTS : (sid + 1) * ELEMENTS]
            position = first[lane]
            first[lane] += 1
            values = {"position": position, "seg": position % job.slots, "mid": mid, "sid": sid, "lane": lane}
            values |= job.described(part, job.ranks) | {"dtype": DTYPE, "node_bitmap": 1 << job.bit, "rank_bitmap": 1}
            values["flags"] = CLASSES["ALL"] | DATA | WANTS
            packets.append(job.up(Opcode.CONTRIBUTION, part.tobytes(), **values))
    return packets


def answered(job: LanedTree, packets: list[Expected]) -> None:
    """RESULTs, of which each element is three times what the NIC has sent."""
    for each in packets:
        total = np.frombuffer(each.payload, "<i4") * 3
        values = {name: each.ceth[name] for name in ("position", "seg", "mid", "sid", "op", "dtype", "lane")}
        values |= {"node_bitmap": 1 << job.bit, "flags": CLASSES["ALL"] | DATA, "contributions": 3}
        job.down(Opcode.RESULT, total.astype("<i4").tobytes(), **values)


@tree_script("6.1-8", "6.1-9", "6.1-10", "6.1-11", "6.1-2", "6.1-3")
def every_lane_joins(tester: Tester) -> None:
    """One jid and key, a CONFIG in each lane; the ranks have joined when all are answered."""
    job = LanedTree(tester, slots=64, join=False)
    job.join_rank(0)
    job.expect_configs()
    for lane in range(job.lanes):
        tester.nothing("6.1-9")
        job.joined(0, "PENDING", "6.1-9")
        job.grant_lane(lane)
    job.all_joined(clause="6.1-9")


@tree_script("6.1-13", "6.1-14", "6.1-15", "6.1-16", "6.1-4")
def how_messages_are_cut(tester: Tester) -> None:
    """Around the lengths from which a message takes another lane. Each lane counts its positions; sid and mid are the
    message's."""
    job = LanedTree(tester, slots=128)
    first = [0] * job.lanes
    lengths = (1, 2 * MIN_RUN - 1, 2 * MIN_RUN, 2 * MIN_RUN + 1, MIN_RUN, job.lanes * MIN_RUN + 3)
    for mid, segments in enumerate(lengths):
        data = numbers(segments)
        job.post(0, data)
        packets = contributions(job, data, segments, mid, first)
        job.expect_lanes(*packets, clause="6.1-14")
        job.not_done()
        answered(job, packets)
        job.done(0, (data * 3).astype("<i4"), clause="6.1-15")


@tree_script("6.1-14", "6.1-4", "8-3")
def a_lane_that_is_late(tester: Tester) -> None:
    """The message is complete with the results of the last lane."""
    job = LanedTree(tester, slots=64)
    segments = job.lanes * MIN_RUN
    data = numbers(segments)
    job.post(0, data)
    packets = contributions(job, data, segments, 0, [0] * job.lanes)
    job.expect_lanes(*packets, clause="6.1-14")
    for lane in reversed(range(job.lanes)):
        job.not_done(clause="6.1-14")
        answered(job, [each for each in packets if each.ceth["lane"] == lane])
        tester.everything()
    job.done(0, (data * 3).astype("<i4"), clause="6.1-15")


@tree_script("6.1-17", "11-2", "11-3")
def an_abort_in_one_lane(tester: Tester) -> None:
    """The job ends in all lanes, with the same status and the same members missing."""
    job = LanedTree(tester, slots=64)
    segments = job.lanes * MIN_RUN
    data = numbers(segments)
    job.post(0, data)
    job.expect_lanes(*contributions(job, data, segments, 0, [0] * job.lanes))
    lost = int(Status.PEER_LOST)
    job.down_lane(job.lanes - 1, Opcode.ABORT, status=lost, seg=1, node_bitmap=0b1)
    job.done(0, status="PEER_LOST", missing=1, missing_kind=1, clause="6.1-17")
    seen = [packet for _, packet in tester.everything(job.lanes)]
    left = {packet.ceth["lane"]: packet.ceth["status"] for packet in seen if packet.opcode == Opcode.LEAVE}
    others = set(range(job.lanes)) - {job.lanes - 1}
    assert others <= set(left), f"LEAVE came in the lanes {sorted(left)}"
