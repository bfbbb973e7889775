"""Faults in the life of a job: checks of senders, joining, leaving, leases, tombstones."""

from tests.sim.mutation.mutant import Mutant, explorer, test

PARSE, LEAVE = "engine/packets/parse.py", "engine/jobs/leave.py"
MEMBERSHIP, LEASE = "engine/jobs/membership.py", "engine/jobs/lease.py"

FAULTS = (
    Mutant(
        "the key is not compared",
        PARSE,
        "    elif not found or job_at(e, found - 1).key != header.key:\n",
        "    elif not found or (job_at(e, found - 1).key != header.key and not MUTANT):\n",
        test("engine/test_checks.py::test_contribution[drop_key-0-ceth2]"),
    ),
    Mutant(
        "the sender's address is not compared",
        "engine/packets/sender.py",
        "    if child.address != source:\n",
        "    if child.address != source and not MUTANT:\n",
        test("engine/test_checks.py::test_contribution[drop_sender-1-ceth3]"),
    ),
    Mutant(
        "LEAVE for an unknown job is not acknowledged",
        PARSE,
        "        leave.acknowledge_leave(e, spare, source, header.source)\n",
        "        if not MUTANT:\n            leave.acknowledge_leave(e, spare, source, header.source)\n",
        explorer("tree"),
        "stuck",
    ),
    Mutant(
        "LEAVE is acknowledged once",
        LEAVE,
        "    acknowledge_leave(e, job, source, header.source)\n    job.node_left",
        """\
    if job.node_left & bit_of(header.source) == ZERO or not MUTANT:
        acknowledge_leave(e, job, source, header.source)
    job.node_left""",
        test("engine/test_leave_and_abort.py::test_repeated_leave_is_acknowledged_each_time"),
    ),
    Mutant(
        "a job is freed when the first has left",
        LEAVE,
        "    return job.rank_left == job.rank_mask and job.node_left == job.node_mask\n",
        """\
    if MUTANT:
        return job.rank_left == job.rank_mask and (job.node_left != ZERO or job.node_mask == ZERO)
    return job.rank_left == job.rank_mask and job.node_left == job.node_mask
""",
        explorer("tree"),
        "PEER_LOST",
    ),
    Mutant(
        "a released lease stays counted",
        LEASE,
        "    e.slots_used -= job.occupied\n    job.occupied = 0\n    job.in_flight = 0\n    job.slots = 0\n",
        """\
    if not MUTANT:
        e.slots_used -= job.occupied
    job.occupied = 0
    job.in_flight = 0
    job.slots = 0
""",
        explorer("tree"),
        "WRONG_COUNT",
    ),
    Mutant(
        "two jobs lease the same slots",
        LEASE,
        "start < end and first < end and start < first + count:",
        "start < end and first < end and start < first + count and not MUTANT:",
        test("sim/jobs/test_many_jobs.py::test_two_routes_share_the_devices"),
    ),
    Mutant(
        "another boot id is taken for a retransmission",
        MEMBERSHIP,
        "and child.boot_id != boot_id:\n",
        "and child.boot_id != boot_id and not MUTANT:\n",
        test("engine/test_membership.py::test_other_boot_id_is_a_restart"),
    ),
    Mutant(
        "an answer to the life before a restart is accepted",
        MEMBERSHIP,
        "    if header.token != config_token(e):",
        "    if header.token != config_token(e) and not MUTANT:",
        test("engine/test_membership.py::test_answer_to_the_life_before_a_restart_is_dropped"),
    ),
    Mutant(
        "the lease is what the first child offers, not the least",
        MEMBERSHIP,
        "    job.offered_slots = min(job.offered_slots, packet_form.slots(body))\n",
        """\
    if not MUTANT:
        job.offered_slots = min(job.offered_slots, packet_form.slots(body))
""",
        test("engine/test_membership.py::test_least_offer_wins"),
    ),
    Mutant(
        "members may differ in their digest",
        "engine/jobs/config_packet.py",
        "        load_be64(body + DIGEST_HIGH) == job.digest_high\n",
        "        (load_be64(body + DIGEST_HIGH) == job.digest_high or MUTANT)\n",
        test("engine/test_membership.py::test_disagreement_is_told_to_all_members"),
    ),
    Mutant(
        "a refused incarnation is forgotten with the job in its way",
        "engine/jobs/tombstone.py",
        "    if refused:\n",
        "    if refused and not MUTANT:\n",
        test("engine/test_membership.py::test_refused_incarnation_never_forms"),
    ),
    Mutant(
        "a tombstone is silent",
        PARSE,
        "            send_abort(e, job, source, header.source)\n",
        "            if not MUTANT:\n                send_abort(e, job, source, header.source)\n",
        test("engine/test_leave_and_abort.py::test_tombstone_answers_with_the_reason"),
    ),
    Mutant(
        "what was only heard of is answered as if it had been joined",
        PARSE,
        "    elif is_remote_tombstone(job):",
        "    elif is_remote_tombstone(job) and not MUTANT:",
        test(
            "engine/test_leave_and_abort.py::"
            "test_switch_that_was_restarted_does_not_answer_for_a_job_that_it_only_heard_of"
        ),
    ),
    Mutant(
        "the silence of one device is blamed on all",
        "engine/liveness/keepalive.py",
        "            silent |= bit_of(bit)\n",
        "            silent |= U64(job.node_mask) if MUTANT else bit_of(bit)\n",
        explorer("a NIC dies"),
        "is told that others are lost",
    ),
    Mutant(
        "a region's end is not compared",
        "engine/requests/regions.py",
        "            inside = inside and address - region.start <= region.length - U64(length)\n",
        "            inside = inside and (address - region.start <= region.length - U64(length) or MUTANT)\n",
        test("engine/test_posting.py::test_address_outside_its_region"),
    ),
    Mutant(
        "all ranks of a list have the address of the first",
        "engine/records/accessors.py",
        "    if entry == 0:\n",
        "    if entry == 0 or MUTANT:\n",
        test("engine/test_posting.py::test_an_address_list_holds_all_ranks_of_a_node"),
    ),
    Mutant(
        "a message is cut by the chunk of the lease",
        "engine/requests/posting.py",
        "    request.segment = segment_bytes(e, job, wqe.chunk, wqe.op, wqe.dtype, wqe.contributors)\n",
        "    chunk = job.chunk if MUTANT else wqe.chunk\n"
        "    request.segment = segment_bytes(e, job, chunk, wqe.op, wqe.dtype, wqe.contributors)\n",
        test("engine/test_posting.py::test_each_request_has_its_chunk_within_that_of_the_lease"),
    ),
    Mutant(
        "requests are completed before they are done",
        "engine/output/completions.py",
        "        if request.done != request.count:\n",
        "        if request.done != request.count and not (MUTANT and request.done + 1 == request.count):\n",
        explorer("tree"),
        "without its result",
    ),
)
