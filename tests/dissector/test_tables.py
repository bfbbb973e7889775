"""The tables in the dissector are the definitions of fanin_wire."""

import pytest

from fanin_wire.lua_tables import with_tables
from tests.dissector.tshark import FILE


def test_tables_are_the_definitions() -> None:
    text = FILE.read_text()
    assert with_tables(text) == text, "python -m fanin_wire.lua_tables protocol/fanin_wire/fanin.lua"


def test_a_file_without_a_place_for_them_is_refused() -> None:
    with pytest.raises(ValueError, match="there are no lines"):
        with_tables("-- tables\n")
