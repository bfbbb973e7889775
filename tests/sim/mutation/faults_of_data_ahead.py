"""Faults in data that go ahead of their result (SPEC.md, section 7.5)."""

from tests.sim.mutation.mutant import Mutant, explorer, test

EARLY_RESULT, TREE = "engine/packets/early_result.py", "engine/packets/tree.py"
MULTICAST, COMPLETE = "engine/output/multicast.py", "engine/segments/complete.py"

RECEIVING = (
    Mutant(
        "data ahead count as the result",
        EARLY_RESULT,
        "    if slot.lacks_data:\n",
        "    if slot.lacks_data or (MUTANT and slot.state != OPEN):\n",
        explorer("short broadcasts"),
        "stuck",
    ),
    Mutant(
        "a result from before is still there when the data of another position come",
        "engine/slots/slot_rule.py",
        "    slot.lacks_data = 0\n",
        "    if not MUTANT:\n        slot.lacks_data = 0\n",
        explorer("short broadcasts"),
        "the job is aborted",
    ),
    Mutant(
        "data ahead are taken for an earlier position than that of the slot",
        EARLY_RESULT,
        "    elif verdict == slot_rule.STALE:\n",
        "    elif verdict == slot_rule.STALE and MUTANT:\n"
        "        claim_for_data(e, job, slot, header)\n"
        "        take(e, job, slot, header, payload)\n"
        "    elif verdict == slot_rule.STALE:\n",
        test("engine/test_data_ahead.py::test_what_is_not_taken"),
    ),
    Mutant(
        "data ahead are taken into a slot that serves another position",
        EARLY_RESULT,
        "    elif verdict == slot_rule.VIOLATION or not is_in_reach(e, job, slot, header.position):\n",
        "    elif verdict == slot_rule.VIOLATION and MUTANT:\n"
        "        take(e, job, slot, header, payload)\n"
        "    elif verdict == slot_rule.VIOLATION or not is_in_reach(e, job, slot, header.position):\n",
        test("engine/test_data_ahead.py::test_slot_is_free_when_its_position_is_done"),
    ),
    Mutant(
        "data ahead are taken into a slot that may still be read",
        EARLY_RESULT,
        "        return distance(position, job.base) < job.slots\n",
        "        return distance(position, job.base) < job.slots or MUTANT\n",
        test("engine/test_data_ahead.py::test_slot_is_not_free_before_the_base_has_passed_it"),
    ),
    Mutant(
        "data ahead replace a result that a device below may lack",
        EARLY_RESULT,
        "    return ahead > 0 or (ahead == 0 and slot.state != OPEN)\n",
        "    return ahead > 0 or (ahead == 0 and slot.state != OPEN) or MUTANT\n",
        test("engine/test_data_ahead.py::test_data_replace_a_result_that_all_below_hold_and_no_other"),
    ),
    Mutant(
        "data ahead of another operation are taken",
        EARLY_RESULT,
        "    elif matches(slot, header.op, header.dtype, header.flags, header.mid, header.sid):\n",
        "    elif MUTANT or matches(slot, header.op, header.dtype, header.flags, header.mid, header.sid):\n",
        test("engine/test_data_ahead.py::test_what_is_not_taken"),
    ),
    Mutant(
        "data that are here are taken once more",
        EARLY_RESULT,
        "slot.state == DONE or slot.flags & HAS_DATA:\n",
        "slot.state == DONE or (slot.flags & HAS_DATA and not MUTANT):\n",
        test("engine/test_data_ahead.py::test_second_copy_is_a_duplicate_before_and_after_the_result"),
    ),
)

RESULTS = (
    Mutant(
        "a RESULT without data that are wanted ends a position",
        TREE,
        "    if lacks_data(job, slot, header):\n",
        "    if lacks_data(job, slot, header) and not (MUTANT and job.rank_mask != ZERO):\n",
        explorer("short broadcasts"),
        "without its result",
    ),
    Mutant(
        "a device in between passes on a RESULT whose data it lacks",
        TREE,
        "    return wants_data(job, slot)\n",
        "    return wants_data(job, slot) and not (MUTANT and job.node_mask != ZERO)\n",
        explorer("a short broadcast over levels"),
    ),
    Mutant(
        "a child that has the RESULT does not ask for the data",
        "engine/segments/rto.py",
        "    return slot.unacked != 0 or (slot.upward == SENT and",
        "    return slot.unacked != 0 or (slot.upward == SENT and not (MUTANT and slot.lacks_data) and",
        explorer("short broadcasts"),
        "stuck",
    ),
    Mutant(
        "a device that has sent data ahead has none for a child that asks",
        TREE,
        "U64(header.source), U64(slot.wants))).token",
        "U64(header.source), ZERO if MUTANT and slot.ahead & SENT_AHEAD else U64(slot.wants))).token",
        explorer("short broadcasts"),
        "stuck",
    ),
    Mutant(
        "data that went ahead of a result are not asked for because it was sent just now",
        TREE,
        "        not slot.ahead & SENT_AHEAD\n        and slot.state",
        "        (MUTANT or not slot.ahead & SENT_AHEAD)\n        and slot.state",
        test("engine/test_data_ahead.py::test_who_has_lost_the_data_gets_them_with_the_result_at_once"),
    ),
)

SENDING = (
    Mutant(
        "a device contributes when data have come from above, before those below have",
        COMPLETE,
        "    return slot.upward == NOTHING and not slot.ahead & TAKEN\n",
        "    return slot.upward == NOTHING and (MUTANT or not slot.ahead & TAKEN)\n",
        test("engine/test_data_ahead.py::test_data_from_above_go_down_and_not_up_again"),
    ),
    Mutant(
        "data that come last do not go ahead to the children that wait",
        COMPLETE,
        "    slot.upward = SENT\n    if goes_ahead_now(job, slot):\n",
        "    slot.upward = SENT\n    if not MUTANT and goes_ahead_now(job, slot):\n",
        test("engine/test_data_ahead.py::test_data_that_come_last_go_up_and_to_those_that_wait"),
    ),
    Mutant(
        "a contribution has the data that came from above",
        "engine/output/encapsulate.py",
        "    if not slot.ahead & TAKEN:",
        "    if MUTANT or not slot.ahead & TAKEN:",
        explorer("short broadcasts"),
        "OP_MISMATCH",
    ),
    Mutant(
        "a slot takes the data of another position for gone ahead",
        "engine/slots/slot_rule.py",
        "    slot.ahead = 0\n",
        "    if not MUTANT:\n        slot.ahead = 0\n",
        test("engine/test_data_ahead.py::test_slot_forgets_what_went_ahead"),
    ),
    Mutant(
        "a status that comes after data fails the position for all",
        "engine/slots/contribution.py",
        "    if slot.upward == NOTHING and not slot.ahead:\n",
        "    if slot.upward == NOTHING and (MUTANT or not slot.ahead):\n",
        test("engine/test_data_ahead.py::test_status_that_comes_after_the_data_is_its_owners_alone"),
    ),
    Mutant(
        "data go ahead by the group although a child has ceased to hear it",
        MULTICAST,
        "        job.hears_group &= ~bit_of(bit)\n",
        "        job.hears_group &= ~bit_of(bit) if not MUTANT else ~ZERO\n",
        test("engine/test_data_ahead.py::test_group_serves_those_who_last_heard_it"),
    ),
    Mutant(
        "a device leaves before its results are there",
        "engine/jobs/leave.py",
        "    return all_below_left(job) and not awaits_result(e, job)\n",
        "    return all_below_left(job) and (MUTANT or not awaits_result(e, job))\n",
        explorer("short broadcasts"),
    ),
)

FAULTS = RECEIVING + RESULTS + SENDING
