"""The slot rule and the agreement of contributions, written again from SPEC.md, at positions near each other."""

import numpy as np

from fpga_cosim.tb.target import reasons
from fpga_cosim.tb.verilated import Module

HALF, WHOLE, ONE = 1 << 31, 1 << 32, 1
PLACE = ("op", "dtype", "contributor_class", "mid", "sid")


def verdict(given: np.void) -> tuple[str, bool, bool]:
    """The demand by which the packet is dropped, whether it replaces, and whether it differs."""
    d = (int(given["position"]) - int(given["slot_position"])) % WHOLE
    d -= WHOLE if d >= HALF else 0
    replaces = d == given["slots"]
    if d < 0:
        drop = "6-33"
    elif (d == 0 and given["slot_is_fresh"]) or (d != 0 and not replaces):
        drop = "6-37"
    else:
        drop = "6-36" if replaces and not given["slot_is_final"] else ""
    differs = any(given[name] != given[f"slot_{name.removeprefix('contributor_')}"] for name in PLACE)
    if given["brings"] and given["slot_has_data"]:
        differs |= given["contributor_class"] == ONE or given["length"] != given["slot_length"]
    return drop, replaces, (differs and not replaces) or bool(given["brings"] and given["is_wide"])


def test_verdicts(generator: np.random.Generator) -> None:
    module = Module("slot_rule")
    inputs = np.zeros(20_000, module.inputs)
    for name in inputs.dtype.names:
        inputs[name] = generator.integers(0, 2, len(inputs)) + (3 if name in ("mid", "slot_mid") else 0)
    same = generator.random(len(inputs)) < 0.6
    for name in PLACE:
        inputs[name][same] = inputs[f"slot_{name.removeprefix('contributor_')}"][same]
    inputs["slots"] = slots = 1 << generator.integers(1, 6, len(inputs))
    near = generator.choice([-1, 0, 0, 0, 1, 2], len(inputs)) * slots + generator.choice([0, 0, 0, 1], len(inputs))
    near[::50] = generator.choice([HALF, HALF - 1, -HALF], len(near[::50]))
    inputs["slot_position"] = generator.choice([0, 7, HALF - 4, WHOLE - 8], len(inputs))
    inputs["position"] = (inputs["slot_position"].astype(np.int64) + near) % WHOLE
    names, seen = reasons(), set()
    for given, output in zip(inputs, module.run(inputs), strict=True):
        expected = verdict(given)
        assert (names.get(int(output["drop"]), ""), output["replaces"], output["differs"]) == expected, given
        assert output["accepts"] == (not expected[0])
        seen.add(expected)
    assert len(seen) == 10  # all that there are
