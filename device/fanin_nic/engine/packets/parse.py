"""Parsing of a packet: headers, job, sender, and the handler of its opcode (steps S3 and S403)."""

from fanin_nic.engine.jobs import leave, membership
from fanin_nic.engine.jobs.abort import abort_above, send_abort
from fanin_nic.engine.jobs.lease import find_job
from fanin_nic.engine.jobs.quota import is_remote_tombstone
from fanin_nic.engine.jobs.tombstone import create_tombstone
from fanin_nic.engine.output.encapsulate import packet
from fanin_nic.engine.packets import header_prediction, version_mismatch
from fanin_nic.engine.packets.from_above import dispatch_next, dispatch_parent
from fanin_nic.engine.packets.from_below import dispatch_below
from fanin_nic.engine.packets.sender import is_from_below, is_from_next, is_from_parent, on_keepalive
from fanin_nic.engine.records.accessors import U64, ZERO, count, header_at, job_at
from fanin_nic.engine.records.tables import MAX_CHILDREN, Counter, JobState
from fanin_nic.native.codec import decode_header
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, load_u8
from fanin_wire.abi import Status
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE, TRANSPORT_SIZE, WIRE_VERSION, Opcode

LAST_STATUS = int(max(Status))
NAK_INTERVAL = U64(1_000_000)  # ns


@internal
def on_packet(e, address, length, source):
    """Event: a packet with a right ICRC. address: of its BTH; length: bytes from there to the ICRC; source: IPv4."""
    if length >= TRANSPORT_SIZE and header_prediction.take_predicted(e, address, length, source):
        return
    if length < 12:
        count(e, Counter.DROP_SHORT)
    elif load_u8(address) < FIRST_OFFLOAD_OPCODE:
        count_ordinary(e)
    elif length < TRANSPORT_SIZE:
        count(e, Counter.DROP_SHORT)
    else:
        header = header_at(e, e.actions)  # the spare record behind the table
        decode_header(address, address_of(header))
        if header.version != 0:
            count(e, Counter.DROP_VERSION)
        elif header.ceth_version != WIRE_VERSION:
            version_mismatch.on_other_version(e, header, source)
        elif U64(header.length) + U64(header.padcount) != U64(length) - U64(TRANSPORT_SIZE):
            count(e, Counter.DROP_LENGTH)
        elif header.source >= MAX_CHILDREN or header.opcode > Opcode.KEEPALIVE:
            count(e, Counter.DROP_UNKNOWN_OPCODE)
        else:
            count(e, Counter.RX_FIRST + (header.opcode & 15))
            if header.status > LAST_STATUS:  # perhaps of a later version: ranks get a known one
                header.status = Status.ABORTED
            dispatch(e, header, U64(address) + U64(TRANSPORT_SIZE), source)


@internal
def count_ordinary(e):
    """A packet of ordinary RDMA traffic (step S5). This device has no queue pairs for it."""
    count(e, Counter.ORDINARY_PACKETS)


@internal
def dispatch(e, header, payload, source):
    """Find the job of a packet and call its handler. CONFIG comes first, because it needs no running job."""
    found = find_job(e, header.jid)
    if header.opcode == Opcode.CONFIG:
        membership.on_config(e, found, header, payload, header.length, source)
    elif not found or job_at(e, found - 1).key != header.key:
        on_unknown_job(e, found, header, source)
    elif job_at(e, found - 1).state == JobState.ABORTED:
        on_ended_job(e, job_at(e, found - 1), header, source)
    elif header.opcode == Opcode.KEEPALIVE:
        on_keepalive(e, job_at(e, found - 1), header, source)
    elif is_from_parent(job_at(e, found - 1), header.opcode, source):
        dispatch_parent(e, job_at(e, found - 1), header, payload)
    elif is_from_next(job_at(e, found - 1), header.opcode, source):
        dispatch_next(e, job_at(e, found - 1), header, payload)
    elif is_from_below(e, job_at(e, found - 1), header, source):
        dispatch_below(e, job_at(e, found - 1), header, payload, source)
    else:
        count(e, Counter.DROP_SENDER)


@internal
def on_unknown_job(e, found, header, source):
    """A packet of a job or incarnation unknown here. LEAVE is acknowledged: the job has been left."""
    spare = job_at(e, e.jobs)
    spare.jid = header.jid
    spare.key = header.key
    if header.opcode == Opcode.LEAVE:
        leave.acknowledge_leave(e, spare, source, header.source)
        if header.status and not found:
            create_tombstone(e, header, source)
    elif found:
        count(e, Counter.DROP_KEY)
    else:
        send_nak(e, spare, header, source)


@internal
def send_nak(e, job, header, source):
    """NAK to the sender of a packet of a job that this device takes no part in."""
    count(e, Counter.DROP_UNKNOWN_JOB)
    if may_be_nacked(header.opcode) and not is_invitation(header) and e.now >= e.next_nak:
        e.next_nak = e.now + NAK_INTERVAL
        answer = header_at(e, packet(e, job, Opcode.NAK, source))
        answer.status = Status.NOT_CONFIGURED
        answer.source = header.source


@internal
def may_be_nacked(opcode):
    """Only packets that a running job sends unasked are answered, never an answer."""
    return opcode in (Opcode.CONTRIBUTION, Opcode.PROBE, Opcode.QUERY, Opcode.KEEPALIVE)


@internal
def is_invitation(header):
    """Whether a KEEPALIVE went to a multicast group, so also to devices outside of its job."""
    return header.opcode == Opcode.KEEPALIVE and header.node_bitmap != ZERO


@internal
def on_ended_job(e, job, header, source):
    """A packet of an ended job: answer with ABORT, and let its sender leave."""
    if header.opcode == Opcode.LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == Opcode.LEAVE_ACK and source in (job.parent_address, job.next_address):
        leave.on_leave_ack(e, job, source)
    elif is_remote_tombstone(job):  # the sender's place in the job is not known here
        send_nak(e, job, header, source)
    elif may_be_nacked(header.opcode) or header.opcode == Opcode.RESULT or header.opcode == Opcode.ACK:
        if job.has_parent and source == job.parent_address:
            abort_above(e, job)
        else:
            send_abort(e, job, source, header.source)
    else:
        count(e, Counter.DROP_ENDED)
