"""Faults in the transport of ordinary RDMA traffic. Random schedules catch them."""

from __future__ import annotations

from tests.sim.mutation.mutant import Mutant, test

SCHEDULES = test("sim/rdma/test_schedules.py::test_nothing_is_violated")
REQUESTS, RETRY = "transport/responder/requests.py", "transport/requester/retry.py"
ACKNOWLEDGE, SEND = "transport/requester/acknowledge.py", "transport/requester/send.py"


def fault(name: str, file: str, old: str, new: str) -> Mutant:
    """A fault that random schedules catch."""
    return Mutant(f"RDMA: {name}", file, old, new, SCHEDULES)


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
        "psn_after(q.expected, -1))\n",
        "psn_after(q.expected, 0 if MUTANT else -1))\n",
    ),
    fault(
        "completions of a receive request say the wrong length",
        "transport/output/completions.py",
        "    action.byte_length = int64(length) if status == 0 else 0\n",
        "    action.byte_length = (int64(length) if not MUTANT else 0) if status == 0 else 0\n",
    ),
)
