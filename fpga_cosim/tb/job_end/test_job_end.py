"""The end of a job, clock by clock: the remaining children get ABORT, and the job is free when none remains."""

import pytest

from fpga_cosim.tb.steps import OPCODE, Steps
from fpga_cosim.tb.verilated import Module


@pytest.mark.parametrize(("left", "is_free"), [(0b0001, False), (0b1111, True)])
def test_abort(left: int, is_free: bool) -> None:
    end = Steps(Module("job_end"), mask=0b1111, joined=0b0111, left=left)
    assert not end.step(aborts=1)["buries"]
    told = end.step()
    assert (told["buries"], told["opcode"], told["bits"]) == (1, OPCODE["ABORT"], 0b0111 & ~left)
    for is_written in (0, 0, 1):  # it waits
        seen = end.step(is_written=is_written)
        assert (seen["buries"], seen["opcode"], seen["bits"], seen["is_done"]) == (0, 0, 0, 0)
    seen = end.step()
    assert (seen["is_done"], seen["frees"]) == (1, is_free)
    assert end.trace("is_done", 3) == [0, 0, 0]


@pytest.mark.parametrize(("left", "is_aged", "is_free"), [(0b10, 0, False), (0b11, 0, True), (0, 1, True)])
def test_a_job_that_is_empty_or_too_old(left: int, is_aged: int, is_free: bool) -> None:
    end = Steps(Module("job_end"), mask=0b11, joined=0b11, left=left)
    end.step(empties=1)
    seen = end.step(is_aged=is_aged)
    assert (seen["is_done"], seen["frees"], seen["opcode"]) == (1, is_free, 0)
