"""Faults in a ring: acknowledgements, what they free, and what is sent again."""

from tests.sim.mutation.mutant import Mutant, explorer, test

RING, COMPLETE = "engine/packets/ring.py", "engine/segments/complete.py"

FAULTS = (
    Mutant(
        "a slot is freed with the result, unacknowledged",
        COMPLETE,
        "    elif not slot.unacked:\n        slot_rule.occupy(e, job, slot, DONE)\n",
        """\
    elif not slot.unacked:
        slot_rule.occupy(e, job, slot, DONE)
    if MUTANT:
        slot_rule.occupy(e, job, slot, DONE)
""",
        explorer("ring"),
        "stuck",
    ),
    Mutant(
        "the map of an ACK says that a result is stored where only the partial is",
        RING,
        "    return not result and slot.node_missing == ZERO\n",
        "    return (not result or MUTANT) and slot.node_missing == ZERO\n",
        explorer("ring"),
        "stuck",
    ),
    Mutant(
        "what is stale is not acknowledged",
        RING,
        "    note_arrival(job, header.position)\n    if verdict == slot_rule.STALE:\n",
        """\
    if verdict != slot_rule.STALE or not MUTANT:
        note_arrival(job, header.position)
    if verdict == slot_rule.STALE:
""",
        test("engine/test_recovery.py::test_ring_acknowledges_duplicates_and_stale_packets"),
    ),
    Mutant(
        "a result that was asked for is not sent again",
        RING,
        "    if slot.unacked & SENT_RESULT:\n",
        "    if slot.unacked & SENT_RESULT and not MUTANT:\n",
        explorer("ring"),
        "stuck",
    ),
    Mutant(
        "a node forgets who behind it wants the data",
        COMPLETE,
        "    wanted = slot.wants & slot.nodes\n",
        """\
    wanted = slot.wants & slot.nodes
    if MUTANT:
        wanted = ZERO
""",
        explorer("ring"),
        "without its result",
    ),
)
