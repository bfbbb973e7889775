"""A running device: its parts, its loop, its end."""

import contextlib
import ipaddress
import logging
import os
import secrets
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

from fanin_nic.daemon.drain import Drain
from fanin_nic.daemon.lanes.core import LaneCore
from fanin_nic.daemon.lanes.host import LanesHost
from fanin_nic.daemon.lanes.host_port import HostPort
from fanin_nic.daemon.lanes.ordinary_host import MAX_QUEUE_PAIRS, MAX_SHARED_QUEUES, OrdinaryHost
from fanin_nic.daemon.lanes.taps import DeviceTap
from fanin_nic.daemon.lanes.threads import LaneThreads
from fanin_nic.daemon.precompile import precompile
from fanin_nic.daemon.splitter.splitter import Splitter
from fanin_nic.daemon.splitter.tables import LANE_DOORBELL
from fanin_nic.daemon.status import DeviceStatus, JobLog, SendErrors
from fanin_nic.engine.engine import Engine, Limits, Timing
from fanin_nic.engine.records.tables import BUFFER_OVERHEAD
from fanin_nic.hostif import messages
from fanin_nic.hostif.client import DeviceLimits
from fanin_nic.hostif.remote.service import RemoteService
from fanin_nic.hostif.server import ControlServer
from fanin_nic.port.opening import open_ports
from fanin_nic.port.port import Port
from fanin_wire import abi, fields
from fanin_wire.limits import MAX_CHUNK, MIN_CHUNK
from fanin_wire.settings import DeviceSettings

log = logging.getLogger(__name__)

WAKES = 4096  # bytes of wake-ups taken at once


def largest_chunk(mtu: int) -> int:
    """The largest power of two, from 256 to 8192 bytes, whose packets fit the path MTU."""
    room = mtu - fields.IPV4_UDP_SIZE - fields.TRANSPORT_SIZE - fields.ICRC_SIZE
    chunk = MIN_CHUNK
    while chunk * 2 <= min(room, MAX_CHUNK):
        chunk *= 2
    return chunk


class Device:
    """A NIC or a switch. `run` serves until `stop` is called (from a signal handler), a drain is done, or a port fails.

    carries: its MTU and the longest segment that fits, in words. failure: why a port has failed, and what to do, or "".
    tell: called with what a drain waits for, when that changes.
    """

    def __init__(
        self, settings: DeviceSettings, *, is_switch: bool, tell: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._is_switch = is_switch
        self._stopping = self._drain_wanted = False
        self._tell, self._told = tell, ""
        self.failure = ""
        self._wake, self.wake_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._inbox: SimpleQueue[tuple[int, np.void]] = SimpleQueue()
        self._open_lanes(settings, is_switch)
        precompile()
        self._splitter = self._connect_lanes() if settings.lanes > 1 else None
        self._threads = LaneThreads(self._cores, self._deliver)
        self._drain = Drain(self._cores, self.wake_writer)
        self._job_log = JobLog(self._cores[0].engine.tables["jobs"][:-1])
        self._send_errors = SendErrors([core.port for core in self._cores])
        self.host: HostPort | LanesHost = self._cores[0].host
        if self._splitter is not None:
            self.host = LanesHost(self._cores, self._splitter, self._threads)
        self.server = self._open_server(settings)
        for core in self._cores:
            core.port.on_failure(self._fail)
        self._cores[0].watch(self.server.fileno(), self.server.doorbell_events.fileno(), self._wake)

    def _open_lanes(self, settings: DeviceSettings, is_switch: bool) -> None:
        """Open the ports first, because that fails if the address is taken."""
        ports = open_ports(settings)
        self._mtu = ports[0].mtu
        self.carries = f"MTU {self._mtu}, segments of up to {largest_chunk(self._mtu)} bytes"
        boot_id = secrets.randbits(63) + 1
        ordinary = None if is_switch else OrdinaryHost(settings.address, self._mtu)
        self._cores = [
            LaneCore(number, _engine(settings, is_switch, boot_id, port), port, None if number else ordinary)
            for number, port in enumerate(ports)
        ]

    def _connect_lanes(self) -> Splitter:
        """Connect the lanes by doorbells, with a splitter in front of them."""
        doorbells = np.array([core.make_doorbell() for core in self._cores], LANE_DOORBELL)
        splitter = Splitter(len(self._cores), self._cores[0].engine.limits.queues, doorbells)
        for core in self._cores:
            core.connect(doorbells, splitter.state if core.number == 0 else 0)
            core.refresh([])
        return splitter

    def _open_server(self, settings: DeviceSettings) -> ControlServer:
        status = DeviceStatus(settings.name, self._cores, self._threads, self._splitter, self._drain)
        tap = DeviceTap(settings.name, self._cores, self._threads)
        if self._is_switch:
            return ControlServer(settings.socket, status, profile=status.profile, tap=tap)
        address = int(ipaddress.IPv4Address(settings.address))
        bound = round(settings.detection * 1000)
        ordinary = self._cores[0].ordinary
        offer = DeviceLimits(
            largest_chunk(self._mtu),
            settings.slots,
            address,
            max_ordinary_qp=MAX_QUEUE_PAIRS,
            max_shared_queues=MAX_SHARED_QUEUES,
            path_mtu=ordinary.path_mtu if ordinary else 0,
            mtu=self._mtu,
            detection_ms=bound,
        )
        remote = RemoteService(settings.rdma, settings.token_file, settings.detection) if settings.rdma else None
        return ControlServer(
            settings.socket,
            status,
            self.host,
            offer,
            profile=status.profile,
            transport=ordinary,
            remote=remote,
            tap=tap,
        )

    def _deliver(self, lane: int, notices: list[np.void]) -> None:
        """The notices of a lane other than 0, in the thread of that lane."""
        for notice in notices:
            self._inbox.put((lane, notice))
        self._cores[0].interrupt()

    def run(self) -> None:
        first = self._cores[0]
        self._threads.start()
        while not self._stopping:
            self._refresh_clients()
            first.run()
            first.resume()
            self._send_errors.look()
            self._job_log.look()
            self._give_notice()  # before `service`, which may give a queue to another client
            self.server.service()
            if self._drain_wanted:
                self._progress_drain()

    def _progress_drain(self) -> None:
        """Begin to drain, or see what is left. If nothing is, the device ends."""
        with self._threads.paused():
            if not self._drain.begun:
                self._drain.begin()
            left = self._drain.holdings()
        with contextlib.suppress(BlockingIOError):  # else the loop would wake for ever
            os.read(self._wake, WAKES)
        told = "draining: " + ", ".join(f"{count} {kind}" for kind, count in left.items())
        if left and told != self._told:
            self._tell(told)
        self._told, self._stopping = told, self._stopping or not left

    def stop(self) -> None:
        """Leave `run`. May be called by a signal handler. The signal must also write to `wake_writer`
        (signal.set_wakeup_fd), because Python runs the handler only after the compiled loop has returned."""
        self._stopping = True

    def drain(self) -> None:
        """Take no new job, and leave `run` when the running ones have ended. Called as `stop`."""
        self._drain_wanted = True

    def _fail(self, failure: str) -> None:
        """Leave `run`, since a port has failed. May be called by any thread."""
        self.failure, self._stopping = failure, True
        with contextlib.suppress(BlockingIOError):  # full: the loop will wake
            os.write(self.wake_writer, b"\0")

    def close(self) -> None:
        """Detach the clients and close the sockets."""
        self._threads.stop()
        self._drain.end()
        self.server.close()
        for core in self._cores:
            core.close()
        os.close(self._wake)
        os.close(self.wake_writer)

    def _refresh_clients(self) -> None:
        """Show the queues and doorbells to the compiled loop."""
        self._cores[0].refresh(self.server.doorbells)

    def _give_notice(self) -> None:
        """Pass answers to JOIN and LEAVE to the waiting clients, and ends of jobs to the other lanes."""
        notices = [(0, notice) for notice in self._cores[0].take_notices()]
        while not self._inbox.empty():
            notices.append(self._inbox.get())
        for lane, notice in notices:
            answer = self.host.answer(lane, notice)
            client = self._cores[0].host.client_of(int(notice["queue"]))
            if answer is not None and client is not None:
                self.server.notice(client, _reply(answer))
        if isinstance(self.host, LanesHost):
            self.host.spread_ends()


def _engine(settings: DeviceSettings, is_switch: bool, boot_id: int, port: Port) -> Engine:
    max_chunk = largest_chunk(port.mtu)
    segments = port.receive_buffer_bytes // (max_chunk + BUFFER_OVERHEAD)
    limits = Limits(slots=settings.slots, max_chunk=max_chunk, receive_segments=max(1, segments), shared=1)
    return Engine(
        settings.address,
        is_switch=is_switch,
        boot_id=boot_id,
        lanes=settings.lanes,
        group=settings.group or None,
        group_size=settings.group_size,
        limits=limits,
        timing=Timing.of_detection(settings.detection),
    )


def _reply(notice: np.void) -> bytes:
    tag, status = int(notice["wr_id"]), int(notice["status"])
    if notice["opcode"] == abi.MessageType.LEAVE:
        return messages.leave_reply(tag, status)
    return messages.join_reply(
        tag,
        status,
        slots=int(notice["byte_length"]),
        window=int(notice["window"]),
        chunk=int(notice["length"]),
        missing=int(notice["missing"]),
        missing_kind=int(notice["missing_kind"]),
    )
