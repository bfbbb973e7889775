"""Compiled code is kept where the user can write and nobody else can, and the doctor says what is there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from fanin_nic.native import cache
from fanin_tools.cli import output
from fanin_tools.doctor import system
from fanin_tools.doctor.check import CheckResult, Level


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files of a user whose own cache can not be written, as root's neither: it is below a
    file."""
    (tmp_path / "file").touch()
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.delenv(cache.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def checked_cache() -> CheckResult:
    return system._cache()


def test_substitute_is_the_same_for_all_processes_and_closed_to_others(temporary: Path) -> None:
    folder = cache.choose_cache_folder()
    assert folder.parent == temporary / f"fanin-cache-{os.getuid()}"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert cache.choose_cache_folder() == folder
    assert checked_cache().level == Level.LIMITED


def test_user_without_a_home_has_the_substitute(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number without an entry in the list of users, as in containers."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda _number: {}["nobody"])
    assert cache.cache_root() is None
    assert cache.choose_cache_folder().is_relative_to(temporary)
    assert "no home" in checked_cache().detail


def test_substitute_that_others_can_write_is_not_used(temporary: Path) -> None:
    """Whoever writes there has devices run his code. The error says at once what to set."""
    (temporary / f"fanin-cache-{os.getuid()}").mkdir(mode=0o777)
    (temporary / f"fanin-cache-{os.getuid()}").chmod(0o777)
    with pytest.raises(cache.CacheUnavailable, match="set FANIN_CACHE_DIR") as refused:
        cache.choose_cache_folder()
    assert output._unforeseen(refused.value).name == "COMPILATION_FAILED"
    assert checked_cache().level == Level.BROKEN


def test_doctor_tells_a_cache_that_is_complete_from_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compilation leaves it that failed half way."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path))
    half_full = cache.choose_cache_folder()
    (half_full / "fanin_nic.engine").mkdir()
    found = checked_cache()
    assert (found.level, str(half_full) in found.detail) == (Level.LIMITED, True)
    cache.completion_mark(half_full).touch()
    assert checked_cache().level == Level.OK


def test_complete_folder_serves_where_it_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image of a container. One that is not complete does not."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path))
    folder = cache.choose_cache_folder()
    writable = cache.can_be_written
    monkeypatch.setattr(cache, "can_be_written", lambda path: writable(path) and not path.is_relative_to(tmp_path))
    assert not cache.choose_cache_folder().is_relative_to(tmp_path)
    cache.completion_mark(folder).touch()
    assert cache.choose_cache_folder() == folder
    assert checked_cache().level == Level.OK
    assert not cache.choose_cache_folder(ready_made=False).is_relative_to(tmp_path)
