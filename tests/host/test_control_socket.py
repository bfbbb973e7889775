"""Malformed input on the control socket: garbage, wrong sizes, wrong descriptors, wrong users."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fanin import Communicator, device_status, errors
from fanin.driver import ffi
from fanin.verbs import CQ, PD, CollectiveQP, Context
from fanin_nic.hostif.listener import Listener, SocketInUse
from fanin_nic.hostif.messages import REQUESTS
from fanin_wire import abi
from fanin_wire.abi import Access, MessageType, Status
from tests.waiting import BOUND_S

READ_WRITE = Access.READ | Access.WRITE


def connect(path):
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stream.settimeout(BOUND_S)
    stream.connect(str(path))
    return stream


@pytest.fixture
def stream(device):
    with connect(device.socket) as opened:
        yield opened


def message(kind, dtype=abi.MESSAGE, version=abi.ABI_VERSION, tag=5, **fields):
    record = np.zeros(1, dtype)
    head = record if dtype == abi.MESSAGE else record["head"]
    head["version"], head["type"], head["tag"] = version, kind, tag
    for name, value in fields.items():
        record[name] = value
    return record.tobytes()


def ask(stream, data, descriptors=()):
    """The head of the reply; None if the device hangs up."""
    socket.send_fds(stream, [data], descriptors)
    reply, passed, _, _ = socket.recv_fds(stream, 1 << 18, 4)
    for descriptor in passed:
        os.close(descriptor)
    return np.frombuffer(reply, abi.MESSAGE, count=1)[0] if reply else None


def attach(stream):
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        assert ask(stream, message(MessageType.ATTACH), [memory.fileno()])["status"] == Status.SUCCESS


def test_a_status_needs_no_attachment(stream):
    reply = ask(stream, message(MessageType.STATUS, tag=99))
    assert (reply["status"], reply["tag"], reply["type"]) == (Status.SUCCESS, 99, MessageType.STATUS)


def test_all_else_needs_attachment(stream):
    for kind, dtype in REQUESTS.items():
        if kind not in (MessageType.STATUS, MessageType.PROFILE, MessageType.ATTACH):
            assert ask(stream, message(kind, dtype))["status"] == Status.INVALID_REQUEST


def test_attach_without_process_memory(stream):
    assert ask(stream, message(MessageType.ATTACH))["status"] == Status.SUCCESS
    assert ask(stream, message(MessageType.ATTACH))["status"] == Status.INVALID_REQUEST


def test_attach_with_a_descriptor_of_something_else(device):
    reader, writer = os.pipe()
    for descriptors in ([reader], [writer], [reader, writer]):
        with connect(device.socket) as stream:
            assert ask(stream, message(MessageType.ATTACH), descriptors)["status"] == Status.INVALID_REQUEST
    os.close(reader)
    os.close(writer)


def test_other_version(stream):
    assert ask(stream, message(MessageType.STATUS, version=99))["status"] == Status.VERSION_MISMATCH


def test_wrong_sizes(stream):
    attach(stream)
    for kind in REQUESTS:  # the size of ATTACH_RDMA tells versions apart
        expected = "VERSION_MISMATCH" if kind == MessageType.ATTACH_RDMA else "INVALID_REQUEST"
        assert ask(stream, message(kind) + b"\0" * 3)["status"] == Status[expected]
    assert ask(stream, message(77))["status"] == Status.NOT_SUPPORTED


def test_no_head_ends_the_connection(device):
    for data in (b"x", b"\0" * 15):
        with connect(device.socket) as stream:
            assert ask(stream, data) is None


def test_register_without_and_with_too_many_descriptors(stream):
    attach(stream)
    request = message(MessageType.REGISTER, abi.REGISTER, length=64, access=READ_WRITE)
    with open("/dev/null") as null:
        for count in (0, 1, 2, 4, 20):
            status = ask(stream, request, [null.fileno()] * count)["status"]
            assert status == Status["LOCAL_PROTECTION_ERROR" if count == 1 else "INVALID_REQUEST"]


def test_unknown_objects(stream):
    attach(stream)
    for kind in ("DESTROY_QP", "DESTROY_CQ", "LEAVE", "CREATE_QP"):
        request = message(MessageType[kind], abi.QUEUE, qp=3, cq=3)
        assert ask(stream, request)["status"] == Status.INVALID_REQUEST
    for lkey in (0, 1, abi.LKEY_PROCESS):
        request = message(MessageType.DEREGISTER, abi.REGISTER, lkey=lkey)
        assert ask(stream, request)["status"] == Status.INVALID_REQUEST
    assert ask(stream, message(MessageType.JOIN, abi.JOIN, qp=0))["status"] == Status.INVALID_REQUEST


REQUEST_BYTES = st.one_of(
    st.binary(max_size=600),
    st.sampled_from(sorted(REQUESTS)).flatmap(
        lambda kind: st.binary(min_size=REQUESTS[kind].itemsize, max_size=REQUESTS[kind].itemsize).map(
            lambda body: message(kind) + body[abi.MESSAGE.itemsize :]
        )
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(REQUEST_BYTES, min_size=1, max_size=8))
def test_garbage_does_no_harm(device, messages):
    """Any bytes on an attached connection: an answer or the end of the connection; the device lives on."""
    with connect(device.socket) as stream:
        attach(stream)
        for data in messages:
            try:
                stream.send(data)
            except (BrokenPipeError, ConnectionResetError):
                break
    assert device_status(device.socket)["name"] == "model"


def test_a_client_that_reads_no_replies_is_cut_off(device):
    def send_without_end(stream):
        for _ in range(100_000):
            stream.send(message(MessageType.STATUS))

    with connect(device.socket) as stream, pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_without_end(stream)
    assert device_status(device.socket)["name"] == "model"


def test_rings_full_of_garbage(device, make_job):
    """A client that scribbles over its own rings harms itself only."""
    context = Context(device.socket)
    maps = Path("/proc/self/maps").read_text().splitlines()
    region = next(line for line in reversed(maps) if "fanin-control" in line)
    start, end = (int(part, 16) for part in region.split()[0].split("-"))
    qp = CollectiveQP(PD(context), CQ(context))
    qp.join(make_job(1).membership(0))
    for value in (0xFF, 0x01, 0x80):
        ffi.memmove(ffi.cast("char *", start), bytes([value]) * (end - start), end - start)
        with Communicator(make_job(1), 0, device.socket) as other:
            assert other.allreduce(np.ones(4, "f4"))[0] == 1
    context.close()
    assert device_status(device.socket)["name"] == "model"


def test_clients_are_forgotten(device):
    before = device_status(device.socket)
    for _ in range(100):  # more than the device serves at once
        Context(device.socket).close()
    contexts = [Context(device.socket) for _ in range(20)]
    assert device_status(device.socket)["clients"] == before["clients"] + 20
    for context in contexts:
        context.close()
    assert device_status(device.socket)["clients"] == before["clients"]


def test_too_many_clients(device):
    contexts = []

    def attach_without_end():
        while True:
            contexts.append(Context(device.socket))

    with pytest.raises(errors.NoResources):
        attach_without_end()
    for context in contexts:
        context.close()
    Context(device.socket).close()


def test_only_the_owner_may_open_the_socket(device):
    assert stat.S_IMODE(os.stat(device.socket).st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize("mode", [0o600, 0o777], ids=oct)
def test_another_user_is_refused_also_where_the_file_mode_allows(own_device, mode):
    code = (
        "import os, sys, fanin\n"
        "fanin.driver.library()\n"
        "os.setuid(65534)\n"
        "try: fanin.device_status(sys.argv[1])\n"
        "except fanin.errors.PermissionDenied: print('denied')\n"
    )
    os.chmod(own_device.socket, mode)
    arguments = [sys.executable, "-c", code, str(own_device.socket)]
    result = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert result.stdout == "denied\n", result.stderr


def test_switch_serves_its_status_only(own_switch):
    with pytest.raises(errors.NotSupported):
        Context(own_switch.socket)
    with connect(own_switch.socket) as stream:
        request = message(MessageType.CREATE_CQ, abi.QUEUE)
        assert ask(stream, request)["status"] == Status.NOT_SUPPORTED


def test_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path):
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    listener = Listener(path)
    with pytest.raises(SocketInUse, match="another device"):
        Listener(path)
    assert path.exists()
    listener.close()
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(SocketInUse, match="not a socket"):
        Listener(path)
    assert path.read_text() == "precious"


def test_closing_leaves_the_socket_of_a_successor(tmp_path):
    path = tmp_path / "control"
    first = Listener(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as successor:
        successor.bind(str(path))
        first.close()
        assert path.exists()
