"""Validation of packets about positions, of any sender."""

from fanin_nic.engine.records.accessors import ONE, U64, count
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.engine.slots.arithmetic import is_supported
from fanin_nic.engine.slots.contribution import contributor_class
from fanin_nic.native.compiled import internal
from fanin_wire.abi import ContributorClass
from fanin_wire.fields import Flag


@internal
def is_acceptable(e, job, header):
    """Whether a packet about a position is valid for its job; counts why not."""
    if job.state != JobState.ACTIVE and job.state != JobState.LEAVING:
        count(e, Counter.DROP_UNEXPECTED)
        return False
    if not is_in_lease(job, header):
        count(e, Counter.DROP_SLOT)
        return False
    return True


@internal
def is_in_lease(job, header):
    """Whether a packet names the slot that serves its position, and its data fit."""
    return header.seg == U64(header.position) & (U64(job.slots) - ONE) and header.length <= job.chunk


@internal
def is_computable(e, header):
    """Whether the device can compute with a packet's data. Those of a ONE position need no computing; NONE has none."""
    contributors = contributor_class(header.flags)
    if header.flags & Flag.HAS_DATA == 0 or contributors == ContributorClass.ONE:
        return contributors <= ContributorClass.ALL
    return contributors == ContributorClass.ALL and is_supported(e, header.op, header.dtype)
