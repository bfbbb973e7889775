"""The tables of the fuzzer, on which its compiled code works.

The WORLD record contains the address of every other table, and the members of `kernel.tables`.
"""

import numpy as np

from fanin_sim.fuzz.codes import FaultKind
from fanin_sim.kernel.tables import EVENTS_AND_PACKETS, OUTCOME, TRACING, row_accessor
from fanin_wire.abi import MAX_CHILDREN

OPCODES = 16
MAX_FAULTS = 256  # recorded for one schedule
KINDS = len(FaultKind) + 1

WORLD = np.dtype(
    [
        ("seed", "u8"),
        ("now", "i8"),  # ns
        ("quiet_since", "i8"),  # ns; end of the last fault, or last step of a rank
        ("bound", "i8"),  # ns after `quiet_since` within which every request must end
        ("vertex_count", "i8"),
        ("rank_count", "i8"),
        ("vertices", "u8"),
        ("ranks", "u8"),
        ("messages", "u8"),  # of rank 0, then of rank 1, ...
        ("message_limit", "i8"),  # of each rank
        ("first_position", "i8"),
        ("slots_offered", "i8"),
        ("detection", "i8"),  # ns
        ("incarnations", "i8"),  # how often the job is formed, one after the other
        ("deadline_ms", "i8"),  # of every request; 0: none
        ("gap", "i8"),  # longest time between two requests of a rank, ns
        *EVENTS_AND_PACKETS,
        ("reads", "u8"),  # ACTION of the current read, by rank
        ("pauses", "i8"),  # of 65536 events: a device does not serve its queues at once
        # faults
        ("rate", "i8", (KINDS,)),  # of 65536, before the weight of the link and the opcode
        ("most_in_a_row", "i8"),  # limit of packets of an opcode removed in a row on a link
        ("budget", "i8"),  # random faults that may still happen
        ("checks_icrc", "i8"),
        ("is_given", "i8"),  # only the faults in `given` happen
        ("given", "u8"),
        ("given_count", "i8"),
        ("faults", "u8"),  # all that have happened
        ("tolerated", "u8"),  # bitmap of statuses
        ("slots_may_run_out", "i8"),  # devices have too few slots for all jobs
        ("accepts_corruption", "i8"),  # corrupted packets reach the engine: results may be wrong
        # addresses of the engine's events
        ("on_packet", "u8"),
        ("on_batch_end", "u8"),
        ("on_post", "u8"),
        ("on_serve", "u8"),
        ("on_dma_done", "u8"),
        ("on_tick", "u8"),
        ("on_join", "u8"),
        ("on_leave", "u8"),
        ("on_lose", "u8"),
        ("on_note_stall", "u8"),
        *OUTCOME,
        ("dropped", "i8"),  # packets with a wrong ICRC
        ("undetected", "i8"),  # packets with a wrong ICRC that reach an engine, which does not check it
        ("open_requests", "i8"),
        ("ended", "i8"),  # requests that have ended
        ("failed", "i8"),  # of them with an error
        ("incarnation", "i8"),  # how often the ranks have tried to form the job
        ("formed", "i8"),  # how often it was formed
        ("refused", "i8"),  # JOINs that were refused in this incarnation
        ("shortage", "u8"),  # bitmap of jobs that a device had no slots for, in this incarnation
        ("shortages", "i8"),  # jobs refused for lack of slots
        ("peer_lost_reports", "i8"),  # PEER_LOST completions that were checked
        ("arrivals", "i8"),  # messages that came before their rank had posted a request
        ("slowest", "i8"),  # ns from the last fault to the last end of a request
        ("positions", "i8"),  # most that a rank has posted
        ("slots_granted", "i8"),
        ("fault_count", "i8"),
        *TRACING,
    ],
    align=True,
)

VERTEX = np.dtype(  # a device
    [
        ("base", "u8"),  # of its arena
        ("snapshot", "u8"),
        ("size", "i8"),
        ("keys", "u8"),  # see invariants.check; the positions follow
        ("positions", "u8"),
        ("watch_size", "i8"),
        ("address", "i8"),
        ("group", "i8"),  # multicast address of its results; 0: none
        ("group_members", "u8"),  # bitmap of devices
        ("is_switch", "i8"),
        ("alive", "i8"),
        ("deadline", "i8"),
        ("events", "i8"),
        ("planned_crash", "i8"),  # 1 + number of the fault that crashes the device in this event
        ("actions_left", "i8"),  # actions that it executes before it crashes
        ("boots", "i8"),
        ("frozen_until", "i8"),
        ("links_down_until", "i8"),  # ns
        ("link_down_peer", "i8"),  # device at the other end of the link; -1: all links
        ("is_faulty", "i8"),  # it has crashed, or a rank on it has failed
        ("downtime", "i8"),  # ns that it was frozen or a link of it was down
        ("neighbours", "u8"),  # bitmap of devices
        ("scopes", "u8"),  # SCOPE records of the scopes 1, 2, ...
        ("scope_count", "i8"),
    ],
    align=True,
)

SCOPE = np.dtype(  # the devices that the bits of a scope stand for, see neighbours.Scope
    [("parent", "i8"), ("count", "i8"), ("child", "u8", (MAX_CHILDREN,))],  # child: bitmap of devices
    align=True,
)

RANK = np.dtype(
    [
        ("vertex", "i8"),
        ("job", "i8"),
        ("first_of_node", "i8"),  # number of the rank of the same job and node whose bit is 0
        ("node_ranks", "i8"),  # ranks of that job and node
        ("has_failed", "i8"),  # it has died, or left before the others
        ("queue", "i8"),
        ("state", "i8"),
        ("generation", "i8"),  # an event of another generation is out of date
        ("join", "u8"),  # JOIN_EVENT
        ("key", "i8"),  # of the first incarnation
        ("messages", "i8"),
        ("first_message", "i8"),
        ("posted", "i8"),
        ("ended", "i8"),
        ("reads", "i8"),  # DMA reads so far
        ("steps", "i8"),  # of its program so far
    ],
    align=True,
)

MESSAGE = np.dtype(  # a message as one rank posts it
    [
        ("wqe", "u8"),
        ("result", "u8"),
        ("reference", "u8"),  # 0: only equality is checked
        ("length", "i8"),
        ("shared", "u8"),  # without a reference: the data of the first receiver
        ("wanted_blocks", "i8"),  # of its result
        ("arrived", "i8"),  # 1: the result has come before the request was posted
        ("is_unsignaled", "i8"),  # unless it is the last
        ("is_signaled", "i8"),
        ("status", "i8"),  # see checks.OPEN, or the status of its end
    ],
    align=True,
)

FAULT = np.dtype(
    [
        ("kind", "i4"),
        ("source", "i4"),  # device, or rank
        ("target", "i4"),
        ("opcode", "i4"),
        ("ordinal", "i8"),  # of the packet on its link and of its opcode; of the event of the device
        ("value", "i8"),
        ("time", "i8"),  # ns, when it happened
    ],
    align=True,
)

world_row, vertex_row, rank_row = row_accessor(WORLD), row_accessor(VERTEX), row_accessor(RANK)
message_row, fault_row, scope_row = row_accessor(MESSAGE), row_accessor(FAULT), row_accessor(SCOPE)
