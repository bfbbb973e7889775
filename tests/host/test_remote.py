"""A device and a client over RDMA before there is a queue pair: messages over TCP, a token, an address."""

import contextlib
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fanin_nic.daemon.lanes.host import LanesHost
from fanin_nic.hostif import messages
from fanin_nic.hostif.ports import Refused
from fanin_nic.hostif.remote import tcp
from fanin_nic.hostif.remote.client import RemoteClient
from fanin_nic.hostif.remote.service import BadToken, RemoteFailed, RemoteService, is_token, read_token
from fanin_nic.hostif.remote.tcp import LENGTH, AddressInUse, MessageReader, TcpListener, send_message
from fanin_nic.hostif.server import Connection, ControlServer, RemoteConnection, close_all
from fanin_wire import abi
from fanin_wire.abi import Status
from fanin_wire.settings import DeviceSettings, InvalidSetting, convert
from fanin_wire.tap import ALL_KINDS, MIN_UNITS

LONGEST = 100
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The client's end, and the device's, which is non-blocking."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def framed(data: bytes) -> bytes:
    return LENGTH.pack(len(data)) + data


def test_message_in_pieces(pair: Pair) -> None:
    """It is complete with its last byte, wherever it was cut."""
    ours, theirs = pair
    whole, reader = framed(b"abcdefgh"), MessageReader(LONGEST)
    for end in range(1, len(whole)):
        ours.sendall(whole[:end])
        assert reader.read(theirs) is None
        ours.sendall(whole[end:])
        assert reader.read(theirs) == b"abcdefgh"


def test_a_byte_of_the_next_message_stays_in_the_socket(pair: Pair) -> None:
    """Else no event would announce it."""
    ours, theirs = pair
    ours.sendall(framed(b"one") + framed(b"two"))
    reader = MessageReader(LONGEST)
    assert reader.read(theirs) == b"one"
    assert theirs.recv(LONGEST, socket.MSG_PEEK) == framed(b"two")
    assert reader.read(theirs) == b"two"
    assert reader.read(theirs) is None


@pytest.mark.parametrize("sent", [b"", b"\5\0", framed(b"whole")[:-1]])
def test_end_of_a_connection(pair: Pair, sent: bytes) -> None:
    ours, theirs = pair
    ours.sendall(sent)
    ours.shutdown(socket.SHUT_WR)
    reader = MessageReader(LONGEST)
    found = reader.read(theirs)
    assert (reader.read(theirs) if found is None else found) == b""


@pytest.mark.parametrize("length", [0, LONGEST + 1, 0xFFFF_FFFF])
def test_length_that_no_message_has(pair: Pair, length: int) -> None:
    ours, theirs = pair
    ours.sendall(LENGTH.pack(length))
    with pytest.raises(OSError, match=f"a message of {length} bytes"):
        MessageReader(LONGEST).read(theirs)


def test_client_that_does_not_read(pair: Pair) -> None:
    """It gets nothing more: half a message would put all later ones out of step."""
    ours, theirs = pair
    send_message(theirs, b"short")
    assert ours.recv(LONGEST) == framed(b"short")
    with contextlib.suppress(BlockingIOError):
        while True:
            theirs.send(bytes(1 << 16))
    with pytest.raises(OSError, match="unavailable"):
        send_message(theirs, b"no room")
    assert ours.recv(1 << 17)
    with pytest.raises(OSError, match="full"):
        send_message(theirs, bytes(1 << 22))


def write(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_token(tmp_path: Path) -> None:
    text = secrets.token_hex(abi.TOKEN_BYTES)
    token = read_token(write(tmp_path / "token", text + "\n"))
    assert token.hex() == text
    assert is_token(token, bytes.fromhex(text))
    assert not is_token(token, bytes(abi.TOKEN_BYTES))


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("00" * 32, 0o640, "others may read or write the token file"),
        ("00" * 32, 0o602, "others may read or write the token file"),
        ("00" * 31, 0o600, "has 31 bytes, not 32; make one with"),
        ("no digits", 0o600, "can not be read"),
    ],
)
def test_token_that_can_not_serve(tmp_path: Path, text: str, mode: int, said: str) -> None:
    with pytest.raises(BadToken, match=said):
        read_token(write(tmp_path / "token", text, mode))


def test_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadToken, match="No such file"):
        read_token(str(tmp_path / "nothing"))


def test_service_without_a_token() -> None:
    with pytest.raises(RemoteFailed, match="without a token file; name one with --token-file"):
        RemoteService("rdma://mlx5_0@127.0.0.1:1", "", 1.0)


def attach_request() -> np.ndarray:
    """Its token is zeros."""
    request = np.zeros(1, abi.ATTACH_RDMA)
    request["head"]["version"], request["head"]["type"] = abi.ABI_VERSION, abi.MessageType.ATTACH_RDMA
    request["version"] = abi.RDMA_VERSION
    return request


def test_service_with_a_wrong_token() -> None:
    service = object.__new__(RemoteService)
    service._token = bytes(range(abi.TOKEN_BYTES))
    request = attach_request()
    request["token"][0][0] = 1
    with pytest.raises(Refused) as refusal:
        service.check(request[0])
    assert refusal.value.status == Status.PERMISSION_DENIED
    request["token"][0] = list(range(abi.TOKEN_BYTES))
    service.check(request[0])


def test_client_of_another_version() -> None:
    """Even one from before versions, whose request is shorter."""
    service = object.__new__(RemoteService)
    service._token = bytes(abi.TOKEN_BYTES)
    request = attach_request()
    service.check(messages.read_request(request.tobytes()))
    request["version"] += 1
    refusals = []
    with pytest.raises(Refused) as refusal:
        service.check(messages.read_request(request.tobytes()))
    refusals.append(refusal.value)
    with pytest.raises(Refused) as refusal:
        messages.read_request(request.tobytes()[:-8])
    refusals.append(refusal.value)
    assert {each.status for each in refusals} == {Status.VERSION_MISMATCH}


class OpenTap:
    """For everybody. opened: how often."""

    def __init__(self, memory: int) -> None:
        self.opened, self._memory = 0, memory

    def begin(self, request: np.void) -> int:
        self.opened += 1
        return self._memory

    def description(self) -> dict[str, Any]:
        return {}

    def end(self) -> None:
        pass


def test_a_tap_over_rdma_is_refused_by_name(tmp_path: Path) -> None:
    """Even to a client that has shown its token; one of this host gets it."""
    request = np.zeros(1, abi.TAP)
    request["head"]["version"], request["head"]["type"] = abi.ABI_VERSION, abi.MessageType.TAP
    request["flags"], request["kinds"], request["units"] = abi.TapFlag.PACKETS, ALL_KINDS, MIN_UNITS
    statuses = {}
    with (tmp_path / "rings").open("w+") as rings:
        tap = OpenTap(rings.fileno())
        server = ControlServer(tmp_path / "socket", dict, tap=tap)
        for kind in (RemoteConnection, Connection):
            with contextlib.ExitStack() as held:
                ours, theirs = (held.enter_context(end) for end in socket.socketpair())
                connection = kind(theirs)
                connection.trusted = True
                server._answer(connection, request.tobytes(), [])
                reply, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, 1)
                held.callback(close_all, descriptors)
                skipped = LENGTH.size if kind is RemoteConnection else 0
                statuses[kind] = int(np.frombuffer(reply, abi.MESSAGE, count=1, offset=skipped)[0]["status"])
        server.close()
    assert statuses == {RemoteConnection: Status.NOT_SUPPORTED, Connection: Status.SUCCESS}
    assert tap.opened == 1


class Marked:
    """The queue pair of a client, as far as markers go."""

    def __init__(self) -> None:
        self.markers = 0

    def post_marker(self) -> None:
        self.markers += 1


def test_replies_name_the_markers_before_them(pair: Pair, tmp_path: Path) -> None:
    """One is posted before the reply to a LEAVE; each reply has their number so far."""
    ours, theirs = pair
    client = object.__new__(RemoteClient)
    client.endpoint = Marked()  # type: ignore[assignment]
    connection = RemoteConnection(theirs)
    connection.client = client
    server = ControlServer(tmp_path / "socket", dict)
    server._attached[0] = connection
    replies = [messages.join_reply(1, 0), messages.leave_reply(2, 0), messages.join_reply(3, 0)]
    heads = []
    for reply in replies:
        server.notice(0, reply)
        (length,) = LENGTH.unpack(ours.recv(LENGTH.size))
        heads.append(np.frombuffer(ours.recv(length), abi.MESSAGE, count=1)[0])
    server._attached.clear()
    server.close()
    assert [(int(head["tag"]), int(head["markers"])) for head in heads] == [(1, 0), (2, 1), (3, 1)]


def test_address_that_is_not_ours() -> None:
    with pytest.raises(AddressInUse, match=r"cannot listen at 192\.0\.2\.1:1: .*; use an address of this host"):
        TcpListener(tcp.HostAddress("mlx5_0", "192.0.2.1", 1), 1.0)


def test_silent_hosts_are_noticed() -> None:
    """TCP probes a silent host within the detection time, and gives up what it does not acknowledge."""
    listener = TcpListener(tcp.HostAddress("mlx5_0", "127.0.0.1", 0), 8.0)
    with socket.create_connection(listener.socket.getsockname()):
        accepted = None
        while accepted is None:
            accepted = listener.accept()
        idle, interval, count, most = (
            accepted.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        )
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle + interval * count <= 8
        assert most == 8000
        accepted.close()
    listener.close()


def test_address() -> None:
    assert tcp.parse_address("rdma://mlx5_0@192.168.100.2:4792") == ("mlx5_0", "192.168.100.2", 4792)


@pytest.mark.parametrize("text", ["rdma://192.168.100.2:4792", "rdma://mlx5_0@host:1", "mlx5_0@1.2.3.4:5", "rdma://"])
def test_address_that_no_device_takes(text: str) -> None:
    with pytest.raises(InvalidSetting, match="rdma"):
        convert({"name": "nic0", "address": "127.0.0.1", "socket": "/s", "rdma": text}, DeviceSettings)


def test_device_of_several_lanes() -> None:
    """Its lanes would share a queue pair."""
    with pytest.raises(Refused, match="several lanes") as refusal:
        object.__new__(LanesHost).attach(0, -1, remote=1)
    assert refusal.value.status == Status.NOT_SUPPORTED
