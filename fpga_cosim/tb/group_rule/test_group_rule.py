"""When one packet goes to the multicast group, written again from SPEC.md, 7.4."""

import numpy as np

from fpga_cosim.tb.verilated import Module


def expected(given: np.void) -> tuple[bool, bool]:
    """Whether the job's children may be reached by the group, and whether the result is sent to it."""
    children, wanting = int(given["mask"]).bit_count(), int(given["wants"]).bit_count()
    may_invite = given["group_address"] != 0 and children > 1 and 2 * children > given["group_size"]
    most = 2 * wanting > given["group_size"] and 2 * wanting > children
    empty = wanting == 0 or not given["has_data"] or given["status"] != 0
    return bool(may_invite), bool(may_invite and given["hears"] and (most or empty))


def test_rule(generator: np.random.Generator) -> None:
    module = Module("group_rule")
    inputs = np.zeros(8000, module.inputs)
    count = len(inputs)
    bits = generator.integers(0, 7, count)
    inputs["mask"] = (1 << bits.astype(np.uint64)) - 1
    inputs["wants"] = inputs["mask"] & generator.integers(0, 64, count, np.uint64)
    inputs["group_address"] = generator.integers(0, 4, count) * 0x1000
    inputs["group_size"] = generator.integers(0, 14, count)
    inputs["hears"], inputs["has_data"] = generator.random((2, count)) < 0.8
    inputs["status"] = generator.integers(0, 24, count) * (generator.random(count) < 0.2)
    outputs = module.run(np.repeat(inputs, 2))[1::2]  # the counts come one clock later
    seen = set()
    for given, output in zip(inputs, outputs, strict=True):
        wanted = expected(given)
        assert (bool(output["may_invite"]), bool(output["result_to_group"])) == wanted, given
        seen.add(wanted)
    assert len(seen) == 3
