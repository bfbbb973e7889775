"""Write the golden vectors: `python -m tests.wire.make_vectors`, from the root of the repository.

The files are checked in and reviewed. A test compares them with this script's output, so that a change of the formats
shows as a change of bytes.
"""

import json
import textwrap
from collections.abc import Sequence

from fanin_wire.golden import FOLDER

from .oracle import LAYOUTS, pack_packet
from .scenes import Scene
from .scenes_control import MEMBERSHIP, RECOVERY
from .scenes_rocev2 import ROCEV2
from .scenes_segments import CONTRIBUTIONS, RESULTS

FILES = {
    "contribution": ("CONTRIBUTION: partial results on their way up a tree or round a ring.", CONTRIBUTIONS),
    "result": ("RESULT: final results on their way down or round.", RESULTS),
    "recovery": ("PROBE, NEED, WAIT and ACK: recovery from loss.", RECOVERY),
    "membership": ("CONFIG to KEEPALIVE: how a job is formed, watched and ended.", MEMBERSHIP),
    "rocev2": ("Ordinary RoCEv2 packets.", ROCEV2),
}

COLUMNS = 120
HEAD = """\
# {title}
#
# Each vector is a whole IPv4 packet. `hex` is cut into the parts named beside it; the tables are the meaning of the
# fields, those not named are 0. Made by tests/wire/make_vectors.py; do not edit.
"""

# Fields in hexadecimal, with their digits; 16 digits are a string, as TOML integers are signed.
DIGITS = {"opcode": 2, "flags": 2, "pkey": 4, "dqpn": 6, "sqpn": 6, "psn": 6, "sport": 4, "syndrome": 2}
DIGITS |= {"key": 8, "token": 8, "rkey": 8, "qkey": 8, "immdt": 8, "invalidated_rkey": 8}
DIGITS |= dict.fromkeys(
    ("node_bitmap", "rank_bitmap", "mask", "va", "swap", "compare", "original", "boot_id", "digest_high", "digest_low"),
    16,
)


def _value(name: str, value: int | str) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    digits = DIGITS.get(name)
    if digits is None:
        return str(int(value))
    text = f"0x{value:0{digits}x}"
    return json.dumps(text) if digits == 16 else text


def _rows(name: str, values: dict) -> list[str]:
    """The nonzero fields of a header."""
    order = LAYOUTS[name][1].split() if name in LAYOUTS else list(values)
    return [f"{field} = {_value(field, values[field])}" for field in order if values.get(field)]


def _header_lines(headers: dict[str, dict | Sequence[dict]]) -> list[str]:
    """TOML of the fields of all headers, in order: a line for each header or entry of a list. From the first one that
    does not fit into a line they are tables, which TOML has last."""
    lines: list[str] = []
    is_table = False
    for name, values in headers.items():
        tables = [_rows(name, each) for each in ([values] if isinstance(values, dict) else values)]
        inline = [f"{{ {', '.join(rows)} }}" for rows in tables]
        is_table = is_table or max(map(len, inline), default=0) + len(f"{name} = ") > COLUMNS
        if is_table:
            title = f"[vector.{name}]" if isinstance(values, dict) else f"[[vector.{name}]]"
            lines += [line for rows in tables for line in ("", title, *rows)]
        elif isinstance(values, dict):
            lines.append(f"{name} = {inline[0]}")
        else:
            lines += [f"{name} = [", *(f"    {line}," for line in inline), "]"]
    return lines


def _hex_lines(names: Sequence[str], parts: Sequence[bytes]) -> list[str]:
    """The bytes, 32 a line, with the name of each part beside its first line."""
    lines = ["hex = ["]
    for name, part in zip(names, parts, strict=True):
        for start in range(0, len(part), 32):
            comment = f" # {name}" if start == 0 else ""
            lines.append(f'    "{part[start : start + 32].hex()}",{comment}')
    return [*lines, "]"]


def _sentence(text: str) -> str:
    line = f"text = {json.dumps(text)}"
    return line if len(line) <= COLUMNS else 'text = """\n' + "\n".join(textwrap.wrap(text, 116)) + '"""'


def vector_text(scene: Scene) -> str:
    headers = scene.all_headers()
    names = [*headers, "payload", "padding", "ICRC"]
    lines = ["", "[[vector]]", f'name = "{scene.name}"', _sentence(scene.text)]
    lines += _hex_lines(names, pack_packet(headers, scene.payload))
    if scene.elements:
        lines.append(f"elements = {json.dumps(scene.elements).replace('Infinity', 'inf').replace('NaN', 'nan')}")
    if scene.payload:
        lines.append(f'payload = "{scene.payload.hex()}"')
    lines += _header_lines(headers)
    return "\n".join(lines) + "\n"


def file_text(title: str, scenes: Sequence[Scene]) -> str:
    return HEAD.format(title=title) + "".join(map(vector_text, scenes))


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (title, scenes) in FILES.items():
        (FOLDER / f"{name}.toml").write_text(file_text(title, scenes))


if __name__ == "__main__":
    main()
