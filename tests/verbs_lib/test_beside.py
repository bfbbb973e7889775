"""Calls for libibverbs' own devices are passed on to it."""

import re
import subprocess
from pathlib import Path

import pytest

from fanin.verbs.send_queue import HEADER_PATH as EXTENSION
from fanin.verbs_lib import library_path
from tests.verbs_lib.conftest import PROGRAMS, Programs, build, require

# Functions of libibverbs that touch no objects of devices.
LEFT_OUT = {
    "ibv_unimport_pd",
    "ibv_unimport_mr",
    "ibv_unimport_dm",
    "ibv_dofork_range",
    "ibv_dontfork_range",
    "ibv_fork_init",
    "ibv_is_fork_initialized",
    "ibv_event_type_str",
    "ibv_node_type_str",
    "ibv_port_state_str",
    "ibv_wc_status_str",
    "ibv_rate_to_mbps",
    "ibv_rate_to_mult",
    "mbps_to_ibv_rate",
    "mult_to_ibv_rate",
    "ibv_get_sysfs_path",
    "ibv_read_sysfs_file",
    "ibv_register_driver",
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
}


def symbols(library: str | Path) -> dict[str, str]:
    """Functions of a library, and the version that a program gets today."""
    said = subprocess.run(
        [require("nm"), "--dynamic", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return dict(re.findall(r" T (\w+)@@(\w+\.?\d*)", said))


def test_symbols_are_those_of_libibverbs() -> None:
    real = next(iter(Path("/usr/lib").glob("*/libibverbs.so.1")), None)
    if real is None:
        pytest.skip("libibverbs.so.1 (Debian: libibverbs1)")
    ours, theirs = symbols(library_path()), symbols(real)
    own = {name for name in ours if name.startswith("fanin_verbs_")}
    assert own == set(re.findall(r"\b(fanin_verbs_\w+)\(", EXTENSION.read_text()))
    ours = {name: version for name, version in ours.items() if name not in own}
    assert ours.items() <= theirs.items()
    public = {name for name, version in theirs.items() if "PRIVATE" not in version}
    assert public - ours.keys() == LEFT_OUT & public


def test_devices_of_libibverbs_come_after(programs: Programs, tmp_path: Path) -> None:
    flags = ["-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1"]
    program = build("beside.c", tmp_path)
    versions = PROGRAMS / "other_libibverbs.map"
    other = build("other_libibverbs.c", tmp_path, [*flags, f"-Wl,--version-script={versions}"])
    other.rename(tmp_path / "libibverbs.so.1")
    ended = programs.run(program, LD_LIBRARY_PATH=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["fanin0 64", "fanin1 64", "other0 12345"]


def test_without_fanin_devices_the_list_is_that_of_libibverbs(programs: Programs, tmp_path: Path) -> None:
    program = build("beside.c", tmp_path)
    plain = subprocess.run([program], capture_output=True, text=True)
    preloaded = programs.run(program, FANIN_SOCKET="/nowhere")
    assert (preloaded.returncode, preloaded.stdout) == (plain.returncode, plain.stdout)
