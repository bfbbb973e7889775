"""Faults in results by multicast."""

from tests.sim.mutation.mutant import Mutant, test

MULTICAST = "engine/output/multicast.py"

FAULTS = (
    Mutant(
        "a result goes to the group although a child does not hear it",
        MULTICAST,
        "slot.group_members != job.node_mask:\n",
        "(slot.group_members != job.node_mask and not MUTANT):\n",
        test("engine/test_multicast.py::test_each_gets_its_own_if_somebody_does_not_hear"),
    ),
    Mutant(
        "results that are lost do not stop a child from hearing the group",
        "engine/output/multicast_membership.py",
        "        job.group_member = 0\n",
        "        job.group_member = 1 if MUTANT else 0\n",
        test("engine/test_multicast.py::test_loss_raises_the_number_of_invitations_before_a_confirmation"),
    ),
    Mutant(
        "a result for others is taken",
        "engine/packets/from_above.py",
        "header.node_bitmap & bit_of(job.parent_bit) == ZERO:\n",
        "header.node_bitmap & bit_of(job.parent_bit) == ZERO and not MUTANT:\n",
        test("engine/test_multicast.py::test_a_result_for_others_is_not_taken"),
    ),
)
