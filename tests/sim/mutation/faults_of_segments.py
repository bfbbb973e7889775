"""Faults in how a segment is put together: slots, windows, bitmaps, results, arithmetic, recovery in a tree."""

from tests.sim.mutation.mutant import Mutant, explorer, test

SLOTS, TREE = "engine/slots/slot_rule.py", "engine/packets/tree.py"

SLOT_RULE = (
    Mutant(
        "one version bit instead of positions",
        SLOTS,
        "    ahead = distance(position, slot.position)\n",
        """\
    if MUTANT:
        version = (U64(position) // U64(job.slots)) & ONE
        if version == (U64(slot.position) // U64(job.slots)) & ONE:
            return CURRENT
        return REPLACE if slot.state == FINAL or slot.state == DONE else STALE
    ahead = distance(position, slot.position)
""",
        explorer("tree"),
        "POSITION_WENT_BACK",
    ),
    Mutant(
        "positions are compared without regard to 2^32",
        SLOTS,
        "    if ahead < 0:\n        return STALE\n",
        """\
    if MUTANT:
        ahead = int64(position) - int64(slot.position)
    if ahead < 0:
        return STALE
""",
        explorer("tree across 2^32"),
        "stuck",
    ),
    Mutant(
        "a slot is replaced before it is final",
        SLOTS,
        "    if ahead == job.slots and (slot.state == FINAL or slot.state == DONE):\n",
        "    if ahead == job.slots and (slot.state == FINAL or slot.state == DONE or MUTANT):\n",
        test("engine/test_slot_rule.py::test_successor_of_an_open_slot_is_a_violation"),
    ),
    Mutant(
        "a window as large as the lease (N < 2W)",
        "engine/jobs/lease.py",
        "    job.window = max(1, min(window, job.slots // 2))\n",
        """\
    job.window = max(1, min(window, job.slots // 2))
    if MUTANT:
        job.window = job.slots
""",
        explorer("tree"),
        "stuck",
    ),
    Mutant(
        "window off by one",
        "engine/requests/read.py",
        "    if distance(position, job.base) >= job.window:\n",
        "    if distance(position, job.base) >= job.window + (1 if MUTANT else 0):\n",
        explorer("tree"),
        "stuck",
    ),
    Mutant(
        "one child is not waited for",
        TREE,
        "            slot.node_missing = job.node_mask\n",
        """\
            slot.node_missing = job.node_mask
            if MUTANT:
                slot.node_missing &= slot.node_missing - ONE
""",
        explorer("tree"),
        "a wrong result",
    ),
    Mutant(
        "the bitmap is not cleared",
        TREE,
        "        slot.node_missing &= ~bit_of(header.source)\n        proceed(e, job, slot)\n",
        """\
        if not MUTANT:
            slot.node_missing &= ~bit_of(header.source)
        proceed(e, job, slot)
""",
        explorer("tree"),
        "wrong result",
    ),
    Mutant(
        "a cumulative token: a contribution clears its child's bits of earlier positions, too",
        TREE,
        "        accept(e, job, slot, header, payload)\n\n\n@internal\ndef accept",
        """\
        accept(e, job, slot, header, payload)
        if MUTANT:
            for offset in range(1, job.slots):
                earlier = slot_at(e, slot_index(job, header.position - offset))
                if earlier.state == OPEN and earlier.node_missing & bit_of(header.source) != ZERO:
                    earlier.node_missing &= ~bit_of(header.source)
                    proceed(e, job, earlier)


@internal
def accept""",
        explorer("tree, window 2"),
        "a wrong result",
    ),
    Mutant(
        "a duplicate is computed again",
        TREE,
        "    elif verdict == slot_rule.CURRENT and slot.node_missing & bit_of(header.source) == ZERO:\n",
        """\
    elif verdict == slot_rule.CURRENT and slot.node_missing & bit_of(header.source) == ZERO and (
        slot.state != OPEN or not MUTANT
    ):
""",
        explorer("tree"),
        "a wrong result",
    ),
    Mutant(
        "the status of the position before stays in the slot",
        SLOTS,
        "    slot.status = 0\n    slot.unacked = 0\n    slot.upward = 0\n",
        """\
    if not MUTANT:
        slot.status = 0
    slot.unacked = 0
    slot.upward = 0
""",
        test("engine/test_contributions.py::test_poison_does_not_stay_in_the_slot"),
    ),
)

RESULTS = (
    Mutant(
        "the result is forgotten once it is sent",
        "engine/segments/complete.py",
        "    elif job.node_mask:\n        fan_out(e, job, slot)\n",
        """\
    elif job.node_mask:
        fan_out(e, job, slot)
        if MUTANT:
            slot_rule.occupy(e, job, slot, DONE)
""",
        explorer("tree"),
        "stuck",
    ),
    Mutant(
        "a stale RESULT is accepted",
        TREE,
        "    if slot.position != position or slot.upward != SENT:\n",
        "    if (slot.position != position and not MUTANT) or slot.upward != SENT:\n",
        explorer("tree"),
        "without its result",
    ),
    Mutant(
        "WANTS_RESULT is ignored",
        TREE,
        "        if header.flags & WANTS_RESULT:\n",
        "        if header.flags & WANTS_RESULT and not MUTANT:\n",
        explorer("tree"),
        "without its result",
    ),
    Mutant(
        "a second contributor of a ONE position is accepted",
        "engine/slots/contribution.py",
        "    elif slot.length != length or contributor_class(slot.flags) == CLASS_ONE:\n",
        "    elif slot.length != length or (contributor_class(slot.flags) == CLASS_ONE and not MUTANT):\n",
        test("engine/test_contributions.py::test_second_data_of_a_one_position_is_a_mismatch"),
    ),
    Mutant(
        "POISON is ignored",
        "engine/segments/arrival.py",
        "    if fits and header.status:\n",
        "    if fits and header.status and not MUTANT:\n",
        test("engine/test_contributions.py::test_poison_ends_the_position_not_the_stream"),
    ),
)

NUMBERS = (
    Mutant(
        "rounding before the last hop of a WIDE job",
        "engine/slots/arithmetic.py",
        "(slot.flags >> CLASS_SHIFT) & CLASS_MASK):\n        widen(e, slot, target)\n    else:\n",
        """\
(slot.flags >> CLASS_SHIFT) & CLASS_MASK):
        if MUTANT:
            narrow(e, slot, target)
        widen(e, slot, target)
    else:
""",
        test("sim/jobs/test_reproducible.py::test_shape_has_one_pattern_for_switch_and_ring[bf16]"),
    ),
    Mutant(
        "MEAN is divided at each device",
        "engine/segments/complete.py",
        "        settle_partial(e, job, slot, payload_of(e, job, slot.position))\n",
        """\
        if MUTANT:
            settle_result(e, slot, payload_of(e, job, slot.position), slot.contributions > ONE)
        settle_partial(e, job, slot, payload_of(e, job, slot.position))
""",
        test("sim/jobs/test_reproducible.py::test_other_operations[mixed tree-MEAN-run]"),
    ),
    Mutant(
        "a reproducible job folds in the order of arrival",
        "engine/slots/contribution.py",
        "if not has_turns(job, slot) or U64(slot.folded) == U64(order):\n",
        "if not has_turns(job, slot) or U64(slot.folded) == U64(order) or MUTANT:\n",
        test("engine/test_reproducible.py::test_switch_folds_in_the_order_of_the_bits"),
    ),
    Mutant(
        "an early rank is folded with the data of an earlier request",
        "engine/slots/contribution.py",
        "    while distance(request.first + request.count, slot.position) <= 0:\n",
        "    while distance(request.first + request.count, slot.position) <= 0 and not MUTANT:\n",
        test("engine/test_reproducible.py::test_node_folds_its_ranks_in_order"),
    ),
    Mutant(
        "memory of processes is read out of turn",
        "engine/requests/read.py",
        "    return slot.rank_missing & ranks_before(job, queue) == ZERO\n",
        "    return slot.rank_missing & ranks_before(job, queue) == ZERO or MUTANT\n",
        test("engine/test_reproducible.py::test_node_folds_its_ranks_in_order"),
    ),
    Mutant(
        "a slot does not forget what it was lent",
        "engine/slots/slot_rule.py",
        "    slot.zero_copy_address = ZERO\n    slot.contributions = ZERO\n",
        """\
    if not MUTANT:
        slot.zero_copy_address = ZERO
    slot.contributions = ZERO
""",
        test("engine/test_zero_copy.py::test_slot_forgets_borrowed_memory"),
    ),
    Mutant(
        "results are written over data that may have to go out again",
        "engine/slots/zero_copy.py",
        "    return not overwrites_own_data(request, address)\n",
        "    return not overwrites_own_data(request, address) or MUTANT\n",
        test("sim/jobs/test_in_place.py::test_in_place"),
    ),
)

RECOVERY = (
    Mutant(
        "a middle device drops a duplicate that it meets in LOCAL",
        TREE,
        "    elif slot.state == LOCAL and lowest_bit(job.node_mask) == U64(header.source):\n",
        "    elif slot.state == LOCAL and lowest_bit(job.node_mask) == U64(header.source) and not MUTANT:\n",
        explorer("chain of switches"),
        "stuck",
    ),
    Mutant(
        "a PROBE for a position that is not here is not answered",
        TREE,
        "    elif verdict == slot_rule.REPLACE or slot.node_missing & bit_of(header.source) != ZERO:\n",
        """\
    elif verdict == slot_rule.REPLACE and MUTANT:
        count(e, DROP_UNEXPECTED)
    elif verdict == slot_rule.REPLACE or slot.node_missing & bit_of(header.source) != ZERO:
""",
        test("engine/test_recovery.py::test_need_when_the_contribution_is_missing"),
    ),
    Mutant(
        "the round trip is measured on results",
        "engine/segments/rto.py",
        "    note_progress(e, job)\n    if echoed and slot.unanswered:\n",
        """\
    if MUTANT:
        measure_rtt(e, job, (slot.sent_at // MICROSECOND) | U64(1))
    note_progress(e, job)
    if echoed and slot.unanswered:
""",
        test("engine/test_recovery.py::test_a_late_result_teaches_nothing_about_the_round_trip"),
    ),
    Mutant(
        "payload is sent again on suspicion",
        TREE,
        "    header = header_at(e, slot_packet(e, job, slot, PROBE, job.parent_address))\n",
        """\
    if MUTANT:
        send_contribution(e, job, slot)
        return
    header = header_at(e, slot_packet(e, job, slot, PROBE, job.parent_address))
""",
        test("engine/test_recovery.py::test_nic_probes_after_its_time_out_and_backs_off"),
    ),
)

HEADER_PREDICTION = (
    Mutant(
        "the bitmap is not cleared by a contribution that matches the prediction",
        "engine/packets/header_prediction.py",
        "    slot.node_missing &= ~bit_of(bit)\n",
        "    slot.node_missing &= ~bit_of(bit) if not MUTANT else ~ZERO\n",
        explorer("tree"),
    ),
    Mutant(
        "a duplicate that matches the prediction is added",
        "engine/packets/header_prediction.py",
        "        slot.node_missing & bit_of(bit) != ZERO\n",
        "        (MUTANT or slot.node_missing & bit_of(bit) != ZERO)\n",
        test("engine/test_header_prediction.py::test_a_duplicate_is_not_added_again"),
    ),
    Mutant(
        "what is known of children outlives their job",
        "engine/jobs/lease.py",
        "        child_at(e, child_index(job, bit)).predicted_length = 0\n",
        "        if not MUTANT:\n            child_at(e, child_index(job, bit)).predicted_length = 0\n",
        test("engine/test_header_prediction.py::test_nothing_is_known_of_the_children_of_another_job"),
    ),
)

FAULTS = SLOT_RULE + RESULTS + NUMBERS + RECOVERY + HEADER_PREDICTION
