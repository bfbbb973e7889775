"""Generated files agree with the definitions."""

from pathlib import Path

import pytest

from fanin_wire import generate, tables
from fanin_wire.tables import with_block

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [*generate.PARTS, *generate.WHOLE])
def test_a_file_is_the_definitions(name: str) -> None:
    assert (ROOT / name).read_text() == generate.texts(ROOT)[ROOT / name], "make tables"


def test_a_file_without_a_place_for_them_is_refused() -> None:
    for text in ("a\n", "a\nb\na\nb\n"):
        with pytest.raises(ValueError, match="not one place between `a` and `b`"):
            with_block(text, "a", "b", "lines\n")
    assert with_block("a\nold\nb\n", "a", "b", "new\n") == "a\nnew\nb\n"


def test_it_writes_what_is_not_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    for name in (*generate.PARTS, *generate.WHOLE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    stale = tmp_path / "host/fanin/core/geometry.h"
    stale.write_text("")
    monkeypatch.chdir(tmp_path)
    generate.main()
    assert capsys.readouterr().out == "fanin: host/fanin/core/geometry.h\n"
    assert stale.read_text() == (ROOT / "host/fanin/core/geometry.h").read_text()


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_page_without_its_rows_is_refused(rows: int) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows of datatypes"):
        tables.with_datatypes("| datatypes | f32 |\n" * rows)
