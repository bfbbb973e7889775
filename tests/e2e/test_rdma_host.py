"""Ranks that reach their device by RDMA: right results on every route, named refusals, and ends that are noticed.

The verbs devices are NICs of another fabric, by the preloaded verbs library: one for each node's host, and one for its
device. `FANIN_TEST_RDMA=all` (`make rdma`) tries more calls, up to 16 MiB, and 40 kills of ranks and devices; `make
rdma-kills KILLS=100` does only that. A printed seed chooses kills and moments.
"""

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from fanin.verbs_lib import library_path
from fanin_tools.errors import ToolError
from fanin_tools.fabric.generate import Shape
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.faults.fault_kinds import open_descriptors, process_of
from fanin_wire.abi import RDMA_VERSION, Status
from tests.e2e.fabrics import BOUND_S, Bench, assert_released, eventually, pid_of, statuses
from tests.e2e.held_device import HeldDevice, HeldRank, line_of, tell
from tests.e2e.members import describe
from tests.e2e.rank_processes import FLAGS, ROOT, Kills, Ranks, build_working_rank
from tests.e2e.refusing_device import Refusing
from tests.e2e.relay import OneReply, Relay
from tests.e2e.remote_ranks import SLOTS_OF_LONG, Pool, calls, failures, long_calls
from tests.libfanin.conftest import BOUND_S as BOUND_OF_PROGRAMS_S
from tests.libfanin.conftest import PROGRAMS as PROGRAMS_IN_C
from tests.libfanin.conftest import Compiler

NODES, RANKS_OF_NODE = 2, 2
PROGRAM = [sys.executable, "-m", "tests.e2e.rdma_rank"]
IS_WHOLE = os.environ.get("FANIN_TEST_RDMA") == "all"
SIZES = [0, 1, 2, 100, 3_001, 65_536, 1_000_001, 4 << 20] if IS_WHOLE else [0, 2, 70_001]
LONG = (16 << 20) // 4 if IS_WHOLE else 0  # elements: 16 MiB
KILLS = int(os.environ.get("FANIN_TEST_RDMA_KILLS", 40 if IS_WHOLE else 2))
ROUNDS = "60"  # of the program in C
ROUTES_OF_KILLS = ["tree", "ring", "local"]  # in turn; every second kill is of a device


@dataclass
class Hosts:
    """A fabric of NODES NICs below a switch, each with a verbs device for its host, and its own."""

    running: Running
    carriers: Running
    ports: list[int]
    token: Path

    @property
    def addresses(self) -> list[str]:
        return [self.address(node) for node in range(len(self.ports))]

    def address(self, node: int) -> str:
        return f"rdma://{self.host_device(node)}@127.0.0.1:{self.ports[node]}"

    @staticmethod
    def host_device(node: int) -> str:
        return f"fanin{NODES + node}"

    def variables(self) -> dict[str, str]:
        return dict(os.environ) | {"FANIN_TOKEN_FILE": str(self.token)}


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_token(tmp_path_factory.mktemp("token") / "token", secrets.token_hex(32))


def write_token(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture(scope="module")
def hosts(bench: Bench, token: Path) -> Iterator[Hosts]:
    """All started processes find the verbs devices."""
    carriers = bench.up(Shape(2 * NODES, 1, direct=True, lanes=1))
    sockets = ":".join(str(carriers.state.socket(nic.name)) for nic in carriers.fabric.nics)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FANIN_SOCKET", sockets)
        patch.setenv("LD_PRELOAD", str(library_path()))
        patch.setenv("FANIN_TOKEN_FILE", str(token))
        fabric = bench.describe(Shape(NODES, 2 * RANKS_OF_NODE, lanes=1))
        ports = free_ports(NODES)
        places = {nic.name: f"rdma://fanin{node}@127.0.0.1:{ports[node]}" for node, nic in enumerate(fabric.nics)}
        devices = [
            replace(device, rdma=places[device.name], token_file=str(token)) if device.name in places else device
            for device in fabric.devices
        ]
        yield Hosts(bench.build(replace(fabric, devices=tuple(devices))), carriers, ports, token)


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def start(hosts: Hosts, folder: Path, route: str, program: Sequence[str | Path], *arguments: str) -> Ranks:
    """The ranks of a job, all over RDMA."""
    return Ranks(hosts.running, hosts.addresses, hosts.variables(), folder, route, program, *arguments)


def kills(hosts: Hosts, folder: Path, seed: int) -> Kills:
    program = build_working_rank(folder)
    return Kills(hosts.running, lambda route: start(hosts, folder, route, [program]), seed)


@pytest.mark.parametrize(("route", "ranks"), [("local", [3]), ("tree", [2, 2]), ("ring", [2, 2])])
def test_collectives(hosts: Hosts, route: str, ranks: list[int]) -> None:
    """Every bit of every result is right. One rank shares memory with its device."""
    addresses = [[hosts.address(node)] * count for node, count in enumerate(ranks)]
    addresses[0][0] = str(hosts.running.state.socket(hosts.running.fabric.nics[0].name))
    with Pool(hosts.running, sum(ranks)) as pool:
        made = calls(SIZES) + (long_calls(LONG, sum(ranks)) if LONG else [])
        assert list(failures(pool, route, made, addresses)) == []
    assert_released(hosts.running)


def holdings(hosts: Hosts) -> dict[str, object]:
    """What the verbs devices hold for all clients, and the open files of each device that serves ranks, by name."""
    objects = {f"{name} of a host": status["ordinary"] for name, status in statuses(hosts.carriers).items()}
    devices = [device.name for device in hosts.running.fabric.devices]
    return objects | {name: open_descriptors(process_of(hosts.running, name)) for name in devices}


def test_kills(hosts: Hosts, tmp_path: Path) -> None:
    """Ranks and devices in turn. The others get named errors, and nothing is left of the victim. A killed device's
    replacement serves the ranks of the next kill."""
    seed = int(os.environ.get("FANIN_TEST_RDMA_SEED", secrets.randbits(32)))
    print(f"FANIN_TEST_RDMA_SEED={seed}")
    chosen, before = kills(hosts, tmp_path, seed), holdings(hosts)
    for number in range(KILLS):
        kill = chosen.kill_device if number % 2 else chosen.kill_rank
        print(f"kill {number + 1} of seed {seed}:", kill(ROUTES_OF_KILLS[number % 3]), flush=True)
        eventually(lambda: holdings(hosts), lambda now: now == before)


def test_program_in_c(hosts: Hosts, tmp_path: Path) -> None:
    """One binary makes every collective over both interfaces; only the address differs."""
    program, seed = Compiler(tmp_path).build(PROGRAMS_IN_C / "collectives.c"), str(secrets.randbits(30))
    print("seed", seed)
    sockets = [str(hosts.running.state.socket(nic.name)) for nic in hosts.running.fabric.nics]
    for addresses in (sockets, hosts.addresses):
        placement, job = describe(hosts.running, RANKS_OF_NODE, "local", SLOTS_OF_LONG)
        path = tmp_path / "job"
        path.write_text(job.to_text())
        processes = []
        for rank in range(placement.size):
            line = [program, ROUNDS, seed, addresses[placement.node_of(rank)]]
            own = {"FANIN_JOB": str(path), "FANIN_RANK": str(rank)}
            pipe = subprocess.PIPE
            processes.append(subprocess.Popen(line, env=hosts.variables() | own, stdout=pipe, stderr=pipe, text=True))
        said = [process.communicate(timeout=BOUND_OF_PROGRAMS_S) for process in processes]
        assert said == [(f"rank {rank}: {ROUNDS} rounds\n", "") for rank in range(placement.size)]
    assert_released(hosts.running)


def test_rings_that_are_filled(hosts: Hosts, tmp_path: Path) -> None:
    """More than they hold passes, since each side learns the other's progress."""
    assert start(hosts, tmp_path, "local", PROGRAM, "many").ends() == ["ready"] * 2


def test_refusals(hosts: Hosts, tmp_path: Path) -> None:
    """Memory out of the device's reach is refused by name, and the job goes on."""
    ranks = start(hosts, tmp_path, "tree", PROGRAM, "refused")
    for process in ranks.processes:
        output, errors = process.communicate(timeout=2 * BOUND_S)
        assert output.splitlines()[-1:] == ["ready"], output + errors
        assert output.startswith("NotSupported "), output
        assert "a device over RDMA reaches only registered memory" in output


def say_of(hosts: Hosts, folder: Path, address: str, what: str = "many", **variables: str) -> str:
    _, job = describe(hosts.running, 1, "local", 8)
    path = folder / "job"
    path.write_text(job.to_text())
    line = [*PROGRAM, path, "0", address, what]
    done = subprocess.run(
        line, cwd=ROOT, env=hosts.variables() | variables, capture_output=True, text=True, timeout=2 * BOUND_S
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_completions_that_nobody_takes(hosts: Hosts, tmp_path: Path) -> None:
    """The device marks it in its own region, where the host looks when nothing comes."""
    assert say_of(hosts, tmp_path, hosts.address(0), "overrun").startswith("CqOverrun ")
    assert_released(hosts.running)


def test_numbers_of_queues(hosts: Hosts, tmp_path: Path) -> None:
    """They are given in turn, so that a late message is for no existing queue."""
    assert say_of(hosts, tmp_path, hosts.address(0), "numbers") == "ready\n"
    assert_released(hosts.running)


def test_attachment_that_is_refused(hosts: Hosts, tmp_path: Path) -> None:
    """Each error says what to do."""
    address = hosts.address(0)
    other = write_token(tmp_path / "other", secrets.token_hex(32))
    short = write_token(tmp_path / "short", "0011")
    (free,) = free_ports(1)
    expected = {
        ("PermissionDenied", "the device has a different token"): say_of(
            hosts, tmp_path, address, FANIN_TOKEN_FILE=str(other)
        ),
        ("", "has fewer than 64 hexadecimal digits"): say_of(hosts, tmp_path, address, FANIN_TOKEN_FILE=str(short)),
        ("NoDevice", "can not connect to"): say_of(hosts, tmp_path, f"rdma://127.0.0.1:{free}"),
        ("NoDevice", "verbs device nothing does not exist"): say_of(
            hosts, tmp_path, address.replace(hosts.host_device(0), "nothing")
        ),
        ("NoDevice", "no verbs device has the address 127.0.0.1"): say_of(
            hosts, tmp_path, f"rdma://127.0.0.1:{hosts.ports[0]}"
        ),
        ("", "write rdma://ADDRESS:PORT"): say_of(hosts, tmp_path, "rdma://127.0.0.1"),
    }
    for (name, text), said in expected.items():
        assert said.startswith(name), said
        assert text in said


def build_preloaded(folder: Path, name: str) -> Path:
    """Preloaded before the verbs library."""
    library, source = folder / f"{name}.so", ROOT / f"tests/e2e/programs/{name}.c"
    includes = [f"-I{ROOT / 'host/fanin/core'}", f"-I{ROOT / 'protocol/fanin_wire'}"]
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *FLAGS, "-shared", "-fPIC", *includes, str(source), "-o", str(library)], check=True)
    return library


def one_node(bench: Bench, hosts: Hosts) -> Hosts:
    """A NIC of its own, with the variables that are set now."""
    fabric, ports = bench.describe(Shape(1, 2, direct=True, lanes=1)), free_ports(1)
    (nic,) = fabric.devices
    nic = replace(nic, rdma=f"rdma://fanin0@127.0.0.1:{ports[0]}", token_file=str(hosts.token))
    return Hosts(bench.build(replace(fabric, devices=(nic,))), hosts.carriers, ports, hosts.token)


def test_limits_of_reads(bench: Bench, hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each side has as many READs in flight as both allow; a limit of 0 is an error."""

    def limit(log: str, asked: int, answered: int) -> Path:
        monkeypatch.setenv("FANIN_TEST_READS_ASKED", str(asked))
        monkeypatch.setenv("FANIN_TEST_READS_ANSWERED", str(answered))
        monkeypatch.setenv("FANIN_TEST_READS_LOG", str(tmp_path / log))
        return tmp_path / log

    monkeypatch.setenv("LD_PRELOAD", f"{build_preloaded(tmp_path, 'limits_of_reads')}:{library_path()}")
    of_device = limit("device", 5, 3)
    limited = one_node(bench, hosts)
    (nic,) = limited.running.fabric.devices
    of_host = limit("host", 2, 4)
    assert start(limited, tmp_path, "local", PROGRAM, "many").ends() == ["ready"] * 2
    assert set(of_device.read_text().splitlines()) == {"4 2"}
    assert set(of_host.read_text().splitlines()) == {"2 4"}
    limit("host", 0, 4)
    assert "sends no READs" in say_of(limited, tmp_path, limited.address(0))
    limit("host", 2, 0)
    assert "its log names what it lacks" in say_of(limited, tmp_path, limited.address(0))
    assert "the client's verbs device answers none" in limited.running.state.log(nic.name).read_text()


@dataclass
class Held:
    """Hosts with a device whose results are held back while a file exists."""

    hosts: Hosts
    device: HeldDevice

    def rank(
        self, what: str, program: str = "held_rank", **variables: str
    ) -> AbstractContextManager[tuple[Relay, HeldRank]]:
        return self.device.rank(program, what, self.hosts.variables() | variables)


@pytest.fixture(scope="module")
def held(bench: Bench, hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Held:
    folder = tmp_path_factory.mktemp("held")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", f"{build_preloaded(folder, 'held_writes')}:{library_path()}")
        patch.setenv("FANIN_TEST_HELD", str(folder / "held"))
        found = one_node(bench, hosts)
    return Held(found, HeldDevice(found.ports[0], found.host_device(0), folder / "held"))


@pytest.mark.parametrize("what", ["leave", "destroy"])
def test_results_behind_the_end_of_a_queue_pair(held: Held, what: str) -> None:
    """The end waits for them, even if it is asked for again: what the rank then stores in the same memory stays."""
    with held.rank(what) as (_, rank):
        tell(rank)
        assert line_of(rank) == "late"
        tell(rank)
        held.device.let_go()
        assert line_of(rank) == "over"
        tell(rank)
        assert line_of(rank) == "kept"
    assert_released(held.hosts.running)


def test_job_that_is_left_after_its_end_was_late(held: Held) -> None:
    """Its queue pair is gone, and is not destroyed twice: only its results are waited for."""
    with held.rank("end", "held_job") as (_, rank):
        tell(rank)
        assert line_of(rank) == "late"
        tell(rank)
        held.device.let_go()
        assert line_of(rank) == "SUCCESS"
    assert_released(held.hosts.running)


def assert_kept(held: Held, rank: HeldRank) -> None:
    """The results reach nothing. The device drops the rank when they are not acknowledged."""
    assert_released(held.hosts.running)
    tell(rank)
    assert line_of(rank) == "kept"


@pytest.mark.parametrize("what", ["wait", "post", "request"])
def test_results_behind_the_loss_of_a_device(held: Held, what: str) -> None:
    """However the rank notices it, its queue pair is gone. Only the connection is lost; the device goes on."""
    with held.rank(what) as (relay, rank):
        relay.cut()
        tell(rank)
        assert line_of(rank) == "over"
        held.device.let_go()
        assert_kept(held, rank)


def test_results_of_a_device_that_stood_still(held: Held) -> None:
    """It goes on when the rank has reused the memory."""
    (device,) = held.hosts.running.fabric.devices
    with held.rank("wait") as (_, rank):
        os.kill(pid_of(held.hosts.running, device.name), signal.SIGSTOP)
        try:
            tell(rank)
            assert line_of(rank) == "over: it stands still"
            held.device.begin_to_let_go()
        finally:
            os.kill(pid_of(held.hosts.running, device.name), signal.SIGCONT)
        assert_kept(held, rank)


def test_device_that_says_that_it_has_gone(held: Held) -> None:
    """It says so in its region, where the rank looks when nothing comes. It has lost the rank's connection, which the
    rank still has, and gives its queue pair back when the results are written."""
    with held.rank("wait") as (relay, rank):
        relay.cut_target()
        tell(rank)
        assert line_of(rank) == "over"
    assert_released(held.hosts.running)


def test_queue_pair_that_can_not_be_destroyed(held: Held, tmp_path: Path) -> None:
    """The memory is deregistered instead. If that fails, too, the error says that it may be written."""
    preloaded = f"{build_preloaded(tmp_path, 'failing_destroy')}:{library_path()}"
    with held.rank("wait", LD_PRELOAD=preloaded) as (relay, rank):
        relay.cut()
        tell(rank)
        assert line_of(rank) == "over"
        held.device.let_go()
        assert_kept(held, rank)
    with held.rank("wait", LD_PRELOAD=preloaded, FANIN_TEST_KEEPS_MEMORY="1") as (relay, rank):
        relay.cut()
        tell(rank)
        assert line_of(rank) == "over: it stands still"
    assert_released(held.hosts.running)


def test_device_that_ends_behind_its_reply(hosts: Hosts, tmp_path: Path) -> None:
    """Then the rank attaches to nothing."""
    with OneReply(hosts.ports[0]) as relay:
        said = say_of(hosts, tmp_path, f"rdma://{hosts.host_device(0)}@127.0.0.1:{relay.port}")
    assert said.startswith("DeviceLost "), said
    assert_released(hosts.running)


@pytest.mark.parametrize("status", ["INVALID_REQUEST", "VERSION_MISMATCH"])
def test_device_of_another_version(hosts: Hosts, tmp_path: Path, status: str) -> None:
    """The first devices over RDMA knew no version, and found the request too long."""
    with Refusing(Status[status]) as device:
        said = say_of(hosts, tmp_path, f"rdma://{hosts.host_device(0)}@127.0.0.1:{device.port}")
    assert said.startswith("VersionMismatch "), said
    assert f"differ in the version of RDMA between them ({RDMA_VERSION} here)" in said


def test_doctor(hosts: Hosts) -> None:
    """It makes a request of the device by RDMA, and leaves nothing there."""
    reached = hosts.address(0)
    nowhere = reached.replace(hosts.host_device(0), "nothing")
    variables = hosts.variables() | {"FANIN_SOCKET": ":".join([os.environ["FANIN_SOCKET"], reached, nowhere])}
    line = [str(Path(sys.executable).with_name("fanin")), "doctor", "--json"]
    said = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=2 * BOUND_S)
    found = {row["subject"]: row for row in json.loads(said.stdout)}
    assert (said.returncode, found[reached]["level"], found[nowhere]["level"]) == (1, "ok", "broken"), said
    assert found[reached]["detail"].startswith("a request and its completion took ")
    assert "verbs device nothing does not exist" in found[nowhere]["detail"]
    assert_released(hosts.running)


def test_device_that_can_not_serve(bench: Bench, hosts: Hosts) -> None:
    """It says why, as for the other reasons of tests/host/test_remote.py."""
    fabric = bench.describe(Shape(1, 1, direct=True, lanes=1))
    (nic,) = fabric.devices
    nic = replace(nic, rdma=f"rdma://nothing@127.0.0.1:{free_ports(1)[0]}", token_file=str(hosts.token))
    with pytest.raises(ToolError) as refusal:
        bench.build(replace(fabric, devices=(nic,)))
    assert refusal.value.name == "DEVICE_LOST"
    assert "no verbs device is called nothing; use one of fanin0, fanin1, " in refusal.value.cause
