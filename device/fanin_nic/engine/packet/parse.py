"""An arriving packet: is it ours, is it sound, may its sender say this, and who handles it (steps S3 and S403)."""

from __future__ import annotations

from fanin_nic.engine.control import leave, membership, version
from fanin_nic.engine.control.abort import abort
from fanin_nic.engine.control.blame import kind_below, kind_from_above, kind_from_others, kind_parent
from fanin_nic.engine.control.ending import abort_above, next_node, send_abort
from fanin_nic.engine.control.lease import find_job
from fanin_nic.engine.packet import ring, tree
from fanin_nic.engine.packet.encapsulate import packet
from fanin_nic.engine.recovery.suspects import named_nearer
from fanin_nic.engine.segment.arithmetic import CLASS_ALL, is_supported
from fanin_nic.engine.segment.contribute import CLASS_ONE, HAS_DATA, contributor_class
from fanin_nic.engine.state import ONE, U64, ZERO, bit_of, child_at, child_index, count, header_at, job_at
from fanin_nic.engine.tables import MAX_CHILDREN, Counter, JobState
from fanin_nic.native.codec import decode_header
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import address_of, load_u8
from fanin_wire.abi import Route, Status
from fanin_wire.fields import FIRST_OFFLOAD_OPCODE, TRANSPORT_SIZE, WAIT_BODY, WIRE_VERSION, Opcode

CONTRIBUTION, RESULT, PROBE = int(Opcode.CONTRIBUTION), int(Opcode.RESULT), int(Opcode.PROBE)
NEED, WAIT, ACK = int(Opcode.NEED), int(Opcode.WAIT), int(Opcode.ACK)
CONFIG, CONFIG_ACK = int(Opcode.CONFIG), int(Opcode.CONFIG_ACK)
LEAVE, LEAVE_ACK = int(Opcode.LEAVE), int(Opcode.LEAVE_ACK)
ABORT, NAK, KEEPALIVE = int(Opcode.ABORT), int(Opcode.NAK), int(Opcode.KEEPALIVE)
ACTIVE, ABORTED, LEAVING = int(JobState.ACTIVE), int(JobState.ABORTED), int(JobState.LEAVING)

RING = int(Route.RING)
NOT_CONFIGURED, PEER_LOST = int(Status.NOT_CONFIGURED), int(Status.PEER_LOST)
LAST_STATUS, STATUS_ABORTED = int(max(Status)), int(Status.ABORTED)
RX_FIRST, ORDINARY_PACKETS = int(Counter.RX_FIRST), int(Counter.ORDINARY_PACKETS)
DROP_SHORT, DROP_VERSION = int(Counter.DROP_SHORT), int(Counter.DROP_VERSION)
DROP_UNKNOWN_OPCODE, DROP_UNKNOWN_JOB = int(Counter.DROP_UNKNOWN_OPCODE), int(Counter.DROP_UNKNOWN_JOB)
DROP_KEY, DROP_SENDER = int(Counter.DROP_KEY), int(Counter.DROP_SENDER)
DROP_ENDED = int(Counter.DROP_ENDED)
DROP_SLOT, DROP_LENGTH, DROP_UNEXPECTED = int(Counter.DROP_SLOT), int(Counter.DROP_LENGTH), int(Counter.DROP_UNEXPECTED)
NAK_INTERVAL = U64(1_000_000)  # ns
WAIT_SIZE = WAIT_BODY.size


@internal
def on_packet(e, address, length, source):
    """Event: a packet with a right ICRC: `address` of its BTH, bytes from there to the ICRC, IPv4 `source`."""
    if length < 12:
        count(e, DROP_SHORT)
    elif load_u8(address) < FIRST_OFFLOAD_OPCODE:
        ordinary(e)
    elif length < TRANSPORT_SIZE:
        count(e, DROP_SHORT)
    else:
        header = header_at(e, e.actions)  # the spare record behind the table
        decode_header(address, address_of(header))
        if header.version != 0:
            count(e, DROP_VERSION)
        elif header.ceth_version != WIRE_VERSION:
            version.on_other_version(e, header, source)
        elif U64(header.length) + U64(header.padcount) != U64(length) - U64(TRANSPORT_SIZE):
            count(e, DROP_LENGTH)
        elif header.source >= MAX_CHILDREN or header.opcode > KEEPALIVE:
            count(e, DROP_UNKNOWN_OPCODE)
        else:
            count(e, RX_FIRST + (header.opcode & 15))
            if header.status > LAST_STATUS:  # of a later version, perhaps: ranks are told what they know
                header.status = STATUS_ABORTED
            dispatch(e, header, U64(address) + U64(TRANSPORT_SIZE), source)


@internal
def ordinary(e):
    """Ordinary RDMA traffic (step S5): counted; this device has no queue pairs for it yet, so nothing else happens."""
    count(e, ORDINARY_PACKETS)


@internal
def dispatch(e, header, payload, source):
    """Find the job; membership first, for it needs no running job."""
    found = find_job(e, header.jid)
    if header.opcode == CONFIG:
        membership.on_config(e, found, header, payload, header.length, source)
    elif not found or job_at(e, found - 1).key != header.key:
        without_job(e, found, header, source)
    elif job_at(e, found - 1).state == ABORTED:
        to_tombstone(e, job_at(e, found - 1), header, source)
    elif header.opcode == KEEPALIVE:
        on_keepalive(e, job_at(e, found - 1), header, source)
    elif from_parent(job_at(e, found - 1), header.opcode, source):
        from_the_parent(e, job_at(e, found - 1), header, payload)
    elif from_next(job_at(e, found - 1), header.opcode, source):
        from_the_next(e, job_at(e, found - 1), header, payload)
    elif from_below(e, job_at(e, found - 1), header, source):
        up(e, job_at(e, found - 1), header, payload, source)
    else:
        count(e, DROP_SENDER)


@internal
def without_job(e, found, header, source):
    """Nothing is known of this job, or of this incarnation. LEAVE is acknowledged all the same: it has been left."""
    spare = job_at(e, e.jobs)
    spare.jid = header.jid
    spare.key = header.key
    if header.opcode == LEAVE:
        leave.acknowledge_leave(e, spare, source, header.source)
        if header.status and not found:
            leave.remember(e, header, source)
    elif found:
        count(e, DROP_KEY)
    else:
        count(e, DROP_UNKNOWN_JOB)
        if answers_nak(header.opcode) and e.now >= e.next_nak:
            e.next_nak = e.now + NAK_INTERVAL
            answer = header_at(e, packet(e, spare, NAK, source))
            answer.status = NOT_CONFIGURED
            answer.source = header.source


@internal
def answers_nak(opcode):
    """Only what a living job sends of its own accord is answered; an answer never provokes one."""
    return opcode in (CONTRIBUTION, PROBE, KEEPALIVE)


@internal
def to_tombstone(e, job, header, source):
    """The job has ended: say so to whoever does not know, and let them leave."""
    if header.opcode == LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == LEAVE_ACK and source in (job.parent_address, job.next_address):
        leave.on_leave_ack(e, job, source)
    elif answers_nak(header.opcode) or header.opcode == RESULT or header.opcode == ACK:
        if job.has_parent and source == job.parent_address:
            abort_above(e, job)
        else:
            send_abort(e, job, source, header.source)
    else:
        count(e, DROP_ENDED)


@internal
def from_parent(job, opcode, source):
    """Whether this is an answer, or a result, of the device above."""
    if not job.has_parent or source != job.parent_address:
        return False
    return opcode in (RESULT, NEED, WAIT, CONFIG_ACK, LEAVE_ACK, ABORT, NAK)


@internal
def from_next(job, opcode, source):
    """Whether this is an answer of the next node of a ring."""
    if job.route != RING or source != job.next_address:
        return False
    return opcode in (CONFIG_ACK, LEAVE_ACK, ABORT, NAK, ACK)


@internal
def on_keepalive(e, job, header, source):
    """A neighbour lives, and has nothing else to say."""
    if job.has_parent and source == job.parent_address:
        job.heard = e.now
    elif job.route == RING and (source == job.next_address or source == job.previous_address):
        hear_beside(e, job, source)
    elif job.route == RING or not from_below(e, job, header, source):
        count(e, DROP_SENDER)


@internal
def hear_beside(e, job, source):
    """A neighbour in the ring was heard; with two nodes it is next and previous at once."""
    if source == job.next_address:
        job.heard_next = e.now
    if source == job.previous_address:
        job.heard_previous = e.now


@internal
def from_below(e, job, header, source):
    """Whether the sender is the device below (in a ring: the previous node) that it says it is; stamps it as heard."""
    if job.route == RING:
        if source != job.previous_address or job.node_mask & bit_of(header.source) == ZERO:
            return False
        hear_beside(e, job, source)
        return True
    if job.node_joined & bit_of(header.source) == ZERO:
        # Who gives up before its CONFIG was here may still say so: that ends the job for all.
        return header.opcode == LEAVE and job.config_mask & bit_of(header.source) != ZERO
    child = child_at(e, child_index(job, header.source))
    if child.address != source:
        return False
    child.heard = e.now
    return True


@internal
def from_the_parent(e, job, header, payload):
    """From the device above."""
    job.heard = e.now
    if header.opcode == CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == LEAVE_ACK:
        leave.on_leave_ack(e, job, job.parent_address)
    elif header.opcode == ABORT:
        abort_elsewhere(e, job, header, kind_from_above(job, header))
    elif header.opcode == NAK:
        restarted(e, job, kind_parent(job), U64(job.parent_mask))
    elif may_take(e, job, header):
        answer_from_above(e, job, header, payload)


@internal
def answer_from_above(e, job, header, payload):
    """From the device above, about a position of a running job."""
    if header.opcode == RESULT:
        tree.on_result(e, job, header, payload)
    elif header.opcode == NEED:
        tree.on_need(e, job, header)
    elif header.length >= WAIT_SIZE:
        tree.on_wait(e, job, header, payload)
    else:
        count(e, DROP_LENGTH)


@internal
def from_the_next(e, job, header, payload):
    """From the next node of a ring."""
    hear_beside(e, job, job.next_address)
    if header.opcode == CONFIG_ACK:
        membership.on_config_ack(e, job, header, payload, header.length)
    elif header.opcode == LEAVE_ACK:
        leave.on_leave_ack(e, job, job.next_address)
    elif header.opcode == ABORT:
        abort_elsewhere(e, job, header, kind_from_others(job, header))
    elif header.opcode == NAK:
        restarted(e, job, kind_below(job), next_node(job))
    elif may_take(e, job, header):
        ring.on_ack(e, job, header)
        leave.progress_leave(e, job)  # ranks that have left may only have waited for this


@internal
def abort_elsewhere(e, job, header, kind):
    """End the job as another device has, which can name whom it blames less exactly than this one may."""
    job.offered_slots = 0  # what would fit elsewhere is not known
    kind, missing = named_nearer(e, job, header.status, kind, U64(header.node_bitmap))
    abort(e, job, header.status, kind, missing)


@internal
def restarted(e, job, kind, missing):
    """A device has forgotten a running job: it was restarted."""
    if job.state == ACTIVE:
        abort(e, job, PEER_LOST, kind, missing)
    else:
        count(e, DROP_UNEXPECTED)


@internal
def may_take(e, job, header):
    """Whether a packet about a position can be meant; counts why not."""
    if job.state != ACTIVE and job.state != LEAVING:
        count(e, DROP_UNEXPECTED)
        return False
    if not is_in_lease(job, header):
        count(e, DROP_SLOT)
        return False
    return True


@internal
def is_in_lease(job, header):
    """Whether the slot that a packet names is the one that serves its position, and its data fit."""
    return header.seg == U64(header.position) & (U64(job.slots) - ONE) and header.length <= job.chunk


@internal
def is_computable(e, header):
    """Whether the data of a packet can be computed with. Of a ONE position they need not be: it has one contributor. Of
    a NONE position there can be none."""
    kind = contributor_class(header.flags)
    if header.flags & HAS_DATA == 0 or kind == CLASS_ONE:
        return kind <= CLASS_ALL
    return kind == CLASS_ALL and is_supported(e, header.op, header.dtype)


@internal
def up(e, job, header, payload, source):
    """From below, or from the previous node of a ring."""
    if header.opcode == LEAVE:
        leave.on_leave(e, job, header, source)
    elif header.opcode == ABORT:
        abort_elsewhere(e, job, header, kind_from_others(job, header))
        leave.progress_leave(e, job)
    elif header.opcode == NAK:
        if job.route == RING or job.node_left & bit_of(header.source) != ZERO:
            count(e, DROP_UNEXPECTED)
            return
        restarted(e, job, kind_below(job), bit_of(header.source))
        leave.progress_leave(e, job)
    elif not may_take(e, job, header):
        return
    elif not is_computable(e, header):
        count(e, DROP_UNEXPECTED)
    elif job.route == RING:
        up_ring(e, job, header, payload)
    elif header.opcode == CONTRIBUTION:
        tree.on_contribution(e, job, header, payload, source)
    elif header.opcode == PROBE:
        tree.on_probe(e, job, header, source)
    else:
        count(e, DROP_UNEXPECTED)


@internal
def up_ring(e, job, header, payload):
    """From the previous node, about a position of a running job."""
    if header.opcode == CONTRIBUTION:
        ring.on_contribution(e, job, header, payload)
    elif header.opcode == RESULT:
        ring.on_result(e, job, header, payload)
    elif header.opcode == PROBE:
        ring.on_probe(e, job, header)
    else:
        count(e, DROP_UNEXPECTED)
