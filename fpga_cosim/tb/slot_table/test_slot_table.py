"""Records of slots: each slot has its own, and an opened one has served s - N."""

import numpy as np
import pytest

from fpga_cosim.tb.steps import Steps, number
from fpga_cosim.tb.verilated import Module

JOBS, LEASE, RECORD = 1, 3, 358
FINAL_AND_FRESH = 3 << 32


@pytest.mark.parametrize("reproducible", [0, 1])
def test_records(generator: np.random.Generator, reproducible: int) -> None:
    parameters = {"JOBS": JOBS, "LEASE": LEASE, "REPRODUCIBLE": reproducible}
    table, slots = Steps(Module("slot_table", parameters), slots=1 << LEASE), 1 << LEASE
    known = {}
    for job in range(1 << JOBS):
        for slot in range(slots):
            table.step(job=job, walks=1, walk=slot, opens=1)
            known[job, slot] = [FINAL_AND_FRESH | (slot - slots) % (1 << 32), 0]
    for _ in range(1000):
        key = int(generator.integers(1 << JOBS)), int(generator.integers(slots))
        written = {name: int(generator.integers(2)) for name in ("writes", "writes_turns")}
        record = int.from_bytes(generator.bytes(RECORD // 8), "little")
        turns = int.from_bytes(generator.bytes(8), "little")
        table.step(job=key[0], slot=key[1], record=record, turns=turns, **written)
        if written["writes"]:
            known[key][0] = record
        if written["writes_turns"]:
            known[key][1] = turns
        job, slot = list(known)[generator.integers(len(known))]
        walks = int(generator.integers(2))
        table.step(job=job, walks=walks, **{"walk" if walks else "slot": slot})
        seen, (record, turns) = table.step(), known[job, slot]
        assert number(seen["s_record"]) == record
        assert number(seen["s_turns"]) == (turns if reproducible else 0)
