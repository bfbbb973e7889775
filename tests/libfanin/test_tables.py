"""The tables of the driver in C equal the definitions in fanin_wire."""

import pytest

from fanin.driver import ffi, library
from fanin_wire.collectives import COLLECTIVES
from fanin_wire.datatypes import DATATYPES
from fanin_wire.operations import OPERATIONS, supports
from fanin_wire.status import STATUSES


def test_header_has_the_codes_of_the_collectives() -> None:
    codes = ffi.typeof("enum fanin_collective").relements
    assert codes == {f"FANIN_{row.name.upper()}": row.code for row in COLLECTIVES}


@pytest.mark.parametrize("code", STATUSES)
def test_statuses_are_explained(code: int) -> None:
    entry, driver = STATUSES[code], library()
    found = (driver.fanin_status_name(code), driver.fanin_status_meaning(code), driver.fanin_status_remedy(code))
    assert [ffi.string(text).decode() for text in found] == [entry.name, entry.meaning, entry.remedy]


def test_an_unknown_status_is_explained() -> None:
    assert ffi.string(library().fanin_status_name(4000)) == b"UNKNOWN"


def test_supported_operations_are_those_of_the_devices() -> None:
    for op in range(max(int(entry.code) for entry in OPERATIONS) + 2):
        for dtype in range(max(int(entry.code) for entry in DATATYPES) + 2):
            assert bool(library().fanin_is_supported(op, dtype)) == supports(op, dtype)


def test_sizes_of_elements() -> None:
    assert library().fanin_dtype_bytes(4000) == 0
    for entry in DATATYPES:
        assert library().fanin_dtype_bytes(int(entry.code)) == entry.itemsize


def test_names_of_types_and_operations() -> None:
    for entry in DATATYPES:
        assert ffi.string(library().fanin_dtype_name(int(entry.code))).decode() == entry.name
    for operation in OPERATIONS:
        assert ffi.string(library().fanin_op_name(int(operation.code))).decode() == operation.name.lower()
    assert ffi.string(library().fanin_dtype_name(4000)) == ffi.string(library().fanin_op_name(4000)) == b""
