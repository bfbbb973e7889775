"""The device whose loss ends a job: a neighbour that is silent, was restarted, or gets no long packets; or one that
another device names.

A bitmap of missing members can not name a switch: all behind it are missing. So its address is kept beside the bitmap,
and goes to neighbours in ABORT and LEAVE, and to ranks in completions.
"""

from fanin_nic.engine.records.accessors import U64
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status
from fanin_wire.status import NAMING_A_DEVICE

ADDRESS_MASK = U64(0xFFFFFFFF)


@internal
def abort_naming(e, job, status, scope, missing, address):
    """End a job with a status, once. address: IPv4 of the device that is lost or at the other end of a path, for a
    status of NAMING_A_DEVICE; 0: not one, or not known."""
    if status in NAMING_A_DEVICE and job.state != JobState.ABORTED and job.state != JobState.FREE:
        job.lost_device = address
    abort(e, job, status, scope, missing)


@internal
def abort_lost(e, job, scope, missing, address):
    abort_naming(e, job, Status.PEER_LOST, scope, missing, address)


@internal
def lost_device_in(header):
    """Named by an ABORT or a LEAVE; 0: none."""
    return U64(header.rank_bitmap) & ADDRESS_MASK
