"""The control server: connections, their messages, and the wake-ups of the device.

It never blocks, has no thread, and works for a millisecond at a time, so that a flood of messages does not keep the
device from its data. The daemon polls two descriptors beside its network sockets: `fileno()`, for which it calls
`service()`, and that of `doorbell_events`, which only wakes it. Before it sleeps it sets the sleeping flags of
`doorbells` (rings.set_sleeping) and checks the send rings again (rings.pending); awake, it clears the flags.
"""

import contextlib
import logging
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fanin_nic.hostif import messages
from fanin_nic.hostif.client import Client, DeviceLimits, accept_process_memory
from fanin_nic.hostif.listener import Listener, peer_is_trusted, process_of
from fanin_nic.hostif.ports import EnginePort, NoResources, Refused, TapPort, TransportPort
from fanin_nic.hostif.remote.client import RemoteClient
from fanin_nic.hostif.remote.service import RemoteService
from fanin_nic.hostif.remote.tcp import MessageReader, TcpListener, send_message
from fanin_wire.abi import MessageType, Status

log = logging.getLogger(__name__)

MAX_CLIENTS = 64
MAX_CONNECTIONS = 2 * MAX_CLIENTS  # some only ask for the status
MAX_MESSAGE = 4096
MAX_FDS = 4
MAX_SERVICE_SECONDS = 0.001  # s; the rest is served after the next turn of the data


class Connection:
    """A socket, and its client once that has attached."""

    def __init__(self, stream: socket.socket) -> None:
        self.socket = stream
        self.trusted = peer_is_trusted(stream)
        self.client: Client | None = None
        self.process: int | None = None
        self.profiles = False
        self.taps = False

    def receive(self) -> tuple[bytes | None, list[int]]:
        """A message, b"" at the end, and its descriptors; None: it has not come. Raises OSError."""
        descriptors: list[int] = []
        try:
            data, descriptors, flags, _ = socket.recv_fds(self.socket, MAX_MESSAGE, MAX_FDS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return None, []
        if flags & socket.MSG_CTRUNC:
            close_all(descriptors)
            return data, []
        return data, descriptors

    def send(self, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Send, or hang up if the peer does not read; its end then comes as an event."""
        try:
            self._send(data, descriptors)
        except OSError as error:
            log.info("a client does not take its replies: %s", error)
            self.hang_up()

    def _send(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        socket.send_fds(self.socket, [data], descriptors)

    def hang_up(self) -> None:
        """The connection is closed when the event of its end comes."""
        with contextlib.suppress(OSError):  # the peer was faster
            self.socket.shutdown(socket.SHUT_RDWR)


class RemoteConnection(Connection):
    """The connection of a client over RDMA, trusted once it has shown the token."""

    def __init__(self, stream: socket.socket) -> None:
        self.socket = stream
        self.trusted = False
        self.client: Client | None = None
        self.process: int | None = None
        self.profiles = self.taps = False
        self._reader = MessageReader(MAX_MESSAGE)

    def receive(self) -> tuple[bytes | None, list[int]]:
        return self._reader.read(self.socket), []

    def _send(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        markers = self.client.markers if isinstance(self.client, RemoteClient) else 0
        send_message(self.socket, messages.with_markers(data, markers))


def close_all(descriptors: list[int]) -> None:
    """Descriptors of a message."""
    for descriptor in descriptors:
        os.close(descriptor)


class ControlServer:
    """Serves the control socket at `path`. Raises SocketInUse.

    status: called for STATUS. profile: called when the first connection asks for PROFILE, and with False when the last
    such has ended. engine: handles requests of clients; None (a switch): only STATUS is served. transport: for ordinary
    traffic; None: refused. remote: for clients over RDMA; None: refused. tap: records the device, for one connection at
    a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        status: Callable[[], dict[str, Any]],
        engine: EnginePort | None = None,
        limits: DeviceLimits | None = None,
        profile: Callable[[bool], None] = lambda _begin: None,
        transport: TransportPort | None = None,
        remote: RemoteService | None = None,
        tap: TapPort | None = None,
    ) -> None:
        self._status, self._engine, self._limits = status, engine, limits
        self._profile, self._transport, self._remote, self._tap = profile, transport, remote, tap
        self._listener = Listener(path)
        self._epoll = select.epoll()
        self._epoll.register(self._listener.socket, select.EPOLLIN)
        if remote:
            self._epoll.register(remote.listener.socket, select.EPOLLIN)
        self.doorbell_events = select.epoll()  # the lane that polls it takes its events
        self._connections: dict[int, Connection] = {}
        self._attached: dict[int, Connection] = {}  # by client index
        self._processes: dict[int, Connection] = {}  # by the descriptor of a client's process
        self._refresh_tables()

    def fileno(self) -> int:
        """Readable when there is work."""
        return self._epoll.fileno()

    def service(self) -> None:
        """Handle new connections, requests and ends; return at once if there are none. One event at a time: the kernel
        puts descriptors that are still ready behind all others, so that each gets its turn."""
        end = time.monotonic() + MAX_SERVICE_SECONDS
        self._drop_broken()
        while events := self._epoll.poll(0, 1):
            self._serve(events[0][0])
            if time.monotonic() > end:
                return

    def _serve(self, descriptor: int) -> None:
        if descriptor == self._listener.socket.fileno():
            self._accept(self._listener, Connection)
        elif self._remote and descriptor == self._remote.listener.socket.fileno():
            self._accept(self._remote.listener, RemoteConnection)
        elif descriptor in self._connections:
            self._receive(self._connections[descriptor])
        elif descriptor in self._processes:  # a forked child may still have its socket
            self._drop(self._processes[descriptor])

    def notice(self, client: int, data: bytes) -> None:
        """Send a late reply (messages.join_reply, leave_reply), unless the client has gone."""
        if connection := self._attached.get(client):
            if connection.client and messages.read_head(data)["type"] == MessageType.LEAVE:
                connection.client.mark_end_of_results()
            connection.send(data)

    def close(self) -> None:
        """Detach all clients and remove the socket."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._epoll.close()
        self.doorbell_events.close()
        self._listener.close()
        if self._remote:
            self._remote.close()

    def _drop_broken(self) -> None:
        """Drop the clients over RDMA that can no longer be reached."""
        for connection in list(self._attached.values()):
            if isinstance(connection.client, RemoteClient) and connection.client.is_broken:
                log.info("a client over RDMA is dropped: its queue pair has failed")
                self._drop(connection)

    def _accept(self, listener: Listener | TcpListener, kind: type[Connection]) -> None:
        """Accept a connection. If there are too many, close the oldest unattached one; at least half are unattached."""
        accepted = listener.accept()
        if accepted is None:
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            self._drop(next(other for other in self._connections.values() if not other.client))
        self._connections[accepted.fileno()] = kind(accepted)
        self._epoll.register(accepted, select.EPOLLIN | select.EPOLLRDHUP)

    def _receive(self, connection: Connection) -> None:
        """Receive one message. The next one is another event, so that no client delays the others."""
        descriptors: list[int] = []
        try:
            data, descriptors = connection.receive()
            if data:
                self._answer(connection, data, descriptors)
            elif data is not None:
                self._drop(connection)
        except (OSError, messages.Malformed) as error:
            log.info("a client is dropped: %s", error)
            self._drop(connection)
        except Exception:  # a fault of the device: one request must not end it for all clients
            log.exception("a client is dropped: its request met a fault of the device")
            self._drop(connection)
        finally:
            close_all(descriptors)

    def _answer(self, connection: Connection, data: bytes, descriptors: list[int]) -> None:
        head = messages.read_head(data)
        try:
            if not connection.trusted and not self._shows_token(connection, head):
                raise Refused(Status.PERMISSION_DENIED, "a client of another user, or without a token")
            self._dispatch(connection, messages.read_request(data), descriptors)
        except Refused as refused:
            log.info("request of type %d refused: %s", head["type"], refused)
            connection.send(messages.refusal(head, refused.status))

    def _shows_token(self, connection: Connection, head: np.void) -> bool:
        """Whether a message makes a client over RDMA trusted, if its token is right."""
        return isinstance(connection, RemoteConnection) and head["type"] == MessageType.ATTACH_RDMA

    def _dispatch(self, connection: Connection, record: np.void, descriptors: list[int]) -> None:
        head = messages.head_of(record)
        if head["type"] == MessageType.STATUS:
            connection.send(messages.status_reply(head, self._status()))
        elif head["type"] == MessageType.PROFILE:
            self._begin_profile(connection)
            connection.send(messages.status_reply(head, self._status()))
        elif head["type"] == MessageType.TAP:
            self._begin_tap(connection, record)
        elif head["type"] == MessageType.ATTACH and connection.client is None:
            self._attach(connection, head, descriptors)
        elif head["type"] == MessageType.ATTACH_RDMA and connection.client is None:
            self._attach_remote(connection, record)
        elif connection.client is None:
            status = "INVALID_REQUEST" if self._engine else "NOT_SUPPORTED"
            raise Refused(Status[status], "not attached")
        else:
            reply = connection.client.request(record, descriptors)
            self._refresh_tables()
            if reply is not None:
                connection.send(reply)

    def _begin_profile(self, connection: Connection) -> None:
        """Profile while the connection lasts, so that a dead client leaves no profiling behind."""
        if not self._is_profiled():
            self._profile(True)
        connection.profiles = True

    def _is_profiled(self) -> bool:
        return any(connection.profiles for connection in self._connections.values())

    def _begin_tap(self, connection: Connection, request: np.void) -> None:
        """Record while the connection lasts."""
        messages.check_tap(request)
        if self._tap is None or isinstance(connection, RemoteConnection):  # its rings can not be mapped elsewhere
            raise Refused(Status.NOT_SUPPORTED, "no tap")
        if any(other.taps for other in self._connections.values()):
            raise NoResources("taps")
        try:
            descriptor = self._tap.begin(request)
        except OSError as error:
            raise NoResources(str(error)) from None
        connection.taps = True
        reply = messages.status_reply(messages.head_of(request), self._tap.description())
        connection.send(reply, (descriptor,))

    def _attach(self, connection: Connection, head: np.void, descriptors: list[int]) -> None:
        if self._engine is None or self._limits is None:
            raise Refused(Status.NOT_SUPPORTED, "a switch has no host interface")
        if isinstance(connection, RemoteConnection):
            raise Refused(Status.INVALID_REQUEST, "ATTACH over TCP")
        index = self._free_index()
        memory = accept_process_memory(descriptors)
        try:
            client = Client(index, self._engine, self._limits, memory, self._transport)
        except OSError as error:
            log.warning("no memory for a client: %s", error)
            raise NoResources(str(error)) from None
        self._enter(connection, client)
        self._watch(connection)
        connection.send(client.attach_reply(head), (client.region.descriptor, client.doorbell_fd))

    def _attach_remote(self, connection: Connection, record: np.void) -> None:
        if not isinstance(connection, RemoteConnection) or self._remote is None:
            raise Refused(Status.INVALID_REQUEST, "a client over RDMA on a UNIX socket")
        if self._engine is None or self._limits is None:
            raise Refused(Status.NOT_SUPPORTED, "no clients over RDMA are served")
        self._remote.check(record)
        connection.trusted = True
        try:
            client = RemoteClient(self._free_index(), self._engine, self._limits, self._remote.device, record)
        except NoResources as error:
            log.warning("a client over RDMA is refused: %s", error)
            raise
        except OSError as error:
            log.warning("no memory for a client: %s", error)
            raise NoResources(str(error)) from None
        self._enter(connection, client)
        connection.send(client.attach_reply(record["head"]))

    def _free_index(self) -> int:
        """Raises NoResources."""
        index = next((number for number in range(MAX_CLIENTS) if number not in self._attached), None)
        if index is None:
            raise NoResources("clients")
        return index

    def _enter(self, connection: Connection, client: Client) -> None:
        connection.client, self._attached[client.index] = client, connection
        # Edge-triggered and never read: a client shares its eventfd, and could make a read wait for ever
        self.doorbell_events.register(client.doorbell_fd, select.EPOLLIN | select.EPOLLET)
        self._refresh_tables()

    def _watch(self, connection: Connection) -> None:
        """Notice the end of a client's process."""
        connection.process = process_of(connection.socket)
        if connection.process is not None:
            self._processes[connection.process] = connection
            self._epoll.register(connection.process, select.EPOLLIN)

    def _drop(self, connection: Connection) -> None:
        if connection.process is not None:
            self._epoll.unregister(connection.process)
            del self._processes[connection.process]
            os.close(connection.process)
        self._epoll.unregister(connection.socket)
        del self._connections[connection.socket.fileno()]
        if connection.profiles and not self._is_profiled():
            self._profile(False)
        if connection.taps and self._tap is not None:
            self._tap.end()
        if client := connection.client:
            self.doorbell_events.unregister(client.doorbell_fd)
            del self._attached[client.index]
            client.close()
            self._refresh_tables()
        connection.socket.close()

    def _refresh_tables(self) -> None:
        """Addresses of doorbell pages and send rings, for compiled code."""
        clients = [connection.client for connection in self._attached.values() if connection.client]
        self.doorbells = np.array([client.region.doorbell for client in clients], "u8")
