"""Segments of a node of a ring: it starts, adds, completes, and passes on."""

from typing import Any

import numpy as np

from fanin_conform.host import AHEAD, NicRing, Place
from fanin_conform.job import ALL, DATA, ONE, WANTS, f32
from fanin_conform.script import ring_script
from fanin_conform.tester import ANY, Tester
from fanin_wire.abi import DType, Op, Status
from fanin_wire.fields import Opcode

U8 = int(DType.U8)
INDEX, NODES = 1, 3
NEXT, PREVIOUS = 0b100, 0b001  # the other nodes, as bits
OWN = 0b010


def begun(tester: Tester, ranks: int = 1, segments: int = 3, **shape: object) -> tuple[NicRing, list[np.ndarray]]:
    """Node 1 of 3, whose ranks have posted so many segments: it starts 0, completes 1, and adds to 2."""
    job = NicRing(tester, ranks, index=INDEX, nodes=NODES, **shape)  # type: ignore[arg-type]
    parts = [np.arange(64, dtype="<f4") + 100 * number for number in range(segments)]
    data = np.concatenate(parts)
    for rank in range(ranks):
        job.post(rank, data)
    return job, [part * ranks for part in parts]


@ring_script("9-1", "9-2", "9-4", "4-1", "4-4", "4-8", "9-12")
def the_start(tester: Tester) -> None:
    """The node that starts a position sends its share to the next, and names all others."""
    job, parts = begun(tester)
    wants = job.contributed(0, NEXT | PREVIOUS, parts[0], rank_bitmap=OWN)
    tester.expect(wants, clause="9-4")


@ring_script("9-5", "9-6", "9-7", "9-12", "9-15", "9-16", "9-18", "4-13", "12-7")
def the_middle(tester: Tester) -> None:
    """A node that gets a partial acknowledges it, adds its share, and passes it on without its bit."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.contribute(2, OWN | NEXT, parts[2])  # node 0 has started position 2
    passed = job.contributed(2, NEXT, parts[2] * 2, rank_bitmap=PREVIOUS | OWN)
    (ack, _) = tester.expect(job.ack(2), passed, clause="9-7")
    assert ack.ceth["node_bitmap"] & 1, "the ACK does not show the CONTRIBUTION as stored"
    assert not ack.ceth["rank_bitmap"] & 1, "the ACK shows a RESULT that nobody has sent"


@ring_script("9-9", "9-10", "9-11", "9-13", "9-14", "4-9", "4-26")
def the_completion(tester: Tester) -> None:
    """The node that finds no other bit completes, and its RESULT goes round; its own ranks have it."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.acknowledge(0, 1, 0)
    job.contribute(1, OWN, parts[1] * 2)
    result = job.resulted(1, NEXT | PREVIOUS, parts[1] * 3, rank_bitmap=NEXT | PREVIOUS)
    tester.expect(job.ack(1), result, clause="9-9 9-13")
    job.acknowledge(1, 1, 1)
    job.contribute(2, OWN | NEXT, parts[2])
    tester.expect(job.ack(2), job.contributed(2, NEXT, parts[2] * 2))
    job.acknowledge(2, 1, 0)
    job.result(0, OWN | NEXT, parts[0] * 3)
    tester.expect(job.ack(0), job.resulted(0, NEXT, parts[0] * 3), clause="9-11")
    job.acknowledge(0, 1, 1)
    job.not_done()
    job.result(2, OWN, parts[2] * 3)
    (ack,) = tester.expect(job.ack(2), clause="9-11")
    assert ack.ceth["rank_bitmap"] & 1, "the ACK does not show the RESULT as stored"
    job.done(0, np.concatenate(parts) * 3)


@ring_script("9-8", "9-6", "9-15", "7.1-22")
def a_partial_before_the_ranks(tester: Tester) -> None:
    """It is acknowledged at once, and goes on when all ranks of the node have posted."""
    job = NicRing(tester, 2, index=INDEX, nodes=NODES)
    data = np.arange(192, dtype="<f4")
    job.places = {position: Place(0, position) for position in range(3)}
    job.contribute(2, OWN | NEXT, data[128:])
    tester.expect(job.ack(2), clause="9-8")
    job.post(0, data)
    job.look()
    tester.nothing("9-6")
    job.post(1, data)
    expected = [
        job.contributed(0, NEXT | PREVIOUS, data[:64] * 2),
        job.contributed(2, NEXT, data[128:] * 3, contributions=3),
    ]
    seen = tester.everything(2)
    wrong = [
        difference
        for each in expected
        for to, packet in seen
        if packet.ceth["position"] == each.ceth["position"] and to == each.to
        for difference in each.differences(packet)
        if not difference.startswith("contributions")
    ]
    assert len(seen) == 2, f"{len(seen)} packets, not 2"
    assert not wrong, f"{[str(packet) for _, packet in seen]}: {wrong}"


@ring_script("9-15", "9-18", "9-19", "9-20", "9-17", "6-33")
def what_comes_again_is_acknowledged(tester: Tester) -> None:
    """A duplicate changes nothing, and gets an ACK that shows the state."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.contribute(2, OWN | NEXT, parts[2])
    tester.expect(job.ack(2), job.contributed(2, NEXT, parts[2] * 2))
    for _ in range(2):
        job.contribute(2, OWN | NEXT, parts[2])
        (ack,) = tester.expect(job.ack(2), clause="9-15")
        assert ack.ceth["node_bitmap"] & 1, "the ACK does not show the CONTRIBUTION as stored"


@ring_script("9-22", "9-17", "9-18", "9-19")
def the_maps_of_an_ack(tester: Tester) -> None:
    """Bit k is position base + k; one that the node starts counts as stored, one that has not come does not."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.from_previous(Opcode.PROBE, **(job.place(0) | {"token": 99}))
    (ack,) = tester.expect(job.ack(0, token=99), clause="9-22")
    maps = ack.ceth["node_bitmap"] & 0b111, ack.ceth["rank_bitmap"] & 0b111
    assert maps == (0b001, 0b000), f"the maps are {maps[0]:#b} and {maps[1]:#b}"
    job.contribute(2, OWN | NEXT, parts[2])
    tester.expect(job.ack(2), job.contributed(2, NEXT, parts[2] * 2))
    job.from_previous(Opcode.PROBE, **(job.place(0) | {"token": 98}))
    (ack,) = tester.expect(job.ack(0, token=98), clause="9-18")
    assert ack.ceth["node_bitmap"] & 0b111 == 0b101, f"the map is {ack.ceth['node_bitmap'] & 7:#b}"


@ring_script("9-25", "9-26", "8-1", "8-2", "8-14", "9-27", "8-3")
def a_hop_that_is_lost(tester: Tester) -> None:
    """Without ACK the node asks; what the ACK does not show as stored goes out again, and nothing else does."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.contribute(2, OWN | NEXT, parts[2])
    tester.expect(job.ack(2), job.contributed(2, NEXT, parts[2] * 2))
    asked = job.question("9-25")
    assert not asked.payload, "the PROBE has data"
    assert asked.ceth["token"], "the PROBE has no token"
    assert asked.ceth["source"] == INDEX, "the PROBE has another source"
    base = asked.ceth["position"]
    stored = 0b100 if base == 0 else 0
    job.acknowledge(base, stored, 0, token=asked.ceth["token"])
    seen = tester.everything(1)
    positions = [packet.ceth["position"] for _, packet in seen if packet.opcode == Opcode.CONTRIBUTION]
    assert base in positions, f"position {base} does not go out again"
    assert base != 0 or positions == [0], f"{positions} go out again, and 2 is stored"


@ring_script("9-25", "8-1", "8-15", waits=True)
def questions_become_rarer(tester: Tester) -> None:
    """Each PROBE without an answer doubles the time to the next; no data go out meanwhile."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    for _ in range(8):
        job.from_next(Opcode.KEEPALIVE)
        job.from_previous(Opcode.KEEPALIVE)
        assert tester.spend(0.25) == [], "data go out again on suspicion"
    number = len(tester.questions)
    assert 3 <= number <= 14, f"{number} PROBEs in two seconds"


@ring_script("9-21", "9-15", waits=True)
def a_result_acknowledges(tester: Tester) -> None:
    """A RESULT for a position shows that its CONTRIBUTION has arrived: no more questions about it."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.result(0, OWN | NEXT, parts[0] * 3)
    tester.expect(job.ack(0), job.resulted(0, NEXT, parts[0] * 3))
    job.acknowledge(0, 0, 1)
    tester.questions.clear()
    for _ in range(4):
        job.from_next(Opcode.KEEPALIVE)
        job.from_previous(Opcode.KEEPALIVE)
        assert tester.spend(0.25) == [], "something goes out again"
    assert not tester.questions, "it asks about what is acknowledged"


@ring_script("9-23", "9-24", "6-24")
def the_window_of_a_ring(tester: Tester) -> None:
    """A node adds its data to p + W when p has its result, and all that it sent for p is acknowledged."""
    job = NicRing(tester, index=0, nodes=2, slots=4)  # W is 2; node 0 starts odd positions, and completes even ones
    data = np.arange(64 * 4, dtype="<f4")
    parts = [data[first : first + 64] for first in range(0, data.size, 64)]
    job.post(0, data)
    tester.expect(job.contributed(1, 0b10, parts[1]))
    job.acknowledge(1, 1, 0)
    job.result(1, 0b01, parts[1] * 2)
    tester.expect(job.ack(1))  # a device that adds its data in order does not add those of 3 before those of 2
    job.contribute(0, 0b01, parts[0])
    tester.expect(job.ack(0), job.resulted(0, 0b10, parts[0] * 2))
    job.contribute(2, 0b01, parts[2])
    tester.expect(job.ack(2), clause="9-24")  # its RESULT for 0 is not acknowledged
    job.acknowledge(0, 1, 1)
    tester.expect(job.resulted(2, 0b10, parts[2] * 2), job.contributed(3, 0b10, parts[3]), clause="9-24")


@ring_script("5-19", "5-15", "5-21", "5-22")
def packets_that_are_none(tester: Tester) -> None:
    """From elsewhere, with another index, key, slot or length: nothing changes, and no ACK comes."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    wrong = parts[2] * 66
    for changed in (
        {"sender": tester.addresses[3]},
        {"source": 2},
        {"key": job.key ^ 1},
        {"seg": 3},
        {"flags": 0x60 | DATA},
        {"op": 77},
        {"dtype": 77},
    ):
        job.contribute(2, OWN | NEXT, wrong, **changed)
        tester.nothing("5-19")
    job.result(0, OWN | NEXT, wrong, sender=tester.addresses[3])
    job.acknowledge(0, 1, 1, sender=tester.addresses[3])
    tester.nothing("5-22")
    job.contribute(2, OWN | NEXT, parts[2])
    tester.expect(job.ack(2), job.contributed(2, NEXT, parts[2] * 2), clause="5-22")


@ring_script("9-5", "7.1-6", "7.1-8", "11-18", "11-2", "11-5")
def a_partial_that_differs(tester: Tester) -> None:
    """Another operation, type, message or length than that of the ranks: OP_MISMATCH, to both neighbours."""
    others: list[dict[str, Any]] = [{"op": int(Op.MAX)}, {"mid": 9}, {"dtype": int(DType.I32)}]
    for changed in others:
        job, parts = begun(tester)
        tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
        job.contribute(2, OWN | NEXT, parts[2], **changed)
        job.done(0, status="OP_MISMATCH", clause="11-18 7.1-6")
        seen = tester.everything()
        told = {to for to, packet in seen if packet.opcode == Opcode.ABORT and packet.ceth["jid"] == job.jid}
        assert told >= {job.next, job.previous}, f"ABORT goes to {sorted(told)} only"


@ring_script("9-9", "12-25", "12-24")
def the_mean_is_divided_where_it_completes(tester: Tester) -> None:
    """A partial of MEAN travels as the sum; the completing node divides by the ranks."""
    job = NicRing(tester, 2, index=INDEX, nodes=NODES)
    data = np.repeat(f32(1, 2, 3), 64)
    for rank in range(2):
        job.post(rank, data, op="MEAN")
    mean: dict[str, Any] = {"op": int(Op.MEAN)}
    tester.expect(job.contributed(0, NEXT | PREVIOUS, data[:64] * 2, **mean), clause="12-24")
    job.contribute(1, OWN, data[64:128] * 4, **mean)
    tester.expect(job.ack(1), job.resulted(1, NEXT | PREVIOUS, data[64:128], **mean), clause="12-25")


@ring_script("9-3", "12-9", "9-2", "9-4")
def a_fixed_start(tester: Tester) -> None:
    """In a job that is reproducible in its shape node 0 starts every position."""
    job = NicRing(tester, index=0, nodes=NODES, flags=7)
    data = np.arange(64 * 3, dtype="<f4")
    positions = job.post(0, data)
    parts = [data[64 * p : 64 * p + 64] for p in positions]
    tester.expect(*(job.contributed(p, 0b110, parts[p]) for p in positions), clause="9-3")


@ring_script("12-7", "12-6")
def the_order_of_a_ring(tester: Tester) -> None:
    """A node folds its own ranks first, and then adds the partial: these numbers have another sum in other orders."""
    for flags in (0, 2):
        job = NicRing(tester, 2, index=INDEX, nodes=NODES, flags=flags)
        base = np.zeros(192, "<f4")
        first, second = base.copy(), base.copy()
        first[128:], second[128:] = 1e8, -1e8
        job.post(0, first)
        job.look()
        job.post(1, second)
        tester.expect(job.contributed(0, NEXT | PREVIOUS, base[:64]))
        job.contribute(2, OWN | NEXT, np.repeat(f32(1), 64), contributions=2)
        passed = job.contributed(2, NEXT, np.repeat(f32(1), 64))
        tester.expect(job.ack(2), passed, clause="12-7")


@ring_script("9-13", "9-14", "4-9", "6-26")
def a_result_that_nobody_wants_is_a_header(tester: Tester) -> None:
    """The RESULT has data as long as a node that has still to take it wants them."""
    job, parts = begun(tester)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.result(0, OWN | NEXT, parts[0] * 3, rank_bitmap=OWN)
    last = job.resulted(0, NEXT, None, dtype=1, contributions=ANY, rank_bitmap=0)
    tester.expect(job.ack(0), last, clause="9-14")


@ring_script("7.5-24", "9-12", "9-14")
def a_broadcast(tester: Tester) -> None:
    """Data of class ONE cross each link once: the node gives them to its ranks, and its RESULT may be a header."""
    job = NicRing(tester, index=INDEX, nodes=NODES)
    (position,) = job.post(0, b"", length=4, contributors="ONE", brings=(0, 0))
    fields = {"op": 0, "dtype": U8, "contributions": ANY}
    header = job.contributed(position, NEXT | PREVIOUS, None, flags=ONE | WANTS, rank_bitmap=OWN, **fields)
    tester.expect(header, clause="9-12")
    job.acknowledge(position, 1, 0)
    job.result(position, OWN | NEXT, b"data", flags=ONE | DATA, op=0, dtype=U8, contributions=3, rank_bitmap=OWN)
    last = job.resulted(position, NEXT, None, flags=ONE, rank_bitmap=0, **fields)
    tester.expect(job.ack(position), last, clause="9-14")
    job.acknowledge(position, 1, 1)
    job.done(0, b"data")


@ring_script("11-31", "7.2-7", "7.1-7")
def a_poisoned_partial(tester: Tester) -> None:
    """A status of an earlier node stays: the node passes it on without data, and the RESULT has it."""
    job, parts = begun(tester)
    status = int(Status.LOCAL_PROTECTION_ERROR)
    tester.expect(job.contributed(0, NEXT | PREVIOUS, parts[0]))
    job.contribute(2, OWN | NEXT, None, dtype=1, status=status, contributions=1)
    poison = job.contributed(2, NEXT, None, dtype=1, status=status, contributions=ANY, flags=ALL | WANTS)
    tester.expect(job.ack(2), poison, clause="11-31")


@ring_script("7.5-26", "7.5-2", "9-14", "7.5-24")
def the_root_of_a_broadcast(tester: Tester) -> None:
    """Its CONTRIBUTION has AHEAD, and does not ask for what it holds; the header of the RESULT ends the position."""
    job = NicRing(tester, index=INDEX, nodes=NODES)
    (position,) = job.post(0, b"data", contributors="ONE", wants=(0, 0))
    ahead = AHEAD if tester.profile.ahead else 0
    fields = {"op": 0, "dtype": U8, "contributions": 1, "rank_bitmap": 0}
    tester.expect(
        job.contributed(position, NEXT | PREVIOUS, b"data", flags=ONE | DATA | ahead, **fields), clause="7.5-26"
    )
    job.acknowledge(position, 1, 0)
    job.result(position, OWN | NEXT, None, flags=ONE, op=0, dtype=U8, contributions=3, rank_bitmap=0)
    last = job.resulted(position, NEXT, None, flags=ONE, op=0, dtype=U8, contributions=ANY, rank_bitmap=0)
    tester.expect(job.ack(position), last, clause="9-14")
    job.acknowledge(position, 1, 1)
    job.done(0)
