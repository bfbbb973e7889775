"""SPEC.md agrees with the definitions."""

import re
import zlib
from pathlib import Path

import fanin_wire
from fanin_wire import fields
from fanin_wire.golden import vector, vectors
from fanin_wire.tables import FIELD_MEANINGS, FLAG_MEANINGS, HEADERS, OPCODE_MEANINGS, TABLES

SPEC = (Path(fanin_wire.__file__).parent / "SPEC.md").read_text()


def test_every_table_is_there():
    assert [name for name in TABLES if f"<!-- table: {name} -->" not in SPEC] == []


def test_every_field_has_a_meaning():
    for name, header in HEADERS.items():
        named = {field.name for field in header.fields if not field.name.startswith("resv")}
        assert named == set(FIELD_MEANINGS[name])


def test_every_opcode_and_flag_has_a_meaning():
    assert set(OPCODE_MEANINGS) == set(fields.Opcode)
    assert set(FLAG_MEANINGS) == {flag.name for flag in fields.Flag}


def example(name: str) -> bytes:
    """The bytes of an example of the text: groups of 8 hexadecimal digits, without other words."""
    block = SPEC.split(f"<!-- example: {name} -->")[1].split("```")[1]
    return bytes.fromhex("".join(re.findall(r"\b[0-9a-f]{8}\b", block)))


def test_example_of_the_icrc_is_a_golden_packet():
    assert example("super_packet_segment_2") == vector("super_packet_segment_2").packet


def test_bytes_under_the_crc_give_the_icrc():
    crc = zlib.crc32(example("bytes under the CRC"))
    assert f"gives 0x{crc:08x}" in SPEC
    assert crc.to_bytes(4, "little") == vector("super_packet_segment_2").packet[-4:]


def test_vectors_that_are_cited_exist():
    names = {golden.name for golden in vectors()}
    cited = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^Vectors:.*?\n\n", SPEC, re.M | re.S))))
    assert cited
    assert cited <= names
