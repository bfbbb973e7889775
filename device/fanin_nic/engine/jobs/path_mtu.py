"""Whether the path to the device above, or to the next node of a ring, carries the longest packets of a job.

CONFIG, and the CONFIG_ACK(SUCCESS) that answers it, are padded to the length of the job's longest packet. So a job
becomes active only over paths that carry its packets both ways. A path that loses only long packets looks like a device
that is down. To tell them apart, every other CONFIG is short once a few long ones are unanswered. If only short ones
are answered, eight in a row and for the detection time, the path loses long packets: loss of packets of any length
looks so in at most one row of answers in 256. Record 0111: why, and what was rejected.
"""

from fanin_nic.engine.jobs.lost_device import abort_naming
from fanin_nic.engine.jobs.missing_scope import scope_above, scope_below
from fanin_nic.engine.jobs.ring_order import next_node
from fanin_nic.engine.output.encapsulate import full_body_at
from fanin_nic.engine.records.accessors import U64, bit_of
from fanin_nic.native.compiled import internal
from fanin_nic.native.memory import fill_zero
from fanin_wire.abi import Status

CONFIG_ROW, CONFIG_ACK_ROW = 0, 1  # of a job, in the table of full bodies
FULL_CONFIGS = 3  # unanswered, before short ones are tried
SHORT_ANSWERS = 8  # in a row, as the sign of a path that loses long packets


@internal
def begin_proof(e, job):
    """Begin to ask the device above, or the next node."""
    job.unanswered_configs = 0
    job.config_is_short = 0
    job.short_answers = 0
    job.path_proved_at = e.now


@internal
def choose_length(job, length):
    """Bytes of the body of the next CONFIG; `length`: of its fields."""
    is_longest = U64(length) >= U64(job.chunk)  # with short segments no padding is needed
    tries_short = job.unanswered_configs >= FULL_CONFIGS and not job.config_is_short and not is_longest
    job.config_is_short = 1 if tries_short else 0
    if tries_short:
        return U64(length)
    job.unanswered_configs = min(job.unanswered_configs + 1, FULL_CONFIGS)
    return full_length(job, length)


@internal
def full_length(job, length):
    """Bytes of the body of a control packet as long as the job's longest packet."""
    return max(U64(length), U64(job.chunk))


@internal
def cleared_body(e, job, row, length):
    """Address of zeroed memory for a full body."""
    body = full_body_at(e, job, row)
    fill_zero(body, full_length(job, length))
    return body


@internal
def proves_path(e, job, header):
    """Whether the answer to a CONFIG proves the path. A refusal needs no proof. A device without full lengths answers
    with a short CONFIG_ACK, which proves one direction."""
    is_short = job.config_is_short and U64(header.length) < U64(job.chunk)
    if is_short and (header.status == Status.PENDING or header.status == Status.SUCCESS):
        if not job.short_answers:
            job.path_proved_at = e.now
        job.short_answers = min(job.short_answers + 1, SHORT_ANSWERS)
        return False
    job.path_proved_at = e.now
    job.unanswered_configs = 0
    job.short_answers = 0
    return True


@internal
def loses_long_packets(e, job):
    """Whether only short CONFIGs were answered, often and for the detection time."""
    return job.short_answers >= SHORT_ANSWERS and e.now - job.path_proved_at > e.detection


@internal
def abort_path(e, job, is_next):
    """The path to the next node, or to the device above, loses long packets: end the job and name both ends."""
    if is_next:
        ends = bit_of(job.node_index) | next_node(job)
        abort_naming(e, job, Status.PATH_MTU, scope_below(job), ends, job.next_address)
    else:
        abort_naming(e, job, Status.PATH_MTU, scope_above(job), bit_of(job.parent_bit), job.parent_address)
