"""Faulty devices: the switch in plain Python with one place of its text changed, as an engineer may get it wrong."""

import contextlib
import sys
from collections.abc import Iterator
from importlib import resources
from types import ModuleType
from typing import NamedTuple

from fanin_reference.switch import Switch

SOUND, COPY = "fanin_reference", "faulty_reference"
MODULES = ("spec", "packets", "arithmetic", "times", "job", "device", "membership", "positions", "switch")


class WrongLine(NamedTuple):
    """clause: the demand that is broken. `right` stands once in the module; `wrong` takes its place."""

    name: str
    clause: str
    module: str
    right: str
    wrong: str


class NoSuchLine(LookupError):
    """The text of the module does not have the right line once."""


WRONG_LINES = (
    # Arithmetic
    WrongLine(
        "integers are compared as unsigned",
        "12-12",
        "arithmetic",
        'return min if op == "MIN" else max',
        'return lambda a, b: (min if op == "MIN" else max)(a, b, key=lambda n: n % 2**64)',
    ),
    WrongLine(
        "unsigned integers are compared as signed",
        "12-12",
        "arithmetic",
        'return min if op == "MIN" else max',
        'half = 2 ** (8 * size - 1)\n            return lambda a, b: (min if op == "MIN" else max)(a, b, '
        "key=lambda n: (n + half) % (2 * half))",
    ),
    WrongLine(
        "MIN and MAX of a NaN give the number",
        "12-16",
        "arithmetic",
        "            return math.nan\n        if a == b",
        "            return b if math.isnan(a) else a\n        if a == b",
    ),
    WrongLine(
        "-0 is not less than +0",
        "12-16",
        "arithmetic",
        "return min(a, b, key=lambda zero: sign * math.copysign(1, zero))",
        "return a",
    ),
    WrongLine(
        "integers saturate",
        "12-13",
        "arithmetic",
        "        number = compute(a, b) % modulus\n",
        "        least, most = (-modulus // 2, modulus // 2 - 1) if signed else (0, modulus - 1)\n        "
        "number = max(least, min(most, compute(a, b)))\n",
    ),
    WrongLine(
        "elements are big-endian",
        "2-12",
        "arithmetic",
        'struct.iter_unpack("<" + LETTERS',
        'struct.iter_unpack(">" + LETTERS',
    ),
    WrongLine(
        "the elements behind the last whole 16 bytes are not computed",
        "7.1-8",
        "arithmetic",
        "[fold(a, b) for a, b in zip(total, other, strict=False)]",
        "[fold(a, b) if k < len(other) // (16 // size) * (16 // size) else a for k, (a, b) in "
        "enumerate(zip(total, other))]",
    ),
    WrongLine(
        "f16 is rounded between two children",
        "12-18",
        "arithmetic",
        "to_f32(EXACT[op](a, b))",
        'rounded("e" if name == "f16" else "f", EXACT[op](a, b))',
    ),
    WrongLine(
        "bf16 is cut off, not rounded", "12-18", "arithmetic", "bits + 0x7FFF + (bits >> 16 & 1) >> 16", "bits >> 16"
    ),
    WrongLine(
        "bf16 in the middle is rounded up", "12-23", "arithmetic", "bits + 0x7FFF + (bits >> 16 & 1)", "bits + 0x8000"
    ),
    WrongLine(
        "subnormals are flushed to zero",
        "12-14",
        "arithmetic",
        '    return rounded("f", number)',
        '    small = rounded("f", number)\n    return small * 0.0 if abs(small) < 2.0**-126 else small',
    ),
    WrongLine(
        "what is too large for the type is the largest number",
        "12-14",
        "arithmetic",
        "math.copysign(math.inf, number)",
        'math.copysign({"e": 65504.0, "f": 3.4028234663852886e38}[letter], number)',
    ),
    WrongLine(
        "NaNs keep their sign",
        "12-15",
        "arithmetic",
        "return math.nan if number != number",
        "return -math.nan if number != number",
    ),
    WrongLine(
        "sums begin with zero",
        "12-3",
        "arithmetic",
        "    for other in others:\n",
        '    total = [0.0 + each for each in total] if others and family == "float" else total\n    for '
        "other in others:\n",
    ),
    WrongLine(
        "the only data are computed, too",
        "12-4",
        "arithmetic",
        "    if len(data) == 1 and not means and not wide:",
        "    if False:",
    ),
    WrongLine(
        "a mean is rounded down",
        "12-25",
        "arithmetic",
        "abs(value) // ranks * (1 if value >= 0 else -1)",
        "value // ranks",
    ),
    WrongLine(
        "a mean is divided by the children",
        "12-25",
        "positions",
        "data, slot.contributions, wide)",
        "data, len(data), wide)",
    ),
    WrongLine(
        "a mean is divided in the small type",
        "12-19",
        "arithmetic",
        "to_f32(value / to_f32(ranks))",
        'to_f32(rounded("e", value) / to_f32(ranks))',
    ),
    WrongLine(
        "of equal values the first is taken",
        "12-31",
        "arithmetic",
        "(1, sign * value, index, ",
        "(1, sign * value, 0, ",
    ),
    WrongLine(
        "a NaN loses against numbers", "12-30", "arithmetic", "return (0, 0, index, 0)", "return (2, 0, index, 0)"
    ),
    WrongLine("LAND is bit by bit", "12-26", "arithmetic", "int(a != 0 and b != 0)", "a & b"),
    WrongLine(
        "a reproducible job folds in the order of arrival",
        "12-6",
        "positions",
        "sorted(slot.data) if job.in_order else slot.data",
        "slot.data",
    ),
    WrongLine(
        "wide partials are rounded before they are added",
        "12-11",
        "arithmetic",
        'decode("f32" if wide else name, each)',
        'decode(name, encode(name, decode("f32", each))) if wide else decode(name, each)',
    ),
    # The slot rule and the position
    WrongLine("a duplicate is added again", "7.1-5", "positions", "        return\n    wide =", "    wide ="),
    WrongLine(
        "a duplicate of a finished position is not answered",
        "7.1-3",
        "positions",
        "            _result(device, job, slot, bit)\n        return",
        "            pass\n        return",
    ),
    WrongLine(
        "a stale position replaces the slot",
        "6-33",
        "positions",
        '        raise Dropped("6-33")',
        "        ahead = job.slots",
    ),
    WrongLine("an open slot is replaced", "6-36", "positions", "    if ahead and not slot.is_final:", "    if False:"),
    WrongLine(
        "any later position replaces the slot",
        "6-37",
        "positions",
        "    if ahead not in (0, job.slots) or (",
        "    if ahead % job.slots or (",
    ),
    WrongLine(
        "the result goes to the last child only",
        "7.2-4",
        "positions",
        "    for bit in job.children:",
        "    for bit in list(job.children)[-1:]:",
    ),
    WrongLine(
        "the slot keeps the wants of the position before",
        "7.1-1",
        "positions",
        "missing=job.mask, head",
        "missing=job.mask, wants=slot.wants, head",
    ),
    WrongLine(
        "sid is not compared",
        "7.1-6",
        "positions",
        "    differs = head != slot.head\n",
        '    differs = head | {"sid": 0} != slot.head | {"sid": 0}\n',
    ),
    WrongLine(
        "a second data of ONE takes the place of the first",
        "7.1-8",
        "positions",
        ' or bool(slot.data and head["class"] == spec.ONE)',
        "",
    ),
    WrongLine(
        "shorter data are taken",
        "7.1-8",
        "positions",
        "len(slot.data[0][1]) != len(packet.payload)",
        "len(slot.data[0][1]) < len(packet.payload)",
    ),
    WrongLine(
        "the least status wins",
        "7.1-7",
        "positions",
        "max(slot.status, membership.known",
        "min(slot.status or 99, membership.known",
    ),
    WrongLine(
        "PROBE of a missing contribution is taken for one that is here",
        "8-17",
        "positions",
        "if new or slot.missing >> bit & 1:",
        "if new:",
    ),
    # Membership and failure
    WrongLine(
        "the sender's address is not compared",
        "5-17",
        "switch",
        "if child.address != packet.address if child else",
        "if False if child else",
    ),
    WrongLine("the job's id alone counts", "5-15", "switch", "if job.key != packet.key:", "if False:"),
    WrongLine(
        "another incarnation is let in", "10.1-13", "membership", "    if job.key != packet.key:\n", "    if False:\n"
    ),
    WrongLine("a restarted child goes on", "10.1-17", "membership", 'child.boot_id != body["boot_id"]', "False"),
    WrongLine(
        "the digest is not compared", "10.1-16", "membership", "    if job.alike != _alike(body, hop):", "    if False:"
    ),
    WrongLine(
        "the largest lease wins",
        "10.1-19",
        "membership",
        'job.slots = min(job.slots, body["slots"])',
        'job.slots = max(job.slots, body["slots"])',
    ),
    WrongLine("the mask is not looked at", "10.1-8", "membership", ' or not each["mask"] >> each["bit"] & 1', ""),
    WrongLine(
        "the address of a HOP may be any of IPv6",
        "10.1-8",
        "membership",
        '    wrong |= any(each["address"] >> 32 != MAPPED >> 32 for each in hops)\n',
        "",
    ),
    WrongLine(
        "a LEAVE that names nobody names a device above",
        "4-28",
        "membership",
        "Named(1 << bit, address=about.address)",
        "about._replace(bits=1 << bit)",
    ),
    WrongLine(
        "a job ends when one has left",
        "10.4-3",
        "membership",
        "    elif job.mask & ~job.left == 0:",
        "    elif job.left:",
    ),
    WrongLine(
        "an abort is told to nobody but the sender",
        "11-2",
        "membership",
        '    for bit in job.present:\n        device.to_child(job, bit, "ABORT"',
        '    for bit in job.present[-1:]:\n        device.to_child(job, bit, "ABORT"',
    ),
    WrongLine("a tombstone is silent", "11-7", "switch", "if packet.opcode not in ENDED:", "if True:"),
    WrongLine("a refused key is forgotten", "11-13", "membership", "        job.refused = packet.key\n", ""),
)


@contextlib.contextmanager
def faulty_switch(fault: WrongLine) -> Iterator[type[Switch]]:
    """The class of a switch with a fault. Its modules are there, under another name, for the time of the block.

    Raises:
        NoSuchLine: the text has changed; mend the table.
    """
    package = ModuleType(COPY)
    package.__path__ = []
    sys.modules[COPY] = package
    try:
        for name in MODULES:
            text = resources.files(SOUND).joinpath(f"{name}.py").read_text(encoding="utf-8")
            if name == fault.module:
                if text.count(fault.right) != 1:
                    raise NoSuchLine(f"{fault.name}: {fault.right!r} is {text.count(fault.right)} times in {name}.py")
                text = text.replace(fault.right, fault.wrong)
            _load(package, name, text.replace(SOUND, COPY))
        yield sys.modules[f"{COPY}.switch"].Switch
    finally:
        for name in (COPY, *(f"{COPY}.{each}" for each in MODULES)):
            sys.modules.pop(name, None)


def _load(package: ModuleType, name: str, text: str) -> None:
    module = ModuleType(f"{COPY}.{name}")
    sys.modules[module.__name__] = module
    setattr(package, name, module)
    exec(compile(text, f"{name}.py with a fault", "exec"), module.__dict__)
