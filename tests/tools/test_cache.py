"""Compiled code is kept where only the user can write, and the doctor reports it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fanin_nic.native import cache, cpu
from fanin_tools.cli import output
from fanin_tools.doctor import system
from fanin_tools.doctor.check import CheckResult, Level


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files of a user whose own cache can not be written, not even by root: it is below a file."""
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
    """A stranger who writes there would have devices run their code. The error says at once what to set."""
    (temporary / f"fanin-cache-{os.getuid()}").mkdir(mode=0o777)
    (temporary / f"fanin-cache-{os.getuid()}").chmod(0o777)
    with pytest.raises(cache.CacheUnavailable, match="set FANIN_CACHE_DIR") as refused:
        cache.choose_cache_folder()
    assert output._unforeseen(refused.value).name == "COMPILATION_FAILED"
    assert checked_cache().level == Level.BROKEN


def test_doctor_tells_a_cache_that_is_complete_from_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a compilation that failed half way leaves it."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path))
    half_full = cache.choose_cache_folder()
    (half_full / "fanin_nic.engine").mkdir()
    found = checked_cache()
    assert (found.level, str(half_full) in found.detail) == (Level.LIMITED, True)
    cache.completion_mark(half_full).touch()
    assert checked_cache().level == Level.OK


def test_complete_folder_serves_where_it_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image of a container. An incomplete one does not."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path))
    folder = cache.choose_cache_folder()
    writable = cache.can_be_written
    monkeypatch.setattr(cache, "can_be_written", lambda path: writable(path) and not path.is_relative_to(tmp_path))
    assert not cache.choose_cache_folder().is_relative_to(tmp_path)
    cache.completion_mark(folder).touch()
    assert cache.choose_cache_folder() == folder
    assert checked_cache().level == Level.OK
    assert not cache.choose_cache_folder(ready_made=False).is_relative_to(tmp_path)


SHOW = "from fanin_nic.native import compiled; print(compiled.CACHE_FOLDER, compiled.KEEPS)"


def loaded(folder: Path) -> tuple[str, str]:
    """Where a process keeps compiled code when the cache at a folder can not be written, and its output."""
    read_only = f'mount --bind {folder} {folder} && mount -o remount,bind,ro {folder} && exec "$@"'
    environment = os.environ | {cache.ENVIRONMENT_VARIABLE: str(folder), "TMPDIR": str(folder.parent)}
    command = ["unshare", "--mount", "sh", "-c", read_only, "sh", sys.executable, "-c", SHOW]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if "unshare failed" in done.stderr or "permission denied" in done.stderr:
        pytest.skip("the right to make mounts (root)")
    return done.stdout.strip(), done.stderr


@pytest.mark.process
def test_complete_folder_of_this_processor_serves_another_user(tmp_path: Path) -> None:
    """Its owner compiled, and a mark says for which processor. One for another does not serve, and that is said."""
    folder = tmp_path / "cache" / f"compiled-{cache.source_digest()}"
    folder.mkdir(parents=True)
    cache.completion_mark(folder).write_text(cpu.processor())
    assert loaded(tmp_path / "cache") == (f"{folder} False", "")
    cache.completion_mark(folder).write_text("another one")
    kept, said = loaded(tmp_path / "cache")
    assert kept == f"{tmp_path / f'fanin-cache-{os.getuid()}' / folder.name} True"
    assert f"the device code in {folder} is for another processor: it is compiled, into {tmp_path}" in said


@pytest.mark.process
def test_folder_that_was_asked_for_and_can_not_be_written_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    _, said = loaded(folder)
    assert f"FANIN_CACHE_DIR={folder} can not be written: {tmp_path / f'fanin-cache-{os.getuid()}'}" in said
