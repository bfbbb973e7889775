"""The work requests of the shim are those of the host library, byte for byte."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanin.call import Call
from fanin.collectives import collective
from fanin.driver import ffi as core
from fanin.verbs import CollectiveQP, Lease
from fanin_wire.abi import LKEY_PROCESS, DType, Op
from tests.mpi.planner import COLLECTIVES, ffi, library

RANKS = st.integers(2, 6)
SIZES = st.sampled_from([0, 1, 4, 8, 12, 16, 17, 4096, 4097, 8192, 10000])
CHUNK, JID, SLOTS = 4096, 0x12345678, 64
REGIONS = SimpleNamespace(lkey_of=lambda address, nbytes: LKEY_PROCESS)


def by_host_library(call: Call, rank: int, mid: int, position: int) -> list[bytes]:
    """Requests as the host library posts them, in a job on one node, with the stream where it is said to be."""
    membership = SimpleNamespace(jid=JID, node_count=1, rank_bitmap=1 << rank, route=0, flags=0)
    queue = SimpleNamespace(_require_joined=lambda: (lease, membership), mid=mid, position=position)
    lease = queue._granted = Lease(SLOTS, SLOTS, CHUNK)
    queue.membership = membership
    queue.segment_of = lambda work: CollectiveQP.segment_of(queue, work)
    queue.positions_of = lambda work: CollectiveQP.positions_of(queue, work)
    made = []
    for work in call.works(rank, REGIONS):
        wqe = CollectiveQP.wqe_of(queue, work)
        made.append(bytes(core.buffer(wqe)))
        queue.position, queue.mid = queue.position + wqe.segments, queue.mid + 1
    return made


def by_shim(call: Call, name: str, rank: int, mid: int, position: int) -> list[bytes]:
    """The same from the C planner; what only a post knows is filled in as the shim's stream does it."""
    terms = ffi.new("struct terms *", {"jid": JID, "chunk": CHUNK, "rank": rank, "node_bitmap": 1})
    terms.rank_bitmap = 1 << rank
    sizes = ffi.new("uint64_t[]", list(call.sizes) or [0])
    message = ffi.new(
        "struct message *",
        {
            "collective": COLLECTIVES[name],
            "root": call.root,
            "op": call.op,
            "dtype": call.dtype,
            "blocks": len(call.sizes),
            "source_lkey": LKEY_PROCESS,
            "destination_lkey": LKEY_PROCESS,
            "sizes": sizes,
            "source": 0 if call.source is None else call.source.ctypes.data,
            "destination": 0 if call.destination is None else call.destination.ctypes.data,
        },
    )
    wqes = ffi.new("struct fanin_wqe[]", library.fanin_mpi_most_requests(message))
    made = []
    for index in range(library.fanin_mpi_plan(terms, message, wqes)):
        wqes[index].mid |= mid + index
        wqes[index].seg = position % SLOTS
        position += wqes[index].segments
        made.append(bytes(ffi.buffer(ffi.addressof(wqes, index))))
    return made


def compare(call: Call, name: str, rank: int) -> None:
    assert by_shim(call, name, rank, 7, 61) == by_host_library(call, rank, 7, 61)


def whole(call: Call, rank: int, brings: bool, wants: bool, dtype: str = "u1") -> Call:
    """The same call with buffers: of the rank's own block, or of all, as the row has it."""
    total = sum(call.sizes)
    for name, side, has in (("source", call.row.brings, brings), ("destination", call.row.wants, wants)):
        nbytes = call.sizes[rank] if side.own else total
        if has and nbytes:
            memory = np.arange(nbytes, dtype=np.uint8)
            setattr(call, name, memory.view(dtype) if nbytes % np.dtype(dtype).itemsize == 0 else memory)
    return call


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(sorted(COLLECTIVES)), RANKS)
def test_movements_with_any_sizes(data: st.DataObject, name: str, ranks: int) -> None:
    row = collective(name.removesuffix("v") if name.endswith(("gatherv", "scatterv")) else name)
    rank, root = data.draw(st.integers(0, ranks - 1)), data.draw(st.integers(0, ranks - 1))
    root = root if row.has_root else 0
    if name == "barrier":
        sizes: tuple[int, ...] = ()
    elif name.endswith("v") or name == "reduce_scatter":
        sizes = tuple(data.draw(st.lists(SIZES, min_size=ranks, max_size=ranks)))
    else:
        sizes = (data.draw(SIZES),) * (ranks if row.divided else 1)
    if not any(sizes) and name != "barrier":
        return  # nothing is posted
    call = Call(name, row, sizes, root=root)
    if row.reduces:
        call.op, call.dtype = int(Op["BXOR"]), int(DType["U8"])
    call = whole(call, rank, row.brings.who.includes(rank, root), row.wants.who.includes(rank, root))
    if not row.reduces and name != "barrier" and call.source is None and call.destination is None:
        call.destination = np.zeros(0, np.uint8)  # bytes are what is moved, also where this rank has none
    compare(call, name, rank)


@pytest.mark.parametrize(("op", "dtype", "numpy"), [("SUM", "F32", "f4"), ("MAX", "I64", "i8"), ("PROD", "F64", "f8")])
def test_reductions_name_their_type(op: str, dtype: str, numpy: str) -> None:
    for name, root in (("allreduce", 0), ("reduce", 2)):
        call = Call(name, collective(name), (80000,), root=root, op=int(Op[op]), dtype=int(DType[dtype]))
        compare(whole(call, 2, True, True, numpy), name, 2)


@pytest.mark.parametrize("size", [(512 << 10) - 4, 512 << 10, (512 << 10) + 4, 3 << 20, (64 << 20) + 4])
@pytest.mark.parametrize("name", ["allreduce", "reduce", "broadcast"])
def test_a_long_block_is_cut_alike(name: str, size: int) -> None:
    row = collective(name)
    call = Call(name, row, (size,), root=1)
    if row.reduces:
        call.op, call.dtype = int(Op["SUM"]), int(DType["F32"])
    made = by_shim(whole(call, 1, True, True, "f4" if row.reduces else "u1"), name, 1, 7, 61)
    assert len(made) == -(-size // library.fanin_mpi_part_length(size)) <= 128
    compare(call, name, 1)


def test_long_uneven_calls_signal_now_and_then() -> None:
    sizes = tuple(range(1, 151))  # 150 requests
    call = whole(Call("allgatherv", collective("allgather"), sizes), 3, True, True)
    made = by_shim(call, "allgatherv", 3, 0, 0)
    assert len(made) == 150
    compare(call, "allgatherv", 3)


def test_no_bytes_no_request() -> None:
    call = Call("allreduce", collective("allreduce"), (0,), op=int(Op["SUM"]), dtype=int(DType["F32"]))
    assert by_shim(call, "allreduce", 0, 0, 0) == by_host_library(call, 0, 0, 0) == []
