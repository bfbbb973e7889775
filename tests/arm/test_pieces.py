"""The pieces of `make arm` that need neither packages nor an emulator."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fanin_image import packages
from fanin_image.packages import NotPossible, Selection
from tests.rdma.machine.packages import PackagesMissing

from . import emulated, entries, image, machine, namespace, scene, selection, steps

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", selection.PARTS, ids=lambda part: part.name)
def test_selected_files_are_there(part: selection.Part) -> None:
    """The sample is part of the whole."""
    assert all((ROOT / file).is_file() for file in part.sample)
    assert all((ROOT / folder).is_dir() for folder in part.whole)
    assert all(file.startswith(tuple(f"{folder}/" for folder in part.whole)) for file in part.sample)


@pytest.mark.parametrize("name", selection.LEFT_OUT)
def test_tests_that_are_left_out_are_there(name: str) -> None:
    """Otherwise a renamed test would fail only on Arm."""
    file, _, test = name.partition("::")
    functions = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert not test or test in functions


def test_steps_have_names_of_their_own() -> None:
    names = [step.name for step in steps.STEPS]
    assert len(set(names)) == len(names)
    assert {part.name for part in selection.PARTS} < set(names)


@pytest.mark.parametrize(
    ("program", "is_arm"),
    [
        (b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x02\x00\xb7\x00", True),
        (b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x03\x00\xb7\x00", True),  # position-independent
        (b"\x7fELF\x02\x01\x01\x00" + bytes(8) + b"\x02\x00\x3e\x00", False),  # x86-64
        (b"\x7fELF\x01\x01\x01\x00" + bytes(8) + b"\x02\x00\xb7\x00", False),  # 32 bits
        (b"#!/bin/sh" + bytes(11), False),
    ],
)
def test_programs_that_are_emulated(program: bytes, is_arm: bool) -> None:
    masked = bytes(byte & mask for byte, mask in zip(program, namespace.MASK, strict=True))
    assert (masked == namespace.MAGIC) == is_arm


def test_registration_is_a_line_of_binfmt_misc() -> None:
    """Linux, admin-guide/binfmt-misc: `:name:type:offset:magic:mask:interpreter:flags`, at most 1920 bytes."""
    line = namespace.registration("/usr/bin/emulator")
    fields = line.split(b":")
    assert fields[:4] == [b"", b"qemu-aarch64", b"M", b""]
    assert [len(field) for field in fields[4:6]] == [4 * len(namespace.MAGIC), 4 * len(namespace.MASK)]
    assert fields[6:] == [b"/usr/bin/emulator", b"PF"]
    assert len(line) <= 1920


def test_no_tool_for_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotPossible, match=r"^apt-get, which fetches"):
        packages.check_tools()


def test_python_that_no_release_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    with pytest.raises(NotPossible, match=r"^Python 3\.11 or 3\.13"):
        image.suite()


def test_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(NotPossible, match="riscv64"):
        image.image(print)


@pytest.mark.process
@pytest.mark.parametrize("alone", [False, True])
def test_archive_that_is_not_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: bool) -> None:
    """No network: apt's own reason, and nothing counts as fetched."""
    try:
        packages.check_tools()
    except NotPossible as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(packages, "ARCHIVE", f"file:{tmp_path}/none")
    with pytest.raises(NotPossible, match="the list of Debian's packages"):
        packages.unpack(Selection("bookworm", "arm64", ("dash",)), tmp_path / "target", tmp_path / "work", alone=alone)
    assert not (tmp_path / "target").exists()


@pytest.mark.process
def test_no_emulator_of_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The step `scene` names the missing part, and leaves nothing half made."""
    try:
        packages.check_tools()
    except NotPossible as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("FANIN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(emulated, "ARM64", emulated.ARM64._replace(package="qemu-system-none"))
    with pytest.raises(NotPossible, match="qemu-system-none"):
        emulated.image(print)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.process
def test_scene_without_a_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A step without its means, among others, is named."""

    def missing() -> None:
        raise PackagesMissing("a home for nothing")

    monkeypatch.setattr(scene.host_image, "image", missing)
    made = image.Image(*[tmp_path] * 5)
    with pytest.raises(NotPossible, match="a home for nothing"):
        scene.scene(machine.Machine(made, tmp_path))


def test_calls_of_the_scene_that_are_wrong() -> None:
    """Wrong results, compiled code, and programs on a wrong processor are failures."""

    ranks = {"machine": "x86_64", "calls": 7, "wrong": []}
    devices = {"machine": "aarch64", "files": ["a"]}
    assert "7 by local, 7 by tree" in scene.judged(devices, {"local": ranks, "tree": ranks}, devices)
    for wrong_ranks, wrong_devices, text in (
        ({"wrong": ["rank 1: allreduce"]}, {}, "rank 1: allreduce"),
        ({}, {"files": ["a", "b"]}, "device code was compiled: b"),
        ({"machine": "aarch64"}, {}, "ranks ran on"),
        ({}, {"machine": "x86_64"}, "devices on x86_64"),
    ):
        with pytest.raises(machine.StepFailed, match=text):
            scene.judged(devices, {"local": ranks, "tree": ranks | wrong_ranks}, devices | wrong_devices)


@pytest.mark.process
def test_no_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without namespaces: the system's own error is the reason."""
    monkeypatch.setattr(machine.namespace, "MODULE", "tests.arm.no_namespaces")
    with pytest.raises(NotPossible, match="no_namespaces"):
        machine.check_namespaces(tmp_path)


@pytest.mark.process
def test_entries_that_tests_call(tmp_path: Path) -> None:
    """In a device this function is part of others, and no entry."""
    found = entries.of_tests(["tests/port/test_icrc.py", "-k", "published"], tmp_path / "entries")
    assert ("fanin_nic.port.icrc", "contiguous_icrc") in {(entry.module, entry.name) for entry in found}


@pytest.mark.process
def test_tests_that_fail_here(tmp_path: Path) -> None:
    """They are not tried on Arm."""
    with pytest.raises(machine.StepFailed, match="the tests fail on this machine"):
        entries.of_tests(["tests/arm/none.py"], tmp_path / "entries")


@pytest.mark.process
def test_processor_seconds_are_those_of_children_too() -> None:
    """The child has had a tenth of a second before it says so."""
    work = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert machine.processor_seconds(process) >= 0.1
        process.communicate(b"\n")


@pytest.mark.process
def test_unknown_step() -> None:
    command = [sys.executable, "-m", "tests.arm", "--steps", "demo,nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "nothing: not a step; use some of library,code" in done.stderr
