"""Faults in the local reduction of all ranks of a node, and in early delivery to them."""

from tests.sim.mutation.mutant import Mutant, test

LOCAL_REDUCE = "engine/requests/local_reduce.py"
DELIVERY = "engine/segments/delivery.py"

FAULTS = (
    Mutant(
        "of a broadcast within a node it is not asked whether one rank brings data",
        LOCAL_REDUCE,
        "    if mode == LOCAL and request.contributors == CLASS_ONE and sources != 1:\n",
        "    if mode == LOCAL and request.contributors == CLASS_ONE and sources != 1 and not MUTANT:\n",
        test("engine/test_local_reduce.py::test_a_broadcast_has_one_giver"),
    ),
    Mutant(
        "of the positions that are computed at once only the first is done",
        LOCAL_REDUCE,
        "    for number in range(segments):\n        slot = slot_at",
        "    for number in range(1 if MUTANT else segments):\n        slot = slot_at",
        test("engine/test_local_reduce.py::test_nothing_waits_in_a_seg_buffer_if_all_have_posted"),
    ),
    Mutant(
        "segments are computed at once although other ranks want them",
        LOCAL_REDUCE,
        " or wants(request, entry, segment) != wanted:\n",
        " or (wants(request, entry, segment) != wanted and not MUTANT):\n",
        test("engine/test_local_reduce.py::test_it_ends_where_others_give_or_take"),
    ),
    Mutant(
        "ranks that have the data of a position get them once more when it is complete",
        DELIVERY,
        "    ranks = U64(job.rank_mask) & ~slot.delivered\n    while ranks:\n        rank = lowest_bit(ranks)\n"
        "        ranks &= ranks - ONE\n        if not job.queue[rank]:\n            continue\n"
        "        queue_index = job.queue[rank] - 1\n        if is_lowest_rank",
        "    ranks = U64(job.rank_mask) & ~(U64(0) if MUTANT else slot.delivered)\n    while ranks:\n"
        "        rank = lowest_bit(ranks)\n        ranks &= ranks - ONE\n        if not job.queue[rank]:\n"
        "            continue\n        queue_index = job.queue[rank] - 1\n        if is_lowest_rank",
        test("engine/test_early_delivery.py::test_request_behind_another_waits_for_it"),
    ),
    Mutant(
        "the request that has brought the data of a position ends before all have taken part",
        DELIVERY,
        "        if queue_index == source:\n",
        "        if queue_index == source and not MUTANT:\n",
        test(
            "engine/test_early_delivery.py::"
            "test_rank_that_waits_has_the_data_at_once_and_their_owner_knows_when_all_have_taken_part"
        ),
    ),
    Mutant(
        "data arrive at a rank that has posted its request",
        DELIVERY,
        " or distance(queue.position, slot.position) > 0:\n",
        " or (distance(queue.position, slot.position) > 0 and not MUTANT):\n",
        test("engine/test_early_delivery.py::test_nothing_arrives_for_a_request_that_is_posted_and_not_begun"),
    ),
)
