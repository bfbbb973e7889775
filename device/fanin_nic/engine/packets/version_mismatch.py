"""Packets of another version of the protocol are dropped, but members that form a job learn of the mismatch.

In every version the BTH and the first 32 bytes of the CETH mean the same. A device answers a CONFIG of another version
with CONFIG_ACK, VERSION_MISMATCH, in its own version.
"""

from fanin_nic.engine.jobs.config_leave_tx import forwards_config
from fanin_nic.engine.jobs.lease import find_job
from fanin_nic.engine.jobs.membership import refuse_config
from fanin_nic.engine.records.accessors import ZERO, count, job_at
from fanin_nic.engine.records.function_table import abort
from fanin_nic.engine.records.tables import Counter, JobState
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode


@internal
def on_other_version(e, header, source):
    """Event: a packet of another version, of whose header only the common part can be understood."""
    if (
        header.opcode == Opcode.CONFIG_ACK
        and header.status == Status.VERSION_MISMATCH
        and is_awaited_answer(e, header, source)
    ):
        count(e, Counter.RX_FIRST + (header.opcode & 15))
        job = job_at(e, find_job(e, header.jid) - 1)
        job.peer_version = header.ceth_version
        abort(e, job, Status.VERSION_MISMATCH, 0, ZERO)
        return
    count(e, Counter.DROP_VERSION)
    if header.opcode == Opcode.CONFIG:
        refuse_config(e, header, source, Status.VERSION_MISMATCH, 0)


@internal
def is_awaited_answer(e, header, source):
    """Whether the sender is the device whose CONFIG_ACK a job waits for."""
    found = find_job(e, header.jid)
    if not found:
        return False
    job = job_at(e, found - 1)
    asked = job.next_address if forwards_config(job) else job.parent_address
    return job.key == header.key and job.state == JobState.CONFIGURING and asked == source
