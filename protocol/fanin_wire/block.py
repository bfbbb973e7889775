"""The lines that are generated into a file, between two lines of comment."""

from __future__ import annotations

import re


def with_block(text: str, begin: str, end: str, lines: str) -> str:
    """`text` with `lines` between the lines `begin` and `end`. ValueError unless both occur once."""
    block = re.compile(rf"(?<=^{re.escape(begin)}\n).*?(?=^{re.escape(end)}$)", re.M | re.S)
    replaced, places = block.subn(lambda _: lines, text)
    if places != 1:
        raise ValueError(f"not one place between `{begin}` and `{end}`")
    return replaced
