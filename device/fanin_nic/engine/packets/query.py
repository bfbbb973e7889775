"""QUERY of a device below for the state of the job (SPEC.md, 10.8)."""

from fanin_nic.engine.jobs.membership import set_missing
from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.records.accessors import header_at
from fanin_nic.engine.records.tables import JobState
from fanin_nic.native.compiled import internal
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode


@internal
def on_query(e, job, header, source):
    answer = header_at(e, packet(e, job, Opcode.STATUS, source))
    answer.source = header.source
    answer.token = header.token
    if job.state < JobState.ACTIVE:
        answer.status = Status.PENDING
        set_missing(job, answer)
