"""The driver core as Python loads it, and its statuses as exceptions."""

import subprocess
import sys

import pytest

from fanin import errors
from fanin_wire.abi import Status
from fanin_wire.status import status_entry
from tests.waiting import BOUND_S

COLLECTED = f"""
import faulthandler, gc
from fanin.driver import ffi, library

faulthandler.dump_traceback_later({BOUND_S / 2:g}, exit=True)
core, unmapped = library(), []


def unmap(_):
    library().fanin_unmap(ffi.NULL, 0)  # as a region of memory that nobody refers to any more
    unmapped.append(True)


def collecting(cdecl, true=ffi._parser.parse_type_and_quals):
    gc.collect()  # by itself it comes at any allocation
    return true(cdecl)


ring = [ffi.gc(ffi.new("char *"), unmap)]
ring.append(ring)
del ring
ffi._parser.parse_type_and_quals = collecting
ffi.new("struct fanin_cqe[77]")  # a type of which the name is to be read
assert unmapped
"""


def test_memory_may_be_collected_amid_the_reading_of_a_type() -> None:
    """cffi then holds a lock under which it also makes functions at their first use."""
    ended = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, timeout=BOUND_S)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.unit
def test_every_status_has_an_exception() -> None:
    for status in set(Status) - {Status.SUCCESS}:
        error = errors.FaninError.of(status)
        assert type(error) is not errors.FaninError
        assert error.status == type(error)().status == status
        assert str(error) == str(status_entry(status))
    assert errors.FaninError.by_status[Status.PEER_LOST] is errors.PeerLost
    assert errors.PeerLost.__doc__ == status_entry(Status.PEER_LOST).meaning
    assert type(errors.FaninError.of(99)) is errors.FaninError
