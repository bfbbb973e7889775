"""The file of thresholds of `fanin tune`: the order of its lines matters, and users edit it."""

from pathlib import Path

import pytest

from fanin_tools.errors import UsageError
from fanin_tools.launch import tuning

NEW = {"mpich local 4": "all=off"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "mpich local 4: all=off\n"),
        ("mpich local 4: all=0-\n", "mpich local 4: all=off\n"),
        ("mpich local 8: all=0-\n", "mpich local 4: all=off\nmpich local 8: all=0-\n"),
        ("mpich local 2: all=0-\n# mine\n", "mpich local 2: all=0-\n# mine\nmpich local 4: all=off\n"),
        ("all=0-\ntree: all=0-\n", "all=0-\ntree: all=0-\nmpich local 4: all=off\n"),
        ("mpich local 8: all=0-\nmpich local 4: all=0-\n", "mpich local 8: all=0-\nmpich local 4: all=off\n"),
        ("mpich local 4: all=0-; tree: all=0-", "mpich local 4: all=0-; tree: all=0-\nmpich local 4: all=off\n"),
    ],
)
def test_a_new_line_finds_its_place(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "thresholds"
    path.write_text(before)
    tuning.save(NEW, path)
    assert path.read_text() == after


def test_a_new_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "new" / "thresholds"
    tuning.save(NEW, path)
    assert path.read_text() == f"{tuning.HEAD}\nmpich local 4: all=off\n"


@pytest.mark.parametrize("content", [b"\xff", None], ids=["no text", "a folder"])
def test_a_file_that_can_not_be_kept_is_refused_by_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "thresholds"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=str(path)):
        tuning.save(NEW, path)


def test_without_a_folder_of_settings_the_file_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOME")
    with pytest.raises(UsageError, match="--output"):
        tuning.tuned_file()
