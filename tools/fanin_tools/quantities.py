"""Numbers with units: sizes and rates are parsed; sizes, durations and counts are rendered."""

import re

from fanin_tools.errors import UsageError

SIZE_PATTERN = re.compile(r"(\d+)([KMG]?)(?:i?B)?", re.IGNORECASE)
FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
RATE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)(?:bit)?", re.IGNORECASE)
RATE_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def parse_size(text: str) -> int:
    """In bytes: "4097", "64K", "16M", "1G". Units are powers of 1024; "B" or "iB" may follow."""
    match = SIZE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size", "write bytes, as in 4097, 64K or 16M")
    return int(match[1]) * FACTORS[match[2].upper()]


def parse_rate(text: str) -> int:
    """In bits per second: "100gbit", "2.5g", "800000000"."""
    match = RATE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a rate", "write bits per second, as in 100gbit, 400mbit or 0")
    return int(float(match[1]) * RATE_FACTORS[match[2].lower()])


def render_size(count: float) -> str:
    """Bytes: "64 MiB", "96.5 KiB", "12 B"."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count:.0f} B"


def render_time(seconds: float) -> str:
    """Seconds: "5.3 us", "11.2 ms", "1.2 s"."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 NIC", "4 NICs", "2 switches"."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{ending}"
