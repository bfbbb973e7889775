"""Each child has its own record, and a walk goes through the children from the lowest bit."""

import numpy as np

from fpga_cosim.tb.steps import Steps, number
from fpga_cosim.tb.verilated import Module

JOBS = 2


def test_each_child_has_its_record(generator: np.random.Generator) -> None:
    table, known = Steps(Module("child_table", {"JOBS": JOBS})), {}
    for now in range(2000):
        place = {"job": int(generator.integers(1 << JOBS)), "source": int(generator.integers(64))}
        record = {"mac": int(generator.integers(1 << 48)), "address": int(generator.integers(1 << 32))}
        record |= {"boot": int(generator.integers(1 << 62)), "buffer": int(generator.integers(64))}
        key = tuple(place.values())
        times = {"now_us": 1000 + now, "lived_us": 500 + now}
        event = generator.choice(["joins", "is_heard", "is_sent"]) if key in known else "joins"
        table.step(**{event: 1}, **place, **record, **times)
        before = known.setdefault(key, {})
        if event == "joins":
            before.update(record, heard=500 + now, sent=1000 + now)
        else:
            before |= {"heard": 500 + now} if event == "is_heard" else {"sent": 1000 + now}
        job, source = sorted(known)[generator.integers(len(known))]
        table.step(job=job, source=source)
        seen, wanted = table.step(now_us=5000, lived_us=5000), known[job, source]
        for name in ("mac", "address", "boot", "buffer"):
            assert number(seen[f"child_{name}"]) == wanted[name]
        assert (seen["silence"], seen["since_sent"]) == (5000 - wanted["heard"], 5000 - wanted["sent"])


def test_walk(generator: np.random.Generator) -> None:
    table = Steps(Module("child_table", {"JOBS": JOBS}))
    for source in range(64):
        table.step(joins=1, source=source, address=100 + source)
    for _ in range(20):
        bits = int(generator.integers(1 << 62)) & int(generator.integers(1 << 62)) | 1 << int(generator.integers(64))
        table.step(loads=1, bits=bits)
        walked = []
        while table.step(looks=1)["todo"]:
            walked.append(table.step(skips=1, uses_own=1))
        expected = [bit for bit in range(64) if bits >> bit & 1]
        assert [int(each["own_bit"]) for each in walked] == expected
        assert [int(each["child_address"]) - 100 for each in walked] == expected
        assert [int(each["is_last"]) for each in walked] == [0] * (len(walked) - 1) + [1]
    table.step(loads=1, bits=0xFF)
    table.step(ends=1, skips=1)
    assert table.step()["todo"] == 0
