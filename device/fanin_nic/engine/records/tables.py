"""The tables of the engine, laid over one block of memory, the arena.

The ENGINE record is at its start and holds the offsets of all tables. The arena contains no absolute address of itself,
so a copy of its bytes is a snapshot of the device. Compiled code uses `accessors`.
"""

import enum

import numpy as np

from fanin_nic.engine.records.actions import ACTION
from fanin_nic.native.arena import Table
from fanin_wire import abi, fields
from fanin_wire.abi import MAX_CHILDREN

BUFFER_OVERHEAD = 1024  # bytes of a received segment beside its payload: headers, and the kernel's own


class JobState(enum.IntEnum):
    FREE = 0
    JOINING = 1  # not all local ranks and lower devices have joined
    CONFIGURING = 2  # CONFIG is on its way up
    ACTIVE = 3
    ABORTED = 4  # tombstone: every packet is answered with ABORT
    LEAVING = 5  # all below have left; LEAVE is on its way up


class SlotState(enum.IntEnum):
    """DONE remembers its position but holds no data."""

    DONE = 0
    OPEN = 1  # contributions are missing
    LOCAL = 2  # all in; the partial is sent on and kept
    FINAL = 3  # holds the result


class Leave(enum.IntEnum):
    """Progress of a LEAVE to the device above, or to the next node of a ring."""

    NOT_YET = 0
    REPEATED = 1
    ACKNOWLEDGED = 2


class Upward(enum.IntEnum):
    """Progress of a slot's partial at the device above."""

    NOTHING = 0
    SENT = 1
    ANSWERED = 2  # the result came before all contributions; the last one completes the position


class Ahead(enum.IntFlag):
    """Data that went ahead of the result of their position."""

    SENT = 1  # to the devices below
    RECEIVED = 2  # from the device above


class Sent(enum.IntFlag):
    """Packets of a ring node for a position that are not acknowledged."""

    CONTRIBUTION = 1
    RESULT = 2


class OutOfOrder(enum.IntEnum):
    """Whether a later position was answered before this one; 0: none was."""

    BY_ONE = 1  # a ONE position: its contributors need not have sent earlier positions
    BY_ALL = 2


ENGINE = np.dtype(
    [
        ("address", "u4"),  # IPv4 of the device, host order
        ("is_switch", "u4"),  # takes jobs from CONFIG packets, has no ranks
        ("boot_id", "u8"),
        ("now", "u8"),  # ns; of the event in progress
        ("next_deadline", "u8"),  # ns; no timer expires before it; 2^64 - 1: none runs
        ("next_nak", "u8"),  # ns; NAKs are rate limited
        ("tap", "u8"),  # address of a native.tap.TAP for the steps of segments; 0: none
        ("jobs", "u4"),
        ("slots", "u4"),
        ("queues", "u4"),
        ("requests", "u4"),  # per queue, a power of two
        ("addresses", "u4"),  # ranks that a request may be for
        ("regions", "u4"),
        ("actions", "u4"),
        ("action_count", "u4"),
        ("last_job", "u4"),  # index of the last packet's job
        ("max_chunk", "u4"),
        ("stride", "u4"),  # bytes from payload to payload
        ("min_lease", "u4"),
        ("max_lease", "u4"),
        ("receive_segments", "u4"),  # of max_chunk bytes, that the port can buffer
        ("slots_used", "u4"),
        ("slots_high_water", "u4"),
        ("first_position", "u4"),  # of a new job's stream
        ("next_queue", "u4"),  # that is served first
        ("queue_end", "u4"),  # 1 + highest queue in use, or more
        ("job_end", "u4"),  # 1 + highest job ever used
        ("last_lane", "u4"),  # lanes of the device - 1
        ("group", "u4"),  # IPv4 of the multicast group for its results; 0: none
        ("group_size", "u4"),  # devices that listen to it; 0: not known
        ("shared", "u4"),  # 1: jobs and slots are shared out (`jobs.lease`)
        ("draining", "u4"),  # 1: no new job is taken
        ("rto", "u8"),  # ns: first retransmission time-out
        ("reorder", "u8"),  # ns: first reorder time (`segments.rto`)
        ("lateness", "u8"),  # ns: how late the device's own timers run
        ("keepalive", "u8"),  # ns
        ("detection", "u8"),  # ns: silence after which a peer is lost
        ("ageing", "u8"),  # ns: silence after which a job is freed
        ("job_offset", "u8"),
        ("child_offset", "u8"),
        ("slot_offset", "u8"),
        ("payload_offset", "u8"),
        ("queue_offset", "u8"),
        ("request_offset", "u8"),
        ("region_offset", "u8"),
        ("list_offset", "u8"),
        ("action_offset", "u8"),
        ("header_offset", "u8"),
        ("body_offset", "u8"),
        ("full_body_offset", "u8"),
        ("kernel_offset", "u8"),
        ("counter_offset", "u8"),
        ("entry_offset", "u8"),
    ],
    align=True,
)

JOB = np.dtype(
    [
        ("jid", "u4"),
        ("key", "u4"),
        ("refused_key", "u4"),  # the incarnation that this record refused last
        ("state", "u1"),
        ("route", "u1"),  # TREE: contributions go to the device above; RING: to the next node
        ("flags", "u1"),  # JobFlag
        ("status", "u1"),  # why ABORTED
        ("missing_kind", "u1"),  # of `missing`: 0 own children or ranks, k children of the k-th device above
        ("has_parent", "u1"),  # there is a device above; in a ring only the last node has one
        ("parent_leave", "u1"),  # Leave: of the LEAVE to the device above
        ("next_leave", "u1"),  # ring: of the LEAVE to the next node
        ("index", "u4"),
        ("owner", "u4"),  # 1 + client, on a switch an IPv4 address; 0: several owners have joined
        ("slot_base", "u4"),  # first slot of the lease
        ("slots", "u4"),  # N
        ("span", "u4"),  # payloads of a segment: 1; more if a chunk within one node is longer than max_chunk
        ("buffers", "u4"),  # payloads of a slot: those of a segment; if reproducible, for each device below
        ("window", "u4"),  # positions in flight
        ("chunk", "u4"),
        ("base", "u4"),  # lowest position that is not DONE
        ("in_flight", "u4"),  # slots that are not DONE
        ("occupied", "u4"),  # slots that hold data
        ("high_water", "u4"),
        ("retries", "u4"),  # of CONFIG, later of LEAVE
        ("parent_address", "u4"),
        ("parent_bit", "u4"),  # this device's bit there
        # ended with PEER_LOST, PATH_MTU: IPv4 of the device that is lost, or at the other end; 0: not one, or not known
        ("lost_device", "u4"),
        ("next_address", "u4"),  # ring
        ("previous_address", "u4"),
        ("node_index", "u4"),  # ring: this node's place
        ("node_count", "u4"),  # ring: its nodes; else nodes of the job
        ("hop_count", "u4"),  # levels above the parent
        ("parent_mask", "u8"),  # bitmap of the children of the device above
        ("ack_low", "u4"),
        ("ack_high", "u4"),
        ("ack_pending", "u1"),
        ("last_lane", "u1"),  # the highest lane that the job takes part in
        ("has_refused", "u1"),  # 1: another incarnation, `refused_key`
        ("peer_version", "u1"),  # protocol version of the device that refused this one
        ("group_member", "u1"),  # 1: results may come by the multicast group of the device above
        ("group_failures", "u1"),  # times that the group has failed recently
        ("invitations_ignored", "u1"),  # still to be ignored
        ("last_result_by_group", "u1"),  # 1: the last result came by the group
        ("consecutive_losses", "u1"),  # results lost since one came unasked
        ("unanswered_configs", "u1"),  # of full length, since the last answer to one
        ("config_is_short", "u1"),  # 1: the last CONFIG was
        ("next_has_answered", "u1"),  # 1: the next node of a ring has sent an ACK, so it takes part
        ("short_answers", "u1"),  # to short CONFIGs, in a row since the last answer to one of full length
        ("hears_group", "u8"),  # devices below whose last contribution had HEARS_GROUP
        ("rank_mask", "u8"),
        ("rank_joined", "u8"),
        ("rank_left", "u8"),
        ("node_mask", "u8"),  # lower devices that contribute
        ("config_mask", "u8"),  # lower devices whose CONFIG is awaited
        ("node_joined", "u8"),
        ("node_left", "u8"),
        ("missing", "u8"),  # members that the device above last reported as missing
        ("digest_high", "u8"),
        ("digest_low", "u8"),
        ("offered_slots", "u4"),
        ("offered_window", "u4"),
        ("rto", "u8"),
        ("reorder", "u8"),  # ns: as ENGINE.reorder, learnt for this job
        ("srtt", "u8"),
        ("rttvar", "u8"),
        ("lost_at", "u8"),  # ns: when a loss was last proved; 0: never
        ("answered_at", "u8"),  # ns: last result, or acknowledgement, of any position
        ("path_proved_at", "u8"),  # ns: last answer to a CONFIG of full length, or the first to a short one after it
        ("stalled_ns", "u8"),  # ns for which this device stood still since the job began
        ("deadline", "u8"),  # ns: CONFIG or LEAVE is repeated
        ("leaving_since", "u8"),  # ns: when LEAVE was first sent
        ("heard", "u8"),  # ns: last packet from the device above
        ("heard_next", "u8"),  # ring
        ("heard_previous", "u8"),
        ("sent_above", "u8"),  # ns: last packet to the device above
        ("sent_next", "u8"),  # ring
        ("sent_previous", "u8"),
        ("sent_below", "u8"),  # ns: last packet to all devices below
        ("invitation_at", "u8"),  # ns: last invitation of the device above
        ("invited_at", "u8"),  # ns: last invitation to the devices below
        ("queue", "u4", (MAX_CHILDREN,)),  # 1 + queue of each rank bit; 0: none
        ("hop_address", "u4", (abi.MAX_HOPS,)),
        ("hop_bit", "u4", (abi.MAX_HOPS,)),
        ("hop_mask", "u8", (abi.MAX_HOPS,)),
    ],
    align=True,
)

CHILD = np.dtype(
    [
        ("boot_id", "u8"),
        ("heard", "u8"),  # ns: last packet
        ("address", "u4"),
        ("is_full", "u4"),  # 1: its last CONFIG was as long as the longest packet of the job
        ("predicted_order", "u4"),  # place of the child in the order of folding
        ("predicted_length", "u4"),  # bytes of the predicted contribution (`header_prediction`); 0: none
        ("predicted_kernel", "u8"),  # address of the kernel that computes it
        ("predicted_elements", "u8"),
        ("predicted_header", "u1", (fields.TRANSPORT_SIZE,)),  # its headers as they came
    ],
    align=True,
)

SLOT = np.dtype(
    [
        ("position", "u4"),
        ("mid", "u4"),
        ("sid", "u4"),
        ("length", "u4"),  # bytes of the message in it, in its own type
        ("state", "u1"),
        ("op", "u1"),
        ("dtype", "u1"),
        # of the CETH: contributor class, HAS_DATA, WANTS_RESULT (of a rank here), WIDE (holds f32), AHEAD (of the data)
        ("flags", "u1"),
        ("status", "u1"),  # of a poisoned position
        ("unacked", "u1"),  # ring: Sent
        ("upward", "u1"),  # Upward: of the partial at the device above
        ("retries", "u1"),  # PROBEs since it was sent
        ("out_of_order", "u1"),  # OutOfOrder: a later position was answered first, so probe soon
        ("unanswered", "u1"),  # PROBEs since the last answer
        ("ahead", "u1"),  # Ahead
        ("lacks_data", "u1"),  # 1: the result came without its data, which are wanted, and lost or late
        ("folded", "u4"),  # reproducible: children that are in the sum, in order
        ("pending", "u8"),  # reproducible: bitmap of the children whose contributions wait for their turn
        ("rank_missing", "u8"),  # completion bitmap of this node's ranks
        ("node_missing", "u8"),  # completion bitmap of the devices below (ring: of the previous node)
        ("nodes", "u8"),  # ring: nodes that still have to add
        ("wants", "u8"),  # devices below that want the result; ring: nodes that want it and do not have it
        ("group_members", "u8"),  # devices below that take it by the multicast group
        ("delivered", "u8"),  # bitmap of this node's ranks that have the data of a ONE position already
        ("contributions", "u8"),
        ("sent_at", "u8"),  # ns: when it was last sent, or known to have arrived
        ("deadline", "u8"),  # ns: PROBE
        # ns, without JOB.stalled_ns: first PROBE of a series, which a WAIT ends, and last PROBE; 0: none
        ("first_probe_at", "u8"),
        ("last_probe_at", "u8"),
        ("zero_copy_address", "u8"),  # address of the data in the memory of their rank; 0: they are in the slot
    ],
    align=True,
)

QUEUE = np.dtype(
    [
        ("active", "u1"),
        ("reading", "u1"),  # a DMA_READ is under way
        ("joined", "u1"),
        ("rank_count", "u1"),
        ("client", "u4"),
        ("job", "u4"),  # 1 + index; 0: none
        ("tag", "u4"),  # of the JOIN or LEAVE to answer
        ("rank_bitmap", "u8"),
        ("position", "u4"),  # of the next request
        ("head", "u4"),  # oldest request that is not complete
        ("read", "u4"),  # request whose data are read
        ("tail", "u4"),
        ("read_segments", "u4"),  # segments of it that are read
        ("reads_open", "u4"),
        ("qp", "u4"),
        ("reserved", "u4"),
    ],
    align=True,
)

REQUEST = np.dtype(
    [
        ("wr_id", "u8"),
        ("length", "u8"),  # bytes of the message
        ("block", "u8"),  # bytes of its blocks; the last may be shorter
        ("deadline", "u8"),  # ns; 0: none
        ("first", "u4"),  # position
        ("count", "u4"),  # positions
        ("done", "u4"),
        ("mid", "u4"),
        ("sid", "u4"),  # segment of the message at the first position
        ("segment", "u4"),  # bytes of a segment
        ("per_block", "u4"),  # segments of a whole block
        ("source_process", "u4"),
        ("destination_process", "u4"),
        ("op", "u1"),
        ("dtype", "u1"),
        ("contributors", "u1"),
        ("opcode", "u1"),
        ("status", "u1"),
        ("signaled", "u1"),
        ("poison", "u1"),  # status that this rank contributes instead of data
        ("addresses", "u1"),
        ("fence", "u1"),
        ("inline", "u1"),  # the data of its one rank are `inline_data`
        ("is_long", "u1"),  # its results go past the caches
        ("zero_copy", "u1"),  # its data are sent from where they are
        ("reserved", "u1", (1,)),
        ("inline_data", "u8", (abi.MAX_INLINE // 8,)),
        ("list", "u8"),  # from here to the addresses of the further ranks, in the table of lists
        ("address", abi.ADDRESS),  # of its first rank; all are read through `address_place`
    ],
    align=True,
)

JOIN_EVENT = np.dtype(  # a JOIN of the host interface, flattened
    [
        ("jid", "u4"),
        ("key", "u4"),
        ("route", "u4"),
        ("tag", "u4"),
        ("rank_bitmap", "u8"),
        ("rank_mask", "u8"),
        ("digest_high", "u8"),
        ("digest_low", "u8"),
        ("slots", "u4"),
        ("chunk", "u4"),
        ("node_index", "u4"),
        ("node_count", "u4"),
        ("next_address", "u4"),
        ("previous_address", "u4"),
        ("hop_count", "u4"),
        ("flags", "u4"),
        ("hop_address", "u4", (abi.MAX_HOPS,)),
        ("hop_bit", "u4", (abi.MAX_HOPS,)),
        ("hop_mask", "u8", (abi.MAX_HOPS,)),
    ],
    align=True,
)

REGION = np.dtype(
    [
        ("start", "u8"),  # client's virtual address
        ("length", "u8"),
        ("mapped", "u8"),  # address on the device; 0: process memory
        ("client", "u4"),  # 1 + client; 0: free
        ("lkey", "u4"),
        ("access", "u4"),
        ("reserved", "u4"),
    ],
    align=True,
)


class Counter(enum.IntEnum):
    """The first 32 count packets by opcode: received, then sent."""

    RX_FIRST = 0
    TX_FIRST = 16
    ORDINARY_PACKETS = 32
    DROP_SHORT = 33
    DROP_VERSION = 34
    DROP_UNKNOWN_OPCODE = 35
    DROP_UNKNOWN_JOB = 36
    DROP_KEY = 37
    DROP_SENDER = 38
    DROP_SLOT = 39
    DROP_STALE = 40
    DROP_DUPLICATE = 41
    DROP_UNEXPECTED = 42
    DROP_LENGTH = 43
    DROP_CONFIG = 44
    ACTION_OVERFLOW = 45
    RESENT = 46
    JOBS_ABORTED = 47
    JOBS_AGED = 48
    REQUESTS = 49
    COMPLETIONS = 50
    SEGMENTS = 51
    NOT_OFFLOADED = 52  # requests refused because the device can not compute them
    DROP_ENDED = 53  # for an ended job, from a sender that needs no answer
    DROP_NOT_ADDRESSED = 54  # a RESULT for others: data go ahead by the group to all that listen to it


COUNTERS = 64
ENTRIES = 2


TABLES = {
    "jobs": Table(JOB, "job_offset"),
    "children": Table(CHILD, "child_offset"),
    "slots": Table(SLOT, "slot_offset"),
    "queues": Table(QUEUE, "queue_offset"),
    "requests": Table(REQUEST, "request_offset"),
    "regions": Table(REGION, "region_offset"),
    "lists": Table(abi.ADDRESS, "list_offset"),
    "actions": Table(ACTION, "action_offset"),
    "headers": Table(fields.HEADER, "header_offset"),
    "kernels": Table(np.dtype("u8"), "kernel_offset"),
    "counters": Table(np.dtype("u8"), "counter_offset"),
    "entries": Table(np.dtype("u8"), "entry_offset"),
    "bodies": Table(np.dtype("u1"), "body_offset"),
    "full_bodies": Table(np.dtype("u1"), "full_body_offset"),
    "payload": Table(np.dtype("u1"), "payload_offset"),
}
BODY_SIZE = 320  # of a control packet: CONFIG with eight hops
FULL_BODIES = 2  # of a job, as long as its longest packet: CONFIG and CONFIG_ACK
