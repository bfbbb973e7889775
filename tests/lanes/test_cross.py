"""Device code compiled on another machine: the list of entries is complete, the code is for that processor, and a
processor without its features refuses it."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config, njit
from numba import types as numba_types
from numba.core.registry import cpu_target

from fanin_nic.daemon import cross
from fanin_nic.daemon.precompile import Entry, entries
from fanin_nic.engine import function_addresses
from fanin_nic.native import target
from fanin_nic.native.cache import completion_mark
from fanin_nic.native.compiled import CACHE_FOLDER, OPTIONS, internal
from fanin_nic.native.libraries import EntryCompiler

pytestmark = pytest.mark.process

SECONDS = 300
ROOT = Path(__file__).parents[2]
ELF, MACHINE, AARCH64 = b"\x7fELF", slice(18, 20), 183  # elf.h: EM_AARCH64
SOME = Entry("fanin_nic.native.shared_words", "load_acquire", (numba_types.int64,))
C_FUNCTIONS = {f"{function_addresses.__name__}.{name}" for name in ("_abort", "_proceed")}
# Loads the code, and fails if compiling needed more: modules of numba's compiler, those of inlined functions, numba's
# runtime, types of records.
WITHOUT_COMPILER = """
import sys
from numba.core.runtime import rtsys
from fanin_nic.daemon.precompile import precompile
from fanin_nic.native.memory import type_of
precompile()
found = {name: name in sys.modules for name in ("numba.np.linalg", "numba.cpython.listobj")}
found |= {"runtime": rtsys._init, "types": type_of.cache_info().currsize > 0}
sys.exit(", ".join(name for name, is_there in found.items() if is_there) or 0)
"""


def files_of(name: str) -> list[Path]:
    """Files of a function in this machine's cache: module and name give folder and start."""
    module, _, function = name.rpartition(".")
    package, _, file = module.rpartition(".")
    return list((CACHE_FOLDER / package).glob(f"{file}.{function}-*"))


def files_below(folder: Path) -> list[Path]:
    """Every file. numba makes the folders also for functions that it does not compile."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


def test_the_entries_are_all_that_a_device_loads(tmp_path: Path) -> None:
    """With their files a device compiles nothing more: no file is added, and the compiler stays unloaded."""
    names = {f"{entry.module}.{entry.name}" for entry in entries()} | C_FUNCTIONS
    folder = tmp_path / CACHE_FOLDER.name
    for file in [file for name in names for file in files_of(name)]:
        copy = folder / file.relative_to(CACHE_FOLDER)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    completion_mark(folder).touch()
    before = files_below(folder)
    environment = os.environ | {"FANIN_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", WITHOUT_COMPILER], env=environment, check=True, timeout=SECONDS)
    assert len(before) > len(names)
    assert files_below(folder) == before


def test_a_function_of_arrays_from_the_cache_has_the_runtime() -> None:
    """Its machine code counts references. The first process may have compiled it; the second one loads it."""
    program = "from fanin_tools.bench.memory import measure; print(measure(1 << 16, 2).volume)"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
        assert (done.returncode, done.stdout) == (0, "65536\n"), done.stderr


@internal
def next_number(number):
    return number + 1


def test_entry_has_its_own_environment_alone_and_names_for_its_callers() -> None:
    """Internal functions have none, so a device can make them without loading their modules."""
    entry = njit(**OPTIONS, pipeline_class=EntryCompiler)(lambda number: next_number(next_number(number)))
    entry.compile((numba_types.int64,))
    (compiled,) = entry.overloads.values()
    assert compiled._find_referenced_environments() == [compiled.environment]
    names = {function.name for function in compiled.library._get_module_for_linking().functions}
    described = compiled.fndesc
    assert names == {described.llvm_func_name, described.llvm_cpython_wrapper_name, described.llvm_cfunc_wrapper_name}
    assert entry(5) == 7


def test_code_is_for_the_target(tmp_path: Path) -> None:
    folder = cross.compile_for("arm64", tmp_path, [SOME])
    (code,) = folder.rglob("*.nbc")
    content = code.read_bytes()
    header = content[content.index(ELF) :]
    assert int.from_bytes(header[MACHINE], "little") == AARCH64
    assert json.loads((folder / target.CPU_FILE).read_text()) == target.TARGETS["arm64"]._asdict()
    assert not completion_mark(folder).exists()


def test_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(cross.CompilationFailed, match="can not be written"):
        cross.compile_for("arm64", tmp_path / "file", [SOME])


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CPU_NAME", None)
    monkeypatch.setattr(config, "CPU_FEATURES", None)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(target, "get_host_cpu_features", lambda: "+fp-armv8,+neon,-aes,-crc")


@pytest.mark.usefixtures("host")
def test_processor_that_has_all_takes_the_code(tmp_path: Path) -> None:
    target.record(target.TARGETS["arm64-base"], tmp_path)
    assert target.take_recorded(tmp_path)
    assert target.TARGETS["arm64-base"][2:] == (config.CPU_NAME, config.CPU_FEATURES)


@pytest.mark.usefixtures("host")
def test_folder_without_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not target.take_recorded(tmp_path)
    assert caplog.text == ""
    assert config.CPU_NAME is None


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[]", b"7", b"null", b"[" * 100_000])
def test_file_that_is_no_record(tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes) -> None:
    (tmp_path / target.CPU_FILE).write_bytes(content)
    assert not target.take_recorded(tmp_path)
    assert "cpu.json is not readable" in caplog.text
    assert config.CPU_NAME is None


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("field", target.Target._fields)
@pytest.mark.parametrize("value", [None, 7, ["+neon"], {}])
def test_field_of_another_type(tmp_path: Path, caplog: pytest.LogCaptureFixture, field: str, value: object) -> None:
    """Not a record: a later use of the field would fail."""
    written = target.TARGETS["arm64-base"]._asdict() | {field: value}
    (tmp_path / target.CPU_FILE).write_text(json.dumps(written))
    assert not target.take_recorded(tmp_path)
    assert f"not a string: {field}" in caplog.text
    assert config.CPU_NAME is None


@pytest.mark.usefixtures("host")
def test_processor_that_lacks_something_says_what(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target.record(target.TARGETS["arm64"], tmp_path)
    assert not target.take_recorded(tmp_path)
    assert "needs aes, crc, sha2, which this machine lacks" in caplog.text
    assert config.CPU_NAME is None


@pytest.mark.usefixtures("host")
def test_another_machine_does_not_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target.record(target.TARGETS["arm64-base"], tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert not target.take_recorded(tmp_path)
    assert "the machine aarch64" in caplog.text


# No file can be written, as in a container image. Prints what a device compiles, then one function without a folder.
READ_ONLY = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
from numba import types
from fanin_nic.native import compiled
from fanin_nic.native.shared_words import load_acquire
from tests.arm.programs.loaded import compilations, load
print(compiled.KEEPS, compiled.CACHE_FOLDER, compilations(load))
print(len(compilations(lambda: load_acquire.compile((types.uint32,)))))
"""


@pytest.mark.parametrize("record", [True, False])
def test_folder_that_is_only_read(tmp_path: Path, record: bool) -> None:
    """A device compiles only missing code, and keeps none. Code for an unnamed processor may be for another one: it is
    not used, and there is no other folder."""
    folder = tmp_path / CACHE_FOLDER.name
    folder.mkdir()
    for inner in CACHE_FOLDER.iterdir():
        (folder / inner.name).symlink_to(inner)
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    (folder / "complete").unlink()
    (folder / "complete").touch()  # as of an earlier release: without the processor
    if record:
        target.record(target.Target(platform.machine(), triple, cpu, features), folder)
    environment = os.environ | {"FANIN_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", READ_ONLY]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    if record:
        assert (done.stdout, done.returncode) == (f"False {folder} []\n1\n", 0)
    else:
        assert "compiled code can be kept neither" in done.stderr
