"""Single attacks of a client on a real device. Each has a named outcome, and the device still serves others."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fanin import Communicator, Job, JobNode, errors
from fanin_tools.fabric import device_query
from fanin_tools.fabric.lifecycle import Running
from fanin_tools.stress.fuzz import hostile_client
from fanin_tools.stress.fuzz.hostile_client import LENGTH, REPLY_SECONDS, HostileClient, collective, local_job, message
from fanin_tools.stress.tally import Tally
from fanin_wire import abi
from fanin_wire.abi import Access, Status
from tests.e2e.fabrics import eventually

READ, READ_WRITE = int(Access.READ), Access.READ | Access.WRITE
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
REFUSED = dict.fromkeys(hostile_client.KINDS, Status.LOCAL_PROTECTION_ERROR) | {"sealed": Status.SUCCESS}
NO_MEMORY = [kind for kind in hostile_client.KINDS if kind != "process memory"]


@contextlib.contextmanager
def client(path: Path) -> Iterator[HostileClient]:
    opened = HostileClient(path, random.Random(0), Tally(0))
    try:
        yield opened
    finally:
        opened.close()


def status_of(reply: bytes) -> Status:
    return Status(int(np.frombuffer(reply, abi.MESSAGE, count=1)[0]["status"]))


def pid_of(path: Path) -> int:
    return int(device_query.query_status(path)["pid"])


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def descriptors_held(path: Path) -> int:
    """The device's open descriptors, always with the one of this question."""
    with device_query.status_connection(path) as status:
        return descriptors_of(int(status["pid"]))


def works(path: Path, jid: int = 77) -> bool:
    job = Job(jid=jid, key=1, nodes=(JobNode("127.0.0.1", (0,)),), slots=8)
    with Communicator(job, 0, path, timeout=REPLY_SECONDS) as member:
        return bool(member.allreduce(np.full(100, 3, "i4"), timeout=REPLY_SECONDS)[99] == 3)


@pytest.mark.parametrize("kind", list(hostile_client.KINDS))
def test_register_of_every_kind_of_descriptor(nic: Path, kind: str) -> None:
    with client(nic) as hostile, hostile_client.opened([kind]) as passed:
        assert passed
        hostile.ask(message("ATTACH").tobytes())
        reply = hostile.ask(message("REGISTER", address=4096, length=4096, access=READ_WRITE).tobytes(), passed)
        assert status_of(reply) == REFUSED[kind]


@pytest.mark.parametrize("kind", NO_MEMORY)
def test_attach_with_a_descriptor_of_no_process_memory(nic: Path, kind: str) -> None:
    with client(nic) as hostile, hostile_client.opened([kind]) as passed:
        assert status_of(hostile.ask(message("ATTACH").tobytes(), passed)) == Status.INVALID_REQUEST


def test_regions_cost_the_device_no_descriptors(nic: Path) -> None:
    with client(nic) as hostile:
        hostile.ask(message("ATTACH").tobytes())
        before = descriptors_held(nic)
        for _ in range(100):
            with hostile_client.opened(["sealed"]) as passed:
                assert status_of(hostile.ask(message("REGISTER", length=4096, access=READ).tobytes(), passed)) == 0
        assert descriptors_held(nic) == before


def test_one_client_does_not_fill_the_address_space(nic: Path) -> None:
    with client(nic) as hostile:
        hostile.ask(message("ATTACH").tobytes())
        huge = hostile_client.memfd(length=1 << 39)
        request = message("REGISTER", length=1 << 39, access=READ_WRITE).tobytes()
        replies = [hostile.ask(request, [huge]) for _ in range(3)]
        os.close(huge)
        assert [status_of(reply) for reply in replies] == [0, 0, Status.NO_RESOURCES]
        assert works(nic)


def test_doorbell_that_would_keep_its_reader_waiting(nic: Path) -> None:
    """The eventfd is shared: O_NONBLOCK cleared on one side is cleared on both. No process may wait in a read of it."""
    with client(nic) as hostile:
        hostile.prepare_valid_state()
        os.set_blocking(hostile._doorbell, True)
        for _ in range(50):
            os.eventfd_write(hostile._doorbell, 1)
            os.eventfd_read(hostile._doorbell)
            assert device_query.query_status(nic)["kind"] == "nic"


def test_hole_in_registered_memory_reads_as_zeros(nic: Path) -> None:
    """The client takes pages away behind the device's back; the seal keeps the length, so that nothing faults."""
    libc = ctypes.CDLL(None, use_errno=True)
    memfd = hostile_client.memfd(fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW, LENGTH)
    memory = mmap.mmap(memfd, LENGTH)
    memory[:] = b"\7" * LENGTH
    with client(nic) as hostile:
        hostile.prepare_valid_state()
        reply = hostile.ask(message("REGISTER", address=0x10000, length=LENGTH, access=READ_WRITE).tobytes(), [memfd])
        lkey = int(np.frombuffer(reply, abi.REGISTER, count=1)[0]["lkey"])
        flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        assert libc.fallocate(memfd, flags, ctypes.c_long(0), ctypes.c_long(LENGTH)) == 0
        hostile.post_request(collective(hostile._jid, lkey, 0x10000))
        assert works(nic)
    assert memory[:64] == b"\0" * 64
    os.close(memfd)


def test_half_a_message_and_one_too_long(nic: Path) -> None:
    with client(nic) as hostile:
        hostile.ask(message("ATTACH").tobytes())
        data = local_job(1).tobytes()
        for part in (data[:-1], data[:20], data + b"\0" * 8000):
            assert status_of(hostile.ask(part)) == Status.INVALID_REQUEST


def test_unattached_connections_do_not_block_clients(nic: Path) -> None:
    """More than the device keeps: the oldest are closed."""
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(client(nic)) for _ in range(300)]
        assert works(nic)
        assert idle[0].ask(message("STATUS").tobytes()) == b""
        assert status_of(idle[-1].ask(message("STATUS").tobytes())) == Status.SUCCESS


def test_flood_of_messages_leaves_time_for_data(nic: Path) -> None:
    with contextlib.ExitStack() as stack:
        floods = [stack.enter_context(client(nic)) for _ in range(40)]
        for flood in floods:
            flood._stream.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                for _ in range(200):
                    flood._stream.send(message("STATUS").tobytes())
        assert works(nic)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_client_that_ends_or_stops_in_the_middle(nic: Path, end: signal.Signals) -> None:
    """During a long operation in its own memory, which must not block others."""
    code = (
        "import sys, numpy as np\n"
        "from fanin import Communicator, Job, JobNode\n"
        "job = Job(jid=int(sys.argv[2]), key=1, nodes=(JobNode('127.0.0.1', (0,)),))\n"
        "member = Communicator(job, 0, sys.argv[1])\n"
        "print('joined', flush=True)\n"
        "while True: member.allreduce(np.ones(1 << 20, 'f4'))\n"
    )
    command = [sys.executable, "-c", code, str(nic), str(end.value)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "joined\n"
        process.send_signal(end)
        try:
            for number in range(20):
                assert works(nic, 1000 + number)
        finally:
            process.kill()


def test_process_memory_of_an_ended_process(nic: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other, client(nic) as hostile:
        memory = os.open(f"/proc/{other.pid}/mem", os.O_RDWR)
        assert status_of(hostile.ask(message("ATTACH").tobytes(), [memory])) == Status.SUCCESS
        os.close(memory)
        other.kill()
        other.wait()
        for request in (message("CREATE_CQ"), message("CREATE_QP"), local_job(5)):
            hostile.ask(request.tobytes())
        hostile.post_request(collective(5, abi.LKEY_PROCESS, 0x10000))
        eventually(lambda: hostile.completion(), lambda cqe: cqe is not None)
        assert hostile.completion()["status"] == Status.PEER_LOST


def test_wrong_key_for_a_job_of_another_client(nic: Path) -> None:
    with client(nic) as owner, client(nic) as stranger:
        owner.prepare_valid_state()
        for request in (message("ATTACH"), message("CREATE_CQ"), message("CREATE_QP")):
            stranger.ask(request.tobytes())
        for key in (0, 2, 0xFFFFFFFF):
            assert status_of(stranger.ask(local_job(owner._jid, key).tobytes())) == Status.JID_IN_USE
        owner.post_request(collective(owner._jid, owner._lkey, 4096))
        eventually(lambda: owner.completion(), lambda cqe: cqe is not None)
        assert owner.completion()["status"] == Status.SUCCESS


def test_socket_is_its_owners(nic: Path) -> None:
    assert os.stat(nic).st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="root, to become another user")
@pytest.mark.parametrize("mode", [0o600, 0o777], ids=oct)
def test_another_user_is_refused_also_where_the_mode_of_the_socket_lets_him(nic: Path, mode: int) -> None:
    modes = {path: os.stat(path).st_mode for path in (nic, *nic.parents) if path not in (Path("/"), Path("/tmp"))}
    for path in modes:
        os.chmod(path, mode if path == nic else 0o755)
    code = (
        "import os, sys, fanin\n"
        "fanin.driver.library()\n"
        "os.setuid(65534)\n"
        "try: fanin.verbs.Context(sys.argv[1])\n"
        "except fanin.errors.PermissionDenied as error: print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code, str(nic)], capture_output=True, text=True, check=False)
    for path, kept in modes.items():
        os.chmod(path, kept)
    assert found.stdout.startswith("PERMISSION_DENIED"), found.stderr


def test_device_without_descriptors_turns_clients_away_and_sleeps(running: Running, nic: Path) -> None:
    """Connections that can not be accepted must not keep it awake, nor delay the accepted ones."""
    pid = pid_of(nic)
    with client(nic) as early:
        early.prepare_valid_state()
        assert status_of(early.ask(message("STATUS").tobytes())) == Status.SUCCESS
        kept = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors_of(pid), kept[1]))
        try:
            with pytest.raises((errors.FaninError, ConnectionError, OSError)):
                works(nic)
            assert status_of(early.ask(message("STATUS").tobytes())) == Status.SUCCESS
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, kept)
    assert works(nic)
