"""The effect of a contribution on its slot, written again from SPEC.md, for random packets and slots."""

import numpy as np

from fpga_cosim.tb.steps import CLASS, DROP, constants
from fpga_cosim.tb.verilated import Module

FLAG, OP, DTYPE = (constants("fanin_constants", f"FANIN_{name}") for name in ("FLAG", "OP", "DTYPE"))
SLOTS, LEASE, CHUNK, CHILDREN = 8, 4, 64, 4
SHIFT = 5  # of the class in the flags
COMPUTED = ("is_missing", "is_last_one", "some_have_left", "brings", "adds", "is_pending", "has_pending", "divides")
RECORDED = ("missing", "wants", "status", "contributions", "has_data", "length", "hears", "has_sum", "pending")


def draw(generator: np.random.Generator, inputs: np.ndarray) -> None:
    """Packets that often fit a slot of their own position or the one before, of jobs of a few children."""
    count, all_bits = len(inputs), (1 << CHILDREN) - 1
    source = generator.integers(0, CHILDREN, count)
    inputs["source_bit"] = 1 << source
    inputs["below_source"] = (1 << source) - 1
    inputs["is_active"], inputs["in_order"] = generator.random(count) < 0.95, generator.random(count) < 0.5
    inputs["mask"] = np.where(generator.random(count) < 0.3, 1 << source, all_bits)
    inputs["slots"], inputs["chunk"] = SLOTS, CHUNK
    for name in ("s_missing", "s_wants", "s_pending"):
        inputs[name] = generator.integers(0, all_bits + 1, count)
    inputs["left"] = generator.integers(0, all_bits + 1, count) * (generator.random(count) < 0.2)
    inputs["s_position"] = generator.integers(0, 100, count)
    inputs["p_position"] = inputs["s_position"] + SLOTS * generator.integers(0, 2, count)
    inputs["p_seg"] = inputs["p_position"] % SLOTS + (generator.random(count) < 0.05)
    inputs["s_final"] = inputs["p_position"] != inputs["s_position"]
    for name in ("s_has_data", "s_has_sum", "s_hears"):
        inputs[name] = generator.integers(0, 2, count)
    inputs["p_op"] = inputs["s_op"] = generator.choice([OP["SUM"], OP["MEAN"]], count)
    inputs["p_dtype"] = inputs["s_dtype"] = DTYPE["I32"]
    kind = generator.choice([CLASS["NONE"], CLASS["ONE"], CLASS["ALL"]], count, p=[0.1, 0.1, 0.8])
    inputs["s_class"] = kind
    flags = (FLAG["HAS_DATA"], FLAG["WANTS_RESULT"], FLAG["HEARS_GROUP"])
    inputs["p_flags"] = kind << SHIFT | sum(flag * generator.integers(0, 2, count) for flag in flags)
    inputs["p_length"] = inputs["s_length"] = generator.choice([0, 4, CHUNK, CHUNK + 4], count, p=[0.1, 0.4, 0.4, 0.1])
    for name in ("p_status", "s_status"):
        inputs[name] = generator.integers(0, 24, count) * (generator.random(count) < 0.2)
    for name in ("p_contributions", "s_contributions"):
        inputs[name] = generator.choice([0, 1, 2, (1 << 32) - 1], count)


def expected(given: np.void) -> dict[str, int]:
    g = {name: int(given[name]) for name in given.dtype.names}
    has_data, wants = (bool(g["p_flags"] & FLAG[name]) for name in ("HAS_DATA", "WANTS_RESULT"))
    kind, source = g["p_flags"] >> SHIFT & 3, g["source_bit"]
    replaces = g["p_position"] != g["s_position"]
    missing = g["mask"] if replaces else g["s_missing"]
    old = {
        name: 0 if replaces else g[f"s_{name}"] for name in ("wants", "status", "contributions", "has_data", "has_sum")
    }
    brings = has_data and g["p_status"] == 0
    pending = bool(g["in_order"] and kind == CLASS["ALL"] and missing & g["below_source"])
    contributions = (old["contributions"] + g["p_contributions"]) % (1 << 32)
    status, length = max(old["status"], g["p_status"]), g["s_length"] if old["has_data"] else g["p_length"]
    adds, waits = brings and g["p_length"] > 0, bool(g["in_order"] and g["s_pending"])
    last = not missing & ~source
    mean = g["p_op"] == OP["MEAN"] and kind == CLASS["ALL"] and contributions > 1 and length > 0 and status == 0
    return {
        "is_missing": bool(missing & source),
        "is_last_one": last,
        "some_have_left": bool(missing & ~source & g["left"]),
        "brings": brings,
        "adds": adds,
        "is_pending": pending,
        "has_pending": waits,
        "divides": bool(last and not waits and mean and (old["has_data"] or brings)),
        "missing": missing & ~source,
        "wants": old["wants"] | (source if wants else 0),
        "status": status,
        "contributions": contributions,
        "has_data": bool(old["has_data"] or brings),
        "length": length,
        "hears": bool((replaces or g["s_hears"]) and g["p_flags"] & FLAG["HEARS_GROUP"]),
        "has_sum": bool(old["has_sum"] or (brings and not pending)),
        "pending": g["s_pending"] | (source if adds and pending else 0),
    }


def is_wrong(given: np.void) -> bool:
    """Item 10 of section 5."""
    place = given["p_seg"] != given["p_position"] % SLOTS
    none = given["p_flags"] >> SHIFT & 3 == CLASS["NONE"] and given["p_flags"] & FLAG["HAS_DATA"]
    return bool(not given["is_active"] or place or given["p_length"] > CHUNK or none)


def test_verdicts(generator: np.random.Generator) -> None:
    module = Module("contribution_rule", {"LEASE": LEASE})
    inputs = np.zeros(20_000, module.inputs)
    draw(generator, inputs)
    seen: dict[str, set[int]] = {name: set() for name in COMPUTED}
    for given, output in zip(inputs, module.run(inputs), strict=True):
        wrong = is_wrong(given)
        assert (output["drop"], output["accepts"]) == ((DROP["POSITION"], 0) if wrong else (DROP["NONE"], 1)), given
        wanted = expected(given)
        came = {name: int(output[name]) for name in COMPUTED}
        came |= {name: int(output[f"{name}_then"]) for name in RECORDED}
        assert came == {name: int(value) for name, value in wanted.items()}, given
        for name in COMPUTED:
            seen[name].add(came[name])
    assert all(values == {0, 1} for values in seen.values())
