"""The whole path with real devices: every route, every byte counted, programs run by `fanin run`."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanin_tools.demo import allreduce, sections
from fanin_tools.demo.allreduce import Task
from fanin_tools.errors import ToolError
from fanin_tools.fabric import lifecycle, namespaces
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.fabric.processes import ProcessIdentity, wait_until_gone
from fanin_tools.fabric.state import FabricState
from fanin_tools.launch import job_file
from fanin_tools.launch.collective_call import CollectiveCall, DataLayout
from fanin_tools.launch.placement import place
from fanin_tools.launch.worker_pool import WorkerPool
from fanin_wire.settings import JobSettings
from tests.e2e.fabrics import BOUND_S, eventually
from tests.fabric.fixtures import ignore, own_state_folder

ROOT = Path(__file__).parents[2]
FANIN = [sys.executable, "-c", "from fanin_tools.cli.app import main; main()"]
NODES, RANKS_PER_NODE = 2, 2
RANKS = NODES * RANKS_PER_NODE
NAME = "e2e"
HEADER_SHARE = 0.03  # all headers of a 4 KiB segment
UNDISTURBED = 3  # runs, one of which keeps no process off its core for 20 ms, after which a NIC asks


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """Shared by all tests of this file, in a state folder of its own."""
    with pytest.MonkeyPatch.context() as patch, own_state_folder(patch):
        yield lifecycle.up(Plan(NAME, Shape(NODES, RANKS_PER_NODE)), ignore)


@pytest.mark.parametrize("route", ["tree", "ring", "local"])
def test_route_verifies_and_carries_the_expected_bytes(running: Running, route: str) -> None:
    for _ in range(UNDISTURBED):
        (outcome,) = allreduce.run(running, [route], Task(1 << 20), ignore)
        if not outcome.use.probes:
            break
    assert outcome.verified
    assert set(outcome.checked) == {"sum", "min", "max", "mean"}
    assert outcome.ranks == (RANKS_PER_NODE if route == "local" else RANKS)
    assert outcome.use.slots <= outcome.use.lease
    assert outcome.use.probes == 0
    for name, link in outcome.use.links.items():
        assert (link.payload_up, link.payload_down) == outcome.expected.get(name, (0, 0))
        assert link.wire_up - link.payload_up <= HEADER_SHARE * link.payload_up


@pytest.mark.parametrize(
    "settings", [JobSettings(), JobSettings(wide=True), JobSettings(reproducible="shape")], ids=str
)
@pytest.mark.parametrize("size", [4, 4096, (1 << 18) + 4096 + 4])
def test_uneven_ring_carries_the_expected_bytes(running: Running, size: int, settings: JobSettings) -> None:
    (outcome,) = allreduce.run(running, ["ring"], Task(size, "f16", settings=settings, cross_check=False), ignore)
    assert carried(outcome) == outcome.expected


def test_rings_below_switches_carry_the_expected_bytes(running: Running) -> None:
    shape = Shape(6, 1, fanout=(2, 3), plain_leaves=True)
    mixed = lifecycle.up(Plan("e2emixed", shape), ignore)
    try:
        outcomes = allreduce.run(mixed, ["tree", "ring"], Task(5 * 4096 + 8), ignore)
        assert [carried(outcome) for outcome in outcomes] == [outcome.expected for outcome in outcomes]
    finally:
        lifecycle.down("e2emixed")


def carried(outcome: allreduce.RouteResult) -> dict[str, tuple[int, int]]:
    assert outcome.verified
    return {name: (link.payload_up, link.payload_down) for name, link in outcome.use.links.items()}


@pytest.mark.parametrize("size", [0, 1, 3, 4095, 4096, 4097])
def test_odd_sizes(running: Running, size: int) -> None:
    outcomes = allreduce.run(running, ["tree", "ring", "local"], Task(size, "i64", cross_check=False), ignore)
    assert all(outcome.verified for outcome in outcomes)
    assert {outcome.bytes for outcome in outcomes} == {-(-size // 8) * 8}


def test_a_small_lease_is_never_exceeded(running: Running) -> None:
    outcomes = allreduce.run(
        running, ["tree", "ring"], Task(4 << 20, settings=JobSettings(slots=64), cross_check=False), ignore
    )
    assert all(outcome.verified and outcome.use.slots <= outcome.use.lease == 64 for outcome in outcomes)


def test_nothing_is_leased_afterwards(running: Running) -> None:
    allreduce.run(running, ["tree"], Task(4096, cross_check=False), ignore)
    for device in lifecycle.status(NAME)["devices"]:
        assert device["answer"]["slots"]["leased"] == 0


def test_every_section_is_as_it_must_be(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "are_allowed", lambda: False)
    shown = sections.run(running, sections.SECTIONS, ["tree", "ring", "local"], Task(1 << 16), ignore)
    assert [finding for finding in shown.section_results if not finding.verified] == []
    assert [row for row in shown.rows if not row.verified] == []
    assert shown.verified
    assert len(shown.networks) == len(shown.outcomes) == 3
    assert {finding.section for finding in shown.section_results} >= {
        "operations",
        "3 jobs at once",
        "groups",
        "query",
        "2 levels",
    }
    assert lifecycle.find(f"{NAME}-deep") is None


def test_queries_name_the_rank_that_is_late(running: Running) -> None:
    shown = sections.run(running, ["query"], ["tree"], Task(0), ignore)
    assert [finding.outcome for finding in shown.section_results] == [f"0 of 64, waits for [{RANKS - 1}]"]


def test_memory_that_nothing_was_written_to_is_wrong(running: Running) -> None:
    placement = place(running.fabric, RANKS, "tree")
    with WorkerPool(running, RANKS) as pool:
        pool.join(placement, job_file.describe(running, placement))
        for collective in ("allreduce", "allgather", "scatterv"):
            call = CollectiveCall(collective, 1000)
            pool.call(RANKS, "prepare", call=call.as_dict())
            elements = [
                sum(run.elements for run in DataLayout(call, RANKS).expected_result(rank) or ())
                for rank in range(RANKS)
            ]
            assert [reply["wrong"] for reply in pool.call(RANKS, "verify")] == elements
            pool.call(RANKS, "run", repeat=1)
            assert [reply["wrong"] for reply in pool.call(RANKS, "verify")] == [0] * RANKS
        pool.call(RANKS, "leave")


def test_rank_that_dies_in_a_pool_is_named(running: Running, capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(ToolError, match="PEER_LOST: rank 0: its process ended with exit code 1; its error output"),
        WorkerPool(running, 2) as pool,
    ):
        pool.call(2, "verify")
    assert "no call has been prepared" in capfd.readouterr().err


def test_pool_that_is_stuck_is_ended(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fanin_tools.launch.worker_pool.END_SECONDS", 0.5)
    placement = place(running.fabric, 2, "tree")
    with WorkerPool(running, 2) as pool:
        pool.join(placement, job_file.describe(running, placement))
        pool.call([0], "prepare", call=CollectiveCall("barrier", 0).as_dict())
        pool._send(0, {"do": "run", "repeat": 1})  # the other rank never comes
    eventually(lambda: members_of(pool._process.pid), lambda left: not left)


def members_of(group: int) -> list[str]:
    """Running processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            state, _, of_group, *_ = path.read_text().rpartition(")")[2].split()
            found += [path.parent.name] if int(of_group) == group and state != "Z" else []
    return found


def test_rank_at_fault_is_named(running: Running) -> None:
    """It takes longer to end than ranks that fail because of it."""
    program = """
import fanin, numpy, sys, time
communicator = fanin.Communicator()
if communicator.rank == 1:
    communicator.abort()
    time.sleep(1)
    sys.exit(5)
communicator.allreduce(numpy.ones(10))
"""
    result = run(program)
    assert result.returncode == 5
    assert "fanin: PROGRAM_FAILED: rank 1 ended with exit code 5; " in result.stderr


def test_interpreter_without_fanin_is_named(running: Running, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    command = [*FANIN, "run", "--name", NAME, "-n", "1", "--", str(python), "-c"]
    result = subprocess.run([*command, "import fanin"], capture_output=True, text=True)
    remedy = f"{python} has no fanin: activate its environment, or give the path: {sys.executable}"
    assert remedy in result.stderr
    result = subprocess.run([*command[:-2], sys.executable, "-c", "exit(3)"], capture_output=True, text=True)
    assert "has no fanin" not in result.stderr
    result = subprocess.run([*command[:-1], str(tmp_path / "no_script.py")], capture_output=True, text=True)
    assert "PROGRAM_FAILED" in result.stderr
    assert "has no fanin" not in result.stderr


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*FANIN, "run", "--name", NAME, "-n", str(RANKS), *arguments, "--", sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ)


def test_program_of_the_readme_runs(running: Running) -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert program is not None
    result = run(program[1])
    assert result.returncode == 0, result.stderr
    assert result.stdout == "total 6.0 mean 1.5 largest 27.0\n"


def test_rank_that_dies_is_reported_by_the_others(running: Running) -> None:
    program = """
import fanin, numpy, os, sys
communicator = fanin.Communicator()
if communicator.rank == 3:
    os._exit(9)
try:
    communicator.allreduce(numpy.ones(10, numpy.float32))
except fanin.FaninError as error:
    print(type(error).__name__)
"""
    result = run(program, "--prefix", "--json")
    assert result.returncode == 9
    assert "fanin: PROGRAM_FAILED: rank 3 ended with exit code 9; see its error output above" in result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("[")]
    assert sorted(said) == [f"[{rank}] PeerLost" for rank in range(RANKS - 1)]
    shown = json.loads(result.stdout)
    assert (shown["failed_rank"], shown["exit_code"]) == (3, 9)
    assert shown["error"]["name"] == "PROGRAM_FAILED"


SHELL_AS_MPIRUN = "sh -c 'shift 2; exec \"$@\"' mpirun"  # it starts one process of -n 4 env VARIABLES PROGRAM


@pytest.mark.parametrize("program", [["echo", "hello"], ["sh", "-c", "echo hello; exit 3"]])
def test_the_result_of_an_mpi_program_as_json(running: Running, program: list[str]) -> None:
    options = ["--name", NAME, "-n", "2", "--mpi", "--mpirun", SHELL_AS_MPIRUN, "--json"]
    result = subprocess.run([*FANIN, "run", *options, "--", *program], capture_output=True, text=True)
    shown, code = json.loads(result.stdout), 3 if "-c" in program else 0
    assert (result.returncode, shown["exit_code"], shown["ranks"]) == (code, code, 2)
    assert shown.get("error", {}).get("name") == ("PROGRAM_FAILED" if code else None)
    assert "hello" in result.stderr.splitlines()


def test_those_that_keep_going_rebuild_their_job(running: Running) -> None:
    """Without the option they would be ended at once: here the others get no time."""
    program = """
import fanin, numpy, os, time
communicator = fanin.Communicator()
if communicator.rank == 3:
    os._exit(9)
try:
    communicator.allreduce(numpy.ones(10))
except fanin.errors.PeerLost:
    communicator = communicator.shrink()
time.sleep(1)
print(communicator.allreduce(numpy.ones(1)).item())
"""
    hasty = "from fanin_tools.launch import launcher; launcher.launch.__kwdefaults__['grace'] = 0; "
    command = [sys.executable, "-c", hasty + FANIN[2], "run", "--name", NAME, "-n", str(RANKS)]
    for option, lines in (("--keep-going", ["3.0"] * (RANKS - 1)), ("--prefix", [])):
        result = subprocess.run([*command, option, "--", sys.executable, "-c", program], capture_output=True, text=True)
        assert (result.returncode, result.stdout.splitlines()) == (9, lines), result.stderr


def test_fabric_is_brought_up_for_a_run_and_taken_down(running: Running) -> None:
    command = [*FANIN, "run", "--name", "borrowed", "-n", "2", "--prefix", "--", sys.executable, "-c"]
    program = "import fanin, numpy; print(fanin.Communicator().allreduce(numpy.ones(1))[0])"
    result = subprocess.run([*command, program], capture_output=True, text=True, env=os.environ)
    assert sorted(result.stdout.splitlines()) == ["[0] 2.0", "[1] 2.0"]
    assert "fabric borrowed is up for this command" in result.stderr
    assert lifecycle.find("borrowed") is None


DOWN = "fabric lent has been taken down"


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGKILL, -9, [f"{DOWN}: its command was killed"]),
        (signal.SIGINT, 130, [DOWN, "fanin: INTERRUPTED: Ctrl-C ended this command"]),
        (signal.SIGTERM, 143, [DOWN, "fanin: INTERRUPTED: SIGTERM ended this command"]),
    ],
)
@pytest.mark.parametrize("mpi", [[], ["--mpi", "--mpirun", SHELL_AS_MPIRUN]])
def test_nothing_is_left_of_a_run_that_is_ended(
    running: Running, mpi: list[str], number: int, code: int, said: list[str]
) -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    command = [*FANIN, "run", "--name", "lent", "-n", "1", *mpi, "--", sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        rank = ProcessIdentity.of(int(run.stdout.readline()))
        devices = list(FabricState("lent").processes().values())
        assert devices
        run.send_signal(number)
        _, errors = run.communicate(timeout=BOUND_S)  # until the guard, which shares the error output, has ended
    assert run.returncode == code
    assert wait_until_gone([rank, *devices], BOUND_S) == []
    assert not FabricState("lent").exists
    _, *lines = errors.splitlines()
    assert [line.partition(" and all processes")[0] for line in lines] == said


def test_runs_at_the_same_time_do_not_meet(running: Running) -> None:
    """Each brings up a fabric of its own, which holds its ranks, and takes it down."""
    program = (
        "import fanin, numpy, time; c = fanin.Communicator(); time.sleep(1 / c.size); print(c.allreduce(numpy.ones(1)))"
    )
    runs = [
        subprocess.Popen(
            [*FANIN, "run", "-n", str(ranks), "--", sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for ranks in (1, 2, 2)
    ]
    for run, ranks in zip(runs, (1, 2, 2), strict=True):
        output, errors = run.communicate()
        assert (run.returncode, output.splitlines()) == (0, [f"[{ranks}.]"] * ranks), errors
        assert f"fabric run-{run.pid} is up for this command" in errors
        assert lifecycle.find(f"run-{run.pid}") is None


def test_direct_links_carry_a_ring(running: Running) -> None:
    direct = lifecycle.up(Plan("e2edirect", Shape(nodes=3, ranks_per_node=1, direct=True)), ignore)
    try:
        assert allreduce.routes_of(direct.fabric, "all") == ["ring", "local"]
        outcomes = allreduce.run(direct, ["ring", "local"], Task(65536), ignore)
        assert all(outcome.verified for outcome in outcomes)
    finally:
        lifecycle.down("e2edirect")
