"""The fields of a work request, with real devices: ranks, chunk and operation of each; after a refusal or failure a
request is posted again in the same job."""

import contextlib
import ctypes
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fanin import Communicator, Job, JobNode, errors
from fanin.verbs import CQ, MR, PD, Address, CollectiveQP, CollectiveWR, Context, packed
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_wire.abi import MAX_CHILDREN, DType, Op, Status, WqeFlag
from tests.e2e.fabrics import BOUND_S, Bench, assert_released, statuses
from tests.e2e.members import describe, job, run_ranks, socket_of

NODES = 2
ROUTES = [("tree", NODES), ("ring", NODES), ("local", 1)]
SUM, MAX, F32, I64 = Op.SUM, Op.MAX, DType.F32, DType.I64
ELEMENTS = 3000  # of f32: two whole segments of a lease and a part
REGION = 1 << 16


@pytest.fixture(scope="module", params=[1, 2], ids=["one lane", "two lanes"])
def running(bench: Bench, request: pytest.FixtureRequest) -> Running:
    return bench.up(Shape(NODES, MAX_CHILDREN, lanes=request.param))


@dataclasses.dataclass
class Member:
    """A queue pair that has joined, and registered memory: data, and from RESULTS on results."""

    number: int
    qp: CollectiveQP
    cq: CQ
    mr: MR

    def request(self, dtype: str = "f4", op: int = SUM, count: int = ELEMENTS, **changes: Any) -> CollectiveWR:
        """Over the `count` elements at the start of the memory."""
        code = {"f4": F32, "i8": I64}[dtype]
        size = count * np.dtype(dtype).itemsize
        wr = CollectiveWR(op, code, size, [Address(self.mr.address, self.mr.address + REGION // 2)])
        wr.source_lkey = wr.destination_lkey = self.mr.lkey
        return dataclasses.replace(wr, **changes)

    def fill(self, values: np.ndarray) -> None:
        self.mr.write(values.tobytes(), values.nbytes)

    def result(self, dtype: str = "f4", count: int = ELEMENTS) -> np.ndarray:
        return np.frombuffer(self.mr.buf, dtype, count, REGION // 2)

    def end(self) -> int:
        """Status of the next completion."""
        assert self.cq.wait(BOUND_S)
        return self.cq.poll(1)[1][0].status

    def do(self, wr: CollectiveWR) -> int:
        self.qp.post_send(wr)
        return self.end()


@contextlib.contextmanager
def joined(running: Running, route: str, size: int) -> Iterator[list[Member]]:
    placement, described = describe(running, size, route)
    with contextlib.ExitStack() as stack:

        def member(rank: int) -> Member:
            context = stack.enter_context(Context(socket_of(running, placement, rank)))
            pd, cq = PD(context), CQ(context)
            qp = CollectiveQP(pd, cq)
            qp.join(described.membership(rank), BOUND_S)
            return Member(rank, qp, cq, MR(pd, REGION))

        members = run_ranks(size, member)
        for one in members:
            if isinstance(one, BaseException):
                raise one
        yield members
        run_ranks(size, lambda rank: members[rank].qp.leave(BOUND_S))
    assert_released(running)


def all_do(members: list[Member], act: Callable[[Member], Any]) -> list[Any]:
    outcomes = run_ranks(len(members), lambda rank: act(members[rank]))
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


@pytest.mark.parametrize(("route", "nodes"), ROUTES)
def test_one_request_is_for_all_ranks_of_a_node(running: Running, route: str, nodes: int) -> None:
    """A leader of each node posts for its 64 ranks, by a list of their addresses."""
    ranks, count = MAX_CHILDREN, 1100  # i64: more than two segments
    placement, described = describe(running, ranks * nodes, route)
    nbytes = count * 8

    def lead(node: int) -> tuple[np.ndarray, np.ndarray]:
        first = placement.ranks[node][0]
        membership = dataclasses.replace(described.membership(first), rank_bitmap=2**ranks - 1)
        with Context(socket_of(running, placement, first)) as context:
            pd, cq = PD(context), CQ(context)
            qp, mr = CollectiveQP(pd, cq), MR(pd, (2 * ranks + 1) * nbytes)
            qp.join(membership, BOUND_S)
            memory = np.frombuffer(mr.buf, "i8")
            data, results = (memory[part * ranks * count :][: ranks * count].reshape(ranks, count) for part in (0, 1))
            data[:] = np.random.default_rng(node).integers(-(2**40), 2**40, data.shape)
            places = [mr.address + rank * nbytes for rank in range(ranks)]
            addresses = [Address(place, place + ranks * nbytes) for place in places]
            listed = packed(addresses)
            mr.write(listed, len(listed), 2 * ranks * nbytes)
            wr = CollectiveWR(SUM, I64, nbytes, addresses, list_address=mr.address + 2 * ranks * nbytes)
            wr.source_lkey = wr.destination_lkey = mr.lkey
            qp.post_send(wr)
            assert cq.wait(BOUND_S)
            assert cq.poll(1)[1][0].status == Status.SUCCESS
            qp.leave(BOUND_S)
            return data.sum(axis=0), results.copy()

    found = run_ranks(nodes, lead)
    total = sum(data for data, _ in found)
    for _, results in found:
        assert (results == total).all()
    assert_released(running)


@pytest.mark.parametrize(("route", "size"), [("tree", 4), ("ring", 4), ("local", 2)])
def test_each_request_has_its_chunk_and_operation(running: Running, route: str, size: int) -> None:
    with joined(running, route, size) as members:
        chunk = members[0].qp.lease.chunk
        for number, (op, dtype, wanted) in enumerate(
            [
                (SUM, "f4", None),
                (MAX, "f4", 256),
                (SUM, "i8", 512),
                (MAX, "i8", None),
                (SUM, "f4", chunk // 2),
                (SUM, "i8", 8),
            ]
        ):
            rows = np.random.default_rng(number).integers(-1000, 1000, (size, ELEMENTS)).astype(dtype)
            for member in members:
                member.fill(rows[member.number])
            before, at = statuses(running), members[0].qp.position
            changes = {"op": op, "chunk_length": wanted}
            ended = all_do(members, lambda member: member.do(member.request(dtype, **changes)))  # noqa: B023
            assert ended == [Status.SUCCESS] * size
            segments = -(-rows[0].nbytes // (wanted or chunk))
            assert members[0].qp.position - at == segments
            if route == "tree":  # each went up once, unless it was asked for again
                sent = [
                    after["counters"]["tx_CONTRIBUTION"] - before[name]["counters"]["tx_CONTRIBUTION"]
                    for name, after in statuses(running).items()
                    if name.startswith("nic")
                ]
                assert min(sent) >= segments
            expected = rows.sum(axis=0) if op == SUM else rows.max(axis=0)
            for member in members:
                assert member.result(dtype).tobytes() == expected.tobytes()


SUBSET = "names only some of the .*, but all members of a job take part in every operation"
REFUSED: list[tuple[type[errors.FaninError], str, dict[str, Any]]] = [
    (errors.NotSupported, f"0x1 {SUBSET}", {"node": 0b01}),
    (errors.InvalidRequest, "0x7 does not name the nodes", {"node": 0b111}),
    (errors.InvalidRequest, "does not name the ranks", {"rank": 1 << 9}),
    (errors.InvalidRequest, "jid is 99, but", {"jid": 99}),
    (errors.InvalidRequest, "route is 0, but", {"route": 0}),
    (errors.InvalidRequest, "chunk is 48, not", {"chunk_length": 48}),
    (errors.InvalidRequest, "chunk is 8192, not", {"chunk_length": 8192}),
    (errors.InvalidRequest, "chunk is 4, not", {"chunk_length": 4}),
    (errors.SegmentBufferError, "seg is 5, but position", {"seg": 5}),
    (errors.InvalidRequest, "flags 0x4001", {"flags": 0x4001}),
    (errors.InvalidRequest, "multiple of the element size 4", {"length": 6}),
    (errors.InvalidRequest, "multiple of the element size 4", {"block": 6}),
    (errors.InvalidRequest, "9 segments from sid 0", {"segments": 9}),
    (errors.InvalidRequest, "1 segments from sid 3", {"segments": 1, "sid": 3}),
    (errors.InvalidRequest, "more than 1073741823 segments", {"length": 1 << 62, "segments": 1}),
    (errors.NotSupported, "LAND", {"op": Op.LAND}),
    (errors.NotSupported, "contributor class 3", {"contributors": 3}),
    (errors.InvalidRequest, "without contributors", {"contributors": 0}),
]


@pytest.mark.parametrize("route", ["tree", "ring"])
def test_what_is_refused_is_posted_again(running: Running, route: str) -> None:
    """The others wait meanwhile, and get the result: nothing was posted, no position taken."""
    with joined(running, route, 4) as members:
        odd, *others = members
        for number, (kind, words, changes) in enumerate(REFUSED):
            for member in members:
                member.fill(np.full(ELEMENTS, member.number + number, "f4"))
            for member in others:
                member.qp.post_send(member.request())
            place = odd.qp.position, odd.qp.mid
            with pytest.raises(kind, match=words) as caught:
                odd.qp.post_send(odd.request(**changes))
            assert caught.value.remedy
            assert (odd.qp.position, odd.qp.mid) == place
            odd.qp.post_send(odd.request())
            assert all_do(members, Member.end) == [Status.SUCCESS] * 4
            assert all((member.result() == 6 + 4 * number).all() for member in members)


@pytest.mark.parametrize("flag", ["ADDRESS_LIST", "INLINE"])
def test_what_the_program_has_of_a_list_is_refused(running: Running, flag: str) -> None:
    """A list for one rank; in the same job the request then succeeds."""
    with joined(running, "tree", 2) as members:
        members[0].fill(np.ones(ELEMENTS, "f4"))
        if flag == "ADDRESS_LIST":
            with pytest.raises(errors.InvalidRequest, match="flag ADDRESS_LIST is required for several ranks"):
                members[0].qp.post_send(members[0].request(flags=int(WqeFlag[flag] | WqeFlag.SIGNALED)))
        else:
            with pytest.raises(errors.InvalidRequest, match="inline"):
                members[0].qp.post_send(members[0].request(inline=True))
        assert all_do(members, lambda member: member.do(member.request())) == [Status.SUCCESS] * 2


@pytest.mark.parametrize(("route", "size"), [("tree", 4), ("ring", 4), ("local", 2)])
def test_what_has_failed_is_posted_again(running: Running, route: str, size: int) -> None:
    """Memory that one rank may not use fails only this operation, on all ranks: even if the next ones are under way
    already, and more often than a lease has slots or a queue has places."""
    failed, fine = Status.LOCAL_PROTECTION_ERROR, Status.SUCCESS
    with joined(running, route, size) as members:
        for member in members:
            member.fill(np.full(ELEMENTS, member.number + 1, "f4"))

        def act(member: Member) -> list[int]:
            wrong = {"source_lkey": 77} if member.number == size - 1 else {}
            found = []
            for _ in range(90):
                for changes in (wrong, {}, wrong):
                    member.qp.post_send(member.request(**changes))
                found += [member.end() for _ in range(3)]
            return found

        assert all_do(members, act) == [[failed, fine, failed] * 90] * size
        assert all_do(members, lambda member: member.do(member.request())) == [fine] * size
        assert all((member.result() == sum(range(size + 1))).all() for member in members)


@pytest.mark.parametrize(("route", "size"), [("tree", 4), ("ring", 4), ("local", 2)])
def test_a_call_that_was_refused_or_has_failed_is_made_again(
    running: Running, monkeypatch: pytest.MonkeyPatch, route: str, size: int
) -> None:
    """On the same communicator, in every form. The last rank brings unmapped memory, as its device finds out; the
    program has been told, so closing the communicator does not report it."""
    monkeypatch.setenv("FANIN_STAGING", "0")  # devices read ordinary memory, not the library
    gone = np.ctypeslib.as_array((ctypes.c_double * ELEMENTS).from_address(4096))
    total = size * (size + 1) // 2

    def act(communicator: Communicator) -> None:
        data = np.full(ELEMENTS, communicator.rank + 1.0)
        wrong = gone if communicator.rank == size - 1 else data
        for _ in range(10):
            for call in (
                communicator.allreduce,
                lambda array: communicator.iallreduce(array).wait(BOUND_S),
                lambda array: communicator.allgather(array).sum(axis=0),
            ):
                with pytest.raises(errors.NotSupported):
                    communicator.allreduce(data, op="land")
                with pytest.raises(errors.LocalProtectionError):
                    call(wrong)
                assert (call(data) == total).all()
        communicator.flush(BOUND_S)

    with job(running, size, route) as members:
        outcomes = run_ranks(size, lambda rank: act(members[rank]))
        assert outcomes == [None] * size
    assert_released(running)


def test_a_job_of_a_part_of_the_members_is_a_job_of_its_own(running: Running) -> None:
    """The remedy for a bitmap that names only some of a job's nodes."""
    nic = running.fabric.nics[0]
    described = Job(jid=4711, key=1, nodes=(JobNode(nic.address, (0, 1)),))
    with joined(running, "tree", 4) as members:

        def act(rank: int) -> float:
            with Context(running.state.socket(nic.name)) as context:
                pd, cq = PD(context), CQ(context)
                qp, mr = CollectiveQP(pd, cq), MR(pd, REGION)
                qp.join(described.membership(rank), BOUND_S)
                some = Member(rank, qp, cq, mr)
                some.fill(np.full(ELEMENTS, rank + 1, "f4"))
                assert some.do(some.request()) == Status.SUCCESS
                value = float(some.result()[-1])
                qp.leave(BOUND_S)
                return value

        assert run_ranks(2, act) == [3.0, 3.0]
        assert all_do(members, lambda member: member.do(member.request())) == [Status.SUCCESS] * 4
