"""Faults in the local reduction of all ranks of a node."""

from __future__ import annotations

from tests.sim.mutation.mutant import Mutant, test

LOCAL_REDUCE = "engine/requests/local_reduce.py"

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
)
