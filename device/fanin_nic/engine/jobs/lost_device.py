"""The device whose loss ends a job: a neighbour that is silent or was restarted, to which no long packets pass, or one
that another device has named.

A bitmap of missing members can not name a switch: all that lies behind it is missing. So its address is kept beside the
bitmap, goes to the neighbours in ABORT and LEAVE, and to the ranks in their completions.
"""

from fanin_nic.engine.records.accessors import U64
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status
from fanin_wire.status import NAMING_A_DEVICE

FREE, ABORTED = int(JobState.FREE), int(JobState.ABORTED)
PEER_LOST = int(Status.PEER_LOST)
ADDRESS_MASK = U64(0xFFFFFFFF)


@internal
def abort_naming(e, job, status, scope, missing, address):
    """End a job with a status, once. address: IPv4 of the device that is lost, or at the other end of a path; 0: not
    one, or not known. Only those of NAMING_A_DEVICE have one."""
    if status in NAMING_A_DEVICE and job.state != ABORTED and job.state != FREE:
        job.lost_device = address
    abort(e, job, status, scope, missing)


@internal
def abort_lost(e, job, scope, missing, address):
    """End a job that has lost a neighbour."""
    abort_naming(e, job, PEER_LOST, scope, missing, address)


@internal
def lost_device_in(header):
    """The lost device that an ABORT or a LEAVE names; 0: none."""
    return U64(header.rank_bitmap) & ADDRESS_MASK
