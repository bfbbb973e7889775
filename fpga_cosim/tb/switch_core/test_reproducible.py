"""Jobs in the order of the bits: their slots, the buffers of all of them at once, and a job that gets none."""

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from fanin_conform.datagram import dissect
from fanin_wire.abi import DType, JobFlag, Op, Status
from fanin_wire.fields import Opcode
from fanin_wire.layers import CONFIG_ACK
from fpga_cosim.tb.one_job import JOB, config, contribution
from fpga_cosim.tb.switch_core.test_switch_core import compare
from fpga_cosim.tb.target import RtlTarget, build
from fpga_cosim.tb.verilated import Module

NOW_US, ASKED, ELEMENTS = 1_000_000, 32, 256
RUN, SHAPE, WIDE = (int(flag) for flag in (JobFlag.REPRODUCIBLE_RUN, JobFlag.REPRODUCIBLE_SHAPE, JobFlag.WIDE))
# Children of a job, and its slots: each has a buffer for every child but the first, and there are 32 buffers
LEASES = {1: 32, 2: 32, 3: 16, 4: 8, 5: 8, 6: 4, 9: 4}
BITS = {2: (0, 1), 3: (3, 40, 63), 5: (0, 1, 2, 3, 4), 9: (1, 2, 3, 5, 8, 13, 21, 34, 55)}


def answer(target: RtlTarget, bit: int, mask: int, flags: int) -> tuple[Status, int]:
    """Status and slots of the CONFIG_ACK to a child that joins."""
    address = target.addresses[0]
    frame = config(address, bit, mask, flags=flags, slots=ASKED)
    packets = [dissect(each.data) for each in target.exchange_frames(NOW_US, [frame])]
    (packet,) = (each for each in packets if each.ceth["source"] == bit)
    assert packet.opcode == Opcode.CONFIG_ACK
    return Status(packet.ceth["status"]), CONFIG_ACK(packet.payload).slots


@pytest.mark.parametrize("children", LEASES)
def test_slots_of_a_job(module: Module, children: int) -> None:
    status, slots = answer(RtlTarget(1, module), 0, (1 << children) - 1, RUN)
    assert (status, slots) == (Status.SUCCESS if children == 1 else Status.PENDING, LEASES[children])


@pytest.mark.parametrize(("children", "lowest"), [(10, 0), (64, 0), (10, 7)])
def test_too_many_children(module: Module, children: int, lowest: int) -> None:
    mask = (1 << children) - 1 << lowest
    assert answer(RtlTarget(1, module), lowest, mask & 2**64 - 1, RUN) == (Status.NO_RESOURCES, 0)
    assert answer(RtlTarget(1, module), lowest, mask & 2**64 - 1, 0) == (Status.PENDING, ASKED)


@pytest.mark.parametrize("flags", [WIDE, SHAPE, RUN | WIDE, RUN | SHAPE, RUN | SHAPE | WIDE])
def test_wide_partials_are_refused(module: Module, flags: int) -> None:
    assert answer(RtlTarget(1, module), 0, 1, flags)[0] == Status.NOT_SUPPORTED


def test_a_switch_without_buffers(seed: int) -> None:
    module = build({"REPRODUCIBLE": 0})
    assert answer(RtlTarget(1, module), 0, 1, RUN)[0] == Status.NOT_SUPPORTED
    assert compare(module, seed, 2000, reproducible=False)


@pytest.mark.parametrize("children", BITS)
def test_all_buffers_at_once(module: Module, children: int, generator: np.random.Generator) -> None:
    check_descending(module, BITS[children], LEASES[children], generator)


def test_a_large_lease(generator: np.random.Generator) -> None:
    """A job of 40 children in a switch with 256 slots in each lease."""
    check_descending(build({"JOBS": 2, "LEASE": 8}), range(3, 43), 4, generator)


def check_descending(module: Module, bits: Sequence[int], slots: int, generator: np.random.Generator) -> None:
    """Children of a job with so many slots come from the last to the first, each to all slots; then again."""
    children = len(bits)
    target = RtlTarget(children, module)
    of = dict(zip(bits, target.addresses, strict=True))
    mask = sum(1 << bit for bit in bits)
    for bit in bits:
        target.exchange_frames(NOW_US, [config(of[bit], bit, mask, flags=RUN, slots=ASKED)])
    code = {"op": int(Op.SUM), "dtype": int(DType.F32)}
    data = generator.standard_normal((2 * slots, children, ELEMENTS)).astype("<f4")
    for lease in (range(slots), range(slots, 2 * slots)):
        sent = [
            contribution(JOB, of[bit], bit, position, data[position][place], seg=position % slots, **code)
            for place, bit in reversed(list(enumerate(bits)))
            for position in lease
        ]
        packets = [dissect(each.data) for each in target.exchange_frames(NOW_US, sent)]
        results = [each for each in packets if each.opcode == Opcode.RESULT]
        assert len(results) == len(sent)
        for position, group in itertools.groupby(results, lambda each: each.ceth["position"]):
            total = functools.reduce(np.add, data[position])
            assert {each.payload for each in group} == {total.tobytes()}, position
    assert children == 2 or not np.array_equal(total, functools.reduce(np.add, data[position][::-1]))
