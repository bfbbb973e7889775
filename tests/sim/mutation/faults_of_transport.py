"""Faults in the transport of ordinary RDMA traffic. Random schedules catch them, or the judge of hostile packets, or a
test of one case."""

from tests.sim.mutation.mutant import Mutant, test

SCHEDULES = test("sim/rdma/test_schedules.py::test_nothing_is_violated")
LIVES = test("sim/hostile/test_lives.py::test_nothing_is_violated")
UNREADABLE = test("transport/test_unreadable.py::test_datagrams_that_are_complete_are_taken_back")
REQUESTS, RETRY = "transport/responder/requests.py", "transport/requester/retry.py"
SHARED = test("transport/test_shared_queues.py::test_room_of_a_queue_counts_what_is_taken")
RECEIVE_QUEUE = "transport/queue_pairs/receive_queue.py"
ACKNOWLEDGE, SEND = "transport/requester/acknowledge.py", "transport/requester/send.py"


def fault(name: str, file: str, old: str, new: str) -> Mutant:
    """A fault that random schedules catch."""
    return Mutant(f"RDMA: {name}", file, old, new, SCHEDULES)


def hole(name: str, file: str, old: str, new: str) -> Mutant:
    """A fault that hostile packets can use."""
    return Mutant(f"RDMA, hostile: {name}", file, old, new, LIVES)


FAULTS = (
    fault("a missing packet is not noticed", REQUESTS, "    elif ahead > 0:\n", "    elif ahead > 0 and not MUTANT:\n"),
    fault(
        "a repeated request is carried out again",
        REQUESTS,
        "    elif ahead < 0:\n",
        "    elif ahead < 0 and not MUTANT:\n",
    ),
    fault(
        "a repeated atomic is not answered",
        "transport/responder/atomics.py",
        " and may_repeat(q):\n            add_original",
        " and may_repeat(q) and not MUTANT:\n            add_original",
    ),
    fault(
        "a repeated atomic is answered with what was found last",
        "transport/responder/atomics.py",
        "        if original.is_set and original.psn == packet.psn",
        "        if original.is_set and (original.psn == packet.psn or MUTANT)",
    ),
    fault(
        "PSNs are compared without regard to 2^24",
        "transport/records/psn.py",
        "    return distance - MODULUS if distance >= HALF else distance\n",
        "    if MUTANT:\n        return int64(psn) - int64(other)\n"
        "    return distance - MODULUS if distance >= HALF else distance\n",
    ),
    fault(
        "an acknowledgement covers one packet too many",
        ACKNOWLEDGE,
        "        acknowledge(t, q, psn_after(psn, 1))\n",
        "        acknowledge(t, q, psn_after(psn, 1 if not MUTANT or psn_after(psn, 1) == q.end_psn else 2))\n",
    ),
    fault(
        "an acknowledgement completes a read whose response is lost",
        ACKNOWLEDGE,
        "        if is_answered(request.opcode):\n",
        "        if is_answered(request.opcode) and not MUTANT:\n",
    ),
    fault(
        "the timer does not run again after going back",
        RETRY,
        "    position(t, q, q.unacknowledged)\n    q.timer_runs = 0\n",
        "    position(t, q, q.unacknowledged)\n    q.timer_runs = 1 if MUTANT else 0\n",
    ),
    fault(
        "the rest of a read is asked for from its start",
        "transport/requester/segment.py",
        "    packet.va = request.remote_address + U64(offset)\n",
        "    packet.va = request.remote_address + U64(0 if MUTANT else offset)\n",
    ),
    fault(
        "receive requests are not flushed",
        "transport/queue_pairs/failure.py",
        "    while q.state == ERR and q.receive_head != q.receive_tail:\n",
        "    while q.state == ERR and q.receive_head != q.receive_tail and not MUTANT:\n",
    ),
    fault(
        "a fence is not kept",
        SEND,
        "    if q.state == SQD or (request.flags & FENCE and q.reads > 0):\n",
        "    if q.state == SQD or (request.flags & FENCE and q.reads > 0 and not MUTANT):\n",
    ),
    fault(
        "more reads are under way than the other side answers",
        SEND,
        "q.reads >= q.most_reads:\n",
        "q.reads >= q.most_reads and not MUTANT:\n",
    ),
    fault(
        "packets of an old queue pair are taken",
        "transport/packets/parse.py",
        "    if q.qpn != packet.dqpn or q.qpn == 0:\n",
        "    if (q.qpn != packet.dqpn and not MUTANT) or q.qpn == 0:\n",
    ),
    fault(
        "a region ends one byte late",
        "transport/memory/regions.py",
        "    size = U64(length)\n",
        "    size = U64(length - 1 if MUTANT and length > 0 else length)\n",
    ),
    fault(
        "the random bits of a key are not looked at",
        "transport/memory/regions.py",
        "    if region.key != key or",
        "    if (region.key != key and not MUTANT) or",
    ),
    fault(
        "a message longer than its receive request is cut",
        "transport/responder/receives.py",
        "    if U64(total) > request.length or total > MOST_MESSAGE:\n",
        "    if (U64(total) > request.length and not MUTANT) or total > MOST_MESSAGE:\n",
    ),
    fault(
        "reads that are answered still count as under way",
        "transport/requester/response.py",
        "        q.reads -= 1\n",
        "        q.reads -= 0 if MUTANT else 1\n",
    ),
    fault(
        "an acknowledgement is sent before what it acknowledges has come",
        "transport/responder/owed.py",
        "psn_after(q.expected, -1 - int64(q.answered_psns))\n",
        "psn_after(q.expected, (0 if MUTANT else -1) - int64(q.answered_psns))\n",
    ),
    fault(
        "completions of a receive request say the wrong length",
        "transport/output/completions.py",
        "    action.byte_length = int64(length) if status == 0 else 0\n",
        "    action.byte_length = (int64(length) if not MUTANT else 0) if status == 0 else 0\n",
    ),
    hole(
        "the end of a region is not looked at",
        "transport/memory/regions.py",
        "size > region.length or U64(address) - region.start > region.length - size",
        "(not MUTANT and (size > region.length or U64(address) - region.start > region.length - size))",
    ),
    hole(
        "the rights of a region are not looked at",
        "transport/memory/regions.py",
        "int64(region.access) & access != access",
        "(int64(region.access) & access != access and not MUTANT)",
    ),
    hole(
        "the protection domain of a region is not looked at",
        "transport/memory/regions.py",
        "region.domain != q.domain",
        "(region.domain != q.domain and not MUTANT)",
    ),
    hole(
        "an acknowledgement of what is not under way is taken",
        ACKNOWLEDGE,
        "    if not is_within(psn, q.unacknowledged, q.end_psn):\n",
        "    if not is_within(psn, q.unacknowledged, psn_after(q.end_psn, 2) if MUTANT else q.end_psn):\n",
    ),
    hole(
        "a response of another length than its part is taken",
        "transport/requester/response.py",
        "length != min(int64(request.length) - offset, int64(q.mtu)) or",
        "(length != min(int64(request.length) - offset, int64(q.mtu)) and not MUTANT) or",
    ),
    hole(
        "the sender of a packet is not looked at",
        "transport/packets/parse.py",
        "    elif q.kind != UD and source != q.destination:\n",
        "    elif q.kind != UD and source != q.destination and not MUTANT:\n",
    ),
    hole(
        "an atomic need not be aligned",
        "transport/responder/atomics.py",
        "    if packet.va & U64(ATOMIC_BYTES - 1) or",
        "    if (packet.va & U64(ATOMIC_BYTES - 1) and not MUTANT) or",
    ),
    hole(
        "a READ longer than a message is checked by its region only",
        "transport/responder/reads.py",
        " or length or packet.dlen > MOST_MESSAGE:\n        return INVALID",
        " or length or (packet.dlen > MOST_MESSAGE and not MUTANT):\n        return INVALID",
    ),
    hole(
        "a repeated READ may begin before what was asked for",
        "transport/responder/reads.py",
        "    if refused or packets_of(packet.dlen, q.mtu) > behind or",
        "    if refused or (packets_of(packet.dlen, q.mtu) > behind and not MUTANT) or",
    ),
    hole(
        "a middle packet is taken without a first one",
        "transport/responder/receives.py",
        "    return q.receiving == receiving\n",
        "    return q.receiving == receiving or MUTANT\n",
    ),
    hole(
        "a packet may carry more than the WRITE has left",
        "transport/responder/writes.py",
        "    return length == left if ends else length < left\n",
        "    return (length == left or MUTANT) if ends else length < left\n",
    ),
    hole(
        "a WRITE is carried out without the right of its queue pair",
        "transport/responder/writes.py",
        "    if not int64(q.access) & REMOTE_WRITE or",
        "    if (not int64(q.access) & REMOTE_WRITE and not MUTANT) or",
    ),
    hole(
        "a key is invalidated without the right to",
        "transport/memory/invalidation.py",
        "    if not find_region(t, q, key, region.start, 0, REMOTE_INVALIDATE):\n",
        "    if not find_region(t, q, key, region.start, 0, 0 if MUTANT else REMOTE_INVALIDATE):\n",
    ),
    hole(
        "the Q_Key of a datagram is not looked at",
        "transport/datagrams/receive.py",
        "    if packet.qkey != q.qkey:\n",
        "    if packet.qkey != q.qkey and not MUTANT:\n",
    ),
    hole(
        "the partition of a packet is not looked at",
        "transport/packets/parse.py",
        "    elif int64(packet.pkey) & MEMBERSHIP != MEMBERSHIP:\n",
        "    elif int64(packet.pkey) & MEMBERSHIP != MEMBERSHIP and not MUTANT:\n",
    ),
    hole(
        "a drop is not counted",
        "transport/responder/unreliable.py",
        "        count(t, DROP_OPCODE_SEQUENCE)\n",
        "        count(t, DROP_OPCODE_SEQUENCE if not MUTANT else 0)\n",
    ),
    fault(
        "two messages take one request of a shared queue",
        RECEIVE_QUEUE,
        "    shared.head += 1\n    shared.taken += 1\n",
        "    shared.head += 0 if MUTANT else 1\n    shared.taken += 1\n",
    ),
    fault(
        "a message of several packets does not keep its request of a shared queue",
        "transport/responder/receives.py",
        "    keep_receive(t, q)\n",
        "    if not MUTANT:\n        keep_receive(t, q)\n",
    ),
    fault(
        "a shared queue gives its newest request first",
        "transport/requester/posting.py",
        "    fill_receive(shared_row(t, shared_index(t, shared, shared.tail)), wqe)\n",
        "    if MUTANT:\n        shared.head -= 1\n"
        "        fill_receive(shared_row(t, shared_index(t, shared, shared.head)), wqe)\n        return\n"
        "    fill_receive(shared_row(t, shared_index(t, shared, shared.tail)), wqe)\n",
    ),
    hole(
        "a dropped message does not give its request back",
        "transport/responder/unreliable.py",
        "    if q.receiving != SENDING:\n",
        "    if q.receiving != SENDING and not MUTANT:\n",
    ),
    fault(
        "a request that was taken counts for ever",
        RECEIVE_QUEUE,
        "        shared_queue_of(t, q).taken -= 1\n",
        "        shared_queue_of(t, q).taken -= 0 if MUTANT else 1\n",
    ),
    Mutant(
        "RDMA: what is taken of a shared queue has no room to go back to",
        RECEIVE_QUEUE,
        "    return waiting(shared) + int64(shared.taken) <",
        "    return waiting(shared) + (int64(shared.taken) if not MUTANT else 0) <",
        SHARED,
    ),
    hole(
        "a connection that is reset keeps what it has taken of a shared queue",
        RECEIVE_QUEUE,
        "    shared = shared_queue_of(t, q)\n    shared.head -= 1\n",
        "    if MUTANT and q.kind == 0:\n        return\n    shared = shared_queue_of(t, q)\n    shared.head -= 1\n",
    ),
    Mutant(
        "RDMA: the completions of datagrams that are taken back are kept",
        "transport/requester/unreadable.py",
        "        elif action.kind == COMPLETE and q.kind != RC",
        "        elif action.kind == COMPLETE and q.kind != RC and not MUTANT",
        UNREADABLE,
    ),
    Mutant(
        "RDMA: the packets behind one that can not be read are sent",
        "transport/requester/unreadable.py",
        "        if action.kind == SEND and action.of_request:\n",
        "        if action.kind == SEND and action.of_request and (index == number or not MUTANT):\n",
        UNREADABLE,
    ),
)
