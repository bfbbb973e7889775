"""A program provokes every status of the table."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fanin import Communicator, Job, JobNode, errors
from fanin.verbs import CQ, PD, CollectiveQP, Context, Membership
from fanin_tools.fabric import device_query
from fanin_tools.stress.fuzz.hostile_client import REPLY_SECONDS, HostileClient, collective, local_job, message
from fanin_wire import abi
from fanin_wire.abi import Status
from fanin_wire.fields import Opcode
from fanin_wire.status import STATUSES
from tests.e2e.fabrics import eventually
from tests.e2e.members import run_ranks
from tests.engine.rig import MILLISECOND, PARENT, NicRig, SwitchRig, f32
from tests.host.work_requests import post_patiently, request_over
from tests.robustness.test_clients import client, status_of

Provoke = Callable[[Path], Status]
PROVOKED: dict[str, Provoke] = {}


def provokes(name: str) -> Callable[[Provoke], Provoke]:
    """Decorator: the function ends with this status, by the control socket of a NIC."""

    def note(function: Provoke) -> Provoke:
        PROVOKED[name] = function
        return function

    return note


def ended(rank: HostileClient) -> Status:
    eventually(rank.completion, lambda cqe: cqe is not None, REPLY_SECONDS)
    cqe = rank.completion()
    assert cqe is not None
    return Status(int(cqe["status"]))


def join(nic: HostileClient, jid: int, rank: int, **changes: int) -> bytes:
    """JOIN of one of two ranks of a node. Returns the first reply."""
    for request in (message("ATTACH"), message("CREATE_CQ"), message("CREATE_QP")):
        nic.ask(request.tobytes())
    request = local_job(jid)
    request["rank_bitmap"], request["rank_mask"] = 1 << rank, 0b11
    for name, value in changes.items():
        request[name] = value
    return nic.ask(request.tobytes())


@contextlib.contextmanager
def two_ranks(nic: Path, jid: int) -> Iterator[tuple[HostileClient, HostileClient]]:
    with client(nic) as first, client(nic) as second:
        join(first, jid, 0)
        assert status_of(join(second, jid, 1)) == Status.SUCCESS
        assert status_of(first.read()) == Status.SUCCESS
        yield first, second


def barrier(jid: int, rank: int, **changes: int) -> np.ndarray:
    wqe = collective(jid, 0, 0)
    wqe["contributors"] = wqe["op"] = wqe["dtype"] = wqe["length"] = wqe["block"] = 0
    wqe["rank_bitmap"] = 1 << rank
    wqe["address"][0] = (0, 0, 0, 0, 0, 0)
    for name, value in changes.items():
        wqe[name] = value
    return wqe


def alone(nic: Path, **changes: int) -> Status:
    """The status of a request in a job of one rank."""
    with client(nic) as rank:
        rank.prepare_valid_state()
        wqe = collective(rank._jid, rank._lkey, 4096)
        for name, value in changes.items():
            wqe[name] = value
        rank.post_request(wqe)
        return ended(rank)


def answer(nic: Path, data: bytes) -> Status:
    """The status of the device's answer to a message."""
    with client(nic) as stranger:
        stranger.ask(message("ATTACH").tobytes())
        return status_of(stranger.ask(data))


@provokes("SUCCESS")
def _(nic: Path) -> Status:
    return alone(nic)


@provokes("PENDING")
def _(nic: Path) -> Status:
    with client(nic) as first:
        return status_of(join(first, 2, 0))


@provokes("BUFFER_ERROR")
def _(nic: Path) -> Status:
    return alone(nic, seg=1)


@provokes("LOCAL_PROTECTION_ERROR")
def _(nic: Path) -> Status:
    return alone(nic, source_lkey=12345)


@provokes("PEER_LOST")
def _(nic: Path) -> Status:
    with two_ranks(nic, 3) as (first, second):
        first.post_request(barrier(3, 0))
        second.close()
        return ended(first)


@provokes("TIMEOUT")
def _(nic: Path) -> Status:
    with two_ranks(nic, 4) as (first, _):
        first.post_request(barrier(4, 0, deadline_ms=50))
        return ended(first)


@provokes("OP_MISMATCH")
def _(nic: Path) -> Status:
    with two_ranks(nic, 5) as (first, second):
        first.post_request(barrier(5, 0, mid=1))
        second.post_request(barrier(5, 1, mid=2))
        return ended(first)


@provokes("NOT_CONFIGURED")
def _(nic: Path) -> Status:
    with client(nic) as stranger:
        for request in (message("ATTACH"), message("CREATE_CQ"), message("CREATE_QP")):
            stranger.ask(request.tobytes())
        stranger.post_request(collective(6, 0, 0))
        return ended(stranger)


@provokes("JID_IN_USE")
def _(nic: Path) -> Status:
    with client(nic) as first, client(nic) as second:
        join(first, 7, 0)
        return status_of(join(second, 7, 1, key=99))


@provokes("NO_RESOURCES")
def _(nic: Path) -> Status:
    with client(nic) as greedy:
        return status_of(join(greedy, 8, 0, chunk=1 << 20))


@provokes("ABORTED")
def _(nic: Path) -> Status:
    with two_ranks(nic, 9) as (first, second):
        first.post_request(barrier(9, 0))
        second.ask(message("LEAVE", qp=0).tobytes())
        return ended(first)


@provokes("FLUSHED")
def _(nic: Path) -> Status:
    job = Job(jid=10, key=1, nodes=(JobNode("127.0.0.1", (0, 1)),), slots=8)
    first, second = run_ranks(2, lambda rank: Communicator(job, rank, nic, timeout=REPLY_SECONDS))
    request = first.iallreduce(np.ones(4, "f4"))
    first.close()
    second.close()
    return raised(errors.Flushed, lambda: request.wait(REPLY_SECONDS))


@provokes("NOT_SUPPORTED")
def _(nic: Path) -> Status:
    return alone(nic, op=200)


@provokes("INVALID_REQUEST")
def _(nic: Path) -> Status:
    return answer(nic, message("DESTROY_QP", qp=5).tobytes())


@provokes("VERSION_MISMATCH")
def _(nic: Path) -> Status:
    request = message("STATUS")
    request["version"] = 77
    return answer(nic, request.tobytes())


@provokes("DEVICE_LOST")
def _(_nic: Path) -> Status:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own:
        own.bind(f"{folder}/control")
        own.listen()
        ending = threading.Thread(target=lambda: own.accept()[0].close())
        ending.start()
        status = raised(errors.DeviceLost, lambda: Context(f"{folder}/control"))
        ending.join()
        return status


@provokes("QUEUE_FULL")
def _(nic: Path) -> Status:
    with client(nic) as other, contextlib.closing(Context(nic)) as context:
        join(other, 12, 1)
        queue = CollectiveQP(PD(context), CQ(context))
        queue.join(Membership(jid=12, key=1, rank_bitmap=1, rank_mask=0b11, slots=8, chunk=256), REPLY_SECONDS)

        def post_without_end() -> None:
            while True:
                queue.post_send(request_over(0, 0, 0))

        return raised(errors.QueueFull, post_without_end)


@provokes("NO_DEVICE")
def _(_nic: Path) -> Status:
    return raised(errors.NoDevice, lambda: Context("/tmp/nobody/is/here"))


@provokes("PERMISSION_DENIED")
def _(nic: Path) -> Status:
    code = (
        "import os, sys, fanin\n"
        "fanin.driver.library()\n"
        "os.chmod(sys.argv[1], 0)\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: fanin.device_status(sys.argv[1])\n"
        "except fanin.FaninError as error: print(error.status)\n"
    )
    try:
        found = subprocess.run([sys.executable, "-c", code, str(nic)], capture_output=True, text=True, check=True)
    finally:
        os.chmod(nic, 0o600)
    return Status(int(found.stdout))


@provokes("MEMBERS_MISMATCH")
def _(nic: Path) -> Status:
    with client(nic) as first, client(nic) as second:
        join(first, 11, 0)
        return status_of(join(second, 11, 1, flags=1))


@provokes("CQ_OVERRUN")
def _(nic: Path) -> Status:
    with contextlib.closing(Context(nic)) as context:
        cq = CQ(context)
        queue = CollectiveQP(PD(context), cq)
        queue.join(Membership(jid=13, key=1, slots=8, chunk=256), REPLY_SECONDS)
        before = overflows(nic)  # those of other tests
        for _ in range(abi.CQ_DEPTH + 1):
            post_patiently(queue, request_over(0, 0, 0))

        def take_without_end() -> None:
            while cq.wait(REPLY_SECONDS):
                cq.poll(64)

        eventually(lambda: overflows(nic), lambda found: found > before, REPLY_SECONDS)
        return raised(errors.CqOverrun, take_without_end)


@provokes("TOO_FEW_LANES")
def _(_nic: Path) -> Status:
    (reply,) = SwitchRig(join=False).join(0, last_lane=1)
    assert reply.opcode == Opcode.CONFIG_ACK
    return Status(reply.ceth["status"])


@provokes("DRAINING")
def _(_nic: Path) -> Status:
    rig = SwitchRig(join=False)
    rig.engine.header["draining"] = 1
    (reply,) = rig.join(0)
    assert reply.opcode == Opcode.CONFIG_ACK
    return Status(reply.ceth["status"])


@provokes("PATH_MTU")
def _(_nic: Path) -> Status:
    rig = NicRig()
    rig.post(f32(1))
    while not rig.statuses():
        rig.receive(Opcode.KEEPALIVE, PARENT, source=0)
        rig.tick(100 * MILLISECOND)
    return rig.statuses()[0]


def overflows(nic: Path) -> int:
    """Completions for which a NIC had no room, ever."""
    return int(device_query.query_status(nic)["counters"]["cq_overflows"])


def raised(kind: type[errors.FaninError], act: Callable[[], object]) -> Status:
    with pytest.raises(kind) as found:
        act()
    return Status(found.value.status)


def test_every_name_of_the_table_is_provoked() -> None:
    assert set(PROVOKED) == {entry.name for entry in STATUSES.values()} == {status.name for status in Status}


@pytest.mark.parametrize("name", [entry.name for entry in STATUSES.values()])
def test_status(nic: Path, name: str) -> None:
    assert PROVOKED[name](nic).name == name
