"""A UD queue pair on a verbs device with all its objects, and the tables of its port."""

import ctypes
import mmap
import os
import socket
from collections.abc import Iterator
from ctypes import byref, c_uint8, c_void_p, sizeof
from typing import Any

import numpy as np

from fanin_nic.native import shared_words
from fanin_nic.port.descriptors import DESTINATION, PEER_SLOTS
from fanin_nic.port.sockets import join_interface
from fanin_nic.port.verbs import library as ibv
from fanin_nic.port.verbs import records
from fanin_nic.port.verbs.interface import VerbsFailed, checked, gid_of, open_device, zero
from fanin_nic.port.verbs.library import library
from fanin_nic.port.verbs.records import COMPLETION, RECEIVE_BATCH, RECEIVE_REQUEST, SEND_REQUEST, SGE, VERBS
from fanin_nic.port.verbs.wake import BROKEN
from fanin_wire.resolution import QUEUE_KEY
from fanin_wire.settings import VERBS_PREFIX

SEND_DEPTH = 1024  # requests
RECEIVE_DEPTH = 4096
HOP_LIMIT = 64


class QueuePair:
    """A UD queue pair at `address` on the device `name`, ready to send and receive.

    receive_bytes: memory for received datagrams. `state`: address of the VERBS record. Raises VerbsFailed. Other kinds
    of queue pairs have other constants: what INIT and RTS set beside the state; bytes in front of a packet in a buffer
    to send and to receive; where the addresses are there.
    """

    KIND, KIND_NAME = ibv.UD, "UD"
    INIT_MASK, RTS_MASK = ibv.P_KEY_INDEX | ibv.PORT | ibv.Q_KEY, ibv.SEND_PSN
    SEND_HEADER, RECEIVE_HEADER = 0, records.GRH_BYTES
    RECEIVED_SOURCE, RECEIVED_DESTINATION = records.GRH_SOURCE, records.GRH_DESTINATION

    def __init__(self, name: str, address: str, receive_bytes: int) -> None:
        self.name, self.address = name, address
        self._library: Any = None
        self._region: Any = None
        self._channel: Any = None
        self._queues: list[int] = []
        self.queue_pair: Any = None
        self._domain = 0
        self._group = ""
        self._membership: socket.socket | None = None
        self.handles: dict[str, int] = {}
        self._context = open_device(name, f"port {VERBS_PREFIX}{name}")
        self._library = library()
        try:
            os.set_blocking(self.async_fd, False)
            self._attributes = ibv.DeviceAttributes()
            zero(self._library.ibv_query_device(self._context, byref(self._attributes)), f"query {self.name}")
            self._find_port()
            self._make(receive_bytes)
            self._arrange()
            self.bring_up()
            self._listen()
        except BaseException:
            self.close()
            raise

    def _find_port(self) -> None:
        """The port with the GID, and its MTU."""
        if self._find_gid() is None:
            remedy = "give the device's network interface that address, or use its own for the Fanin device"
            raise VerbsFailed(f"verbs device {self.name} has no RoCE v2 address {self.address}; {remedy}")
        self.mtu = 128 << self._check_active().active_mtu

    def _find_gid(self) -> ibv.GidEntry | None:
        """The GID of `address` over RoCE v2, with its port and its index; None if there is none."""
        wanted = gid_of(self.address)
        for port in range(1, self._attributes.phys_port_cnt + 1):
            for index in range(self._query_port(port).gid_tbl_len):
                found = self._gid_at(port, index, wanted)
                if found is not None:
                    self.port, self._gid_index = port, index
                    return found
        return None

    def _check_active(self) -> ibv.PortAttributes:
        attributes = self._query_port(self.port)
        if attributes.state != ibv.ACTIVE:
            raise VerbsFailed(f"port {self.port} of {self.name} is down; set its network interface up")
        return attributes

    def _query_port(self, port: int) -> ibv.PortAttributes:
        attributes = ibv.PortAttributes()
        error = self._library.ibv_query_port(self._context, port, byref(attributes))
        zero(error, f"query port {port} of {self.name}")
        return attributes

    def _gid_at(self, port: int, index: int, wanted: bytes) -> ibv.GidEntry | None:
        """The entry of a port's GID table at this index, if it is `wanted`, over RoCE v2."""
        entry = ibv.GidEntry()
        error = self._library._ibv_query_gid_ex(self._context, port, index, byref(entry), 0, sizeof(entry))
        return entry if error == 0 and (bytes(entry.gid), entry.gid_type) == (wanted, ibv.ROCE_V2) else None

    def has_address(self) -> bool:
        """Whether the port still has the address at its index."""
        return self._gid_at(self.port, self._gid_index, gid_of(self.address)) is not None

    def is_active(self) -> bool:
        """Whether the port is up. A device that does not answer has failed in another way."""
        try:
            return bool(self._query_port(self.port).state == ibv.ACTIVE)
        except VerbsFailed:
            return True

    @property
    def async_fd(self) -> int:
        """Descriptor to poll for asynchronous events."""
        return int(ctypes.c_int.from_address(self._context + ibv.ASYNC_FD).value)

    def events(self) -> Iterator[tuple[int, int]]:
        """Asynchronous events that have come: code, and number of the port if it is of one."""
        event = ibv.AsyncEvent()
        while self._library.ibv_get_async_event(self._context, byref(event)) == 0:
            self._library.ibv_ack_async_event(byref(event))
            yield int(event.event_type), int(event.element) & 0xFFFFFFFF

    def _make(self, receive_bytes: int) -> None:
        most = min(self._attributes.max_qp_wr, self._attributes.max_cqe)
        self.send_size = self.mtu + self.SEND_HEADER
        self.receive_size = self.mtu + 64  # the header, and buffers that begin at a cache line
        self.send_depth = min(most, SEND_DEPTH)
        self.receive_depth = max(1, min(most, RECEIVE_DEPTH, receive_bytes // self.receive_size))
        self._domain = checked(self._library.ibv_alloc_pd(self._context), f"make a protection domain on {self.name}")
        size = self.send_depth * self.send_size + self.receive_depth * self.receive_size
        self._memory = mmap.mmap(-1, size)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._region = checked(
            self._library.ibv_reg_mr(self._domain, self._start, size, ibv.LOCAL_WRITE),
            f"register {size >> 20} MiB with {self.name}",
            "raise the limit of locked memory (ulimit -l)",
        )
        self._channel = checked(self._library.ibv_create_comp_channel(self._context), "make a completion channel")
        os.set_blocking(self.event_fd, False)
        for depth, channel in ((self.send_depth, None), (self.receive_depth, self._channel)):
            made = self._library.ibv_create_cq(self._context, depth, None, channel, 0)
            self._queues.append(checked(made, f"make a completion queue of {depth} entries on {self.name}"))
        wanted = ibv.QueuePairInit(
            None, *self._queues, None, ibv.Capabilities(self.send_depth, self.receive_depth, 1, 1, 0), self.KIND, 0
        )
        made = self._library.ibv_create_qp(self._domain, byref(wanted))
        self.queue_pair = checked(made, f"make a {self.KIND_NAME} queue pair on {self.name}", self._refusal())

    def _refusal(self) -> str:
        """The remedy if the device makes no such queue pair."""
        return "see the cause"

    def _arrange(self) -> None:
        """The tables of the compiled code."""
        self.record = np.zeros(1, VERBS)
        self.destinations = np.zeros(PEER_SLOTS + 1, DESTINATION)
        self._completions = np.zeros(RECEIVE_BATCH, COMPLETION)
        self._send_requests = np.zeros(self.send_depth, SEND_REQUEST)
        self._send_sges = np.zeros(self.send_depth, SGE)
        self._receive_requests = np.zeros(self.receive_depth, RECEIVE_REQUEST)
        self._receive_sges = np.zeros(self.receive_depth, SGE)
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._receive_buffers = self._start + self.send_depth * self.send_size
        rows = (
            (self._send_requests, self._send_sges, self._start, self.send_size),
            (self._receive_requests, self._receive_sges, self._receive_buffers, self.receive_size),
        )
        for requests, sges, start, size in rows:
            numbers = np.arange(len(requests), dtype=np.uint64)
            sges["address"] = np.uint64(start) + numbers * np.uint64(size)
            sges["length"], sges["key"] = size, self._region.contents.lkey
            requests["number"], requests["sge_count"] = numbers, 1
            requests["sges"] = np.uint64(sges.ctypes.data) + numbers * np.uint64(SGE.itemsize)
        self._send_requests["opcode"], self._send_requests["queue_key"] = records.SEND_OPCODE, QUEUE_KEY
        for member, value in self._members().items():
            self.record[member] = value

    def _members(self) -> dict[str, Any]:
        """The VERBS record by member."""
        return {
            "queue_pair": self._address_of_queue_pair,
            "send_queue": self._queues[0],
            "receive_queue": self._queues[1],
            "channel": ctypes.addressof(self._channel.contents),
            "poll": self._function(records.POLL),
            "request_event": self._function(records.REQUEST_EVENT),
            "post_send": self._function(records.POST_SEND),
            "post_receive": self._function(records.POST_RECEIVE),
            "take_event": ctypes.cast(self._library.ibv_get_cq_event, c_void_p).value,
            "acknowledge": ctypes.cast(self._library.ibv_ack_cq_events, c_void_p).value,
            "send_requests": self._send_requests.ctypes.data,
            "send_sges": self._send_sges.ctypes.data,
            "receive_requests": self._receive_requests.ctypes.data,
            "receive_buffers": self._receive_buffers,
            "completions": self._completions.ctypes.data,
            "destinations": self.destinations.ctypes.data,
            "send_depth": self.send_depth,
            "send_size": self.send_size,
            "receive_size": self.receive_size,
            "receive_header": self.RECEIVE_HEADER,
            "received_source": self.RECEIVED_SOURCE,
            "received_destination": self.RECEIVED_DESTINATION,
            "wake_fd": self.wake_fd,
        }

    def _function(self, offset: int) -> int:
        return int(c_void_p.from_address(self._context + offset).value or 0)

    @property
    def state(self) -> int:
        return int(self.record.ctypes.data)

    @property
    def _address_of_queue_pair(self) -> int:
        return ctypes.addressof(self.queue_pair.contents)

    @property
    def number(self) -> int:
        """QPN."""
        return int(self.queue_pair.contents.qp_num)

    @property
    def event_fd(self) -> int:
        """Descriptor to poll for datagrams, after `longest_sleep`."""
        return int(self._channel.contents.fd)

    def _modify(self, state: int, mask: int) -> None:
        attributes = ibv.QueuePairAttributes(qp_state=state, qkey=QUEUE_KEY, port_num=self.port)
        error = self._library.ibv_modify_qp(self.queue_pair, byref(attributes), ibv.STATE | mask)
        zero(error, f"bring the queue pair on {self.name} into state {state}")

    def bring_up(self) -> None:
        """Go from RESET to RTS, with all buffers posted. Compiled code must not run, or see it as broken."""
        for member in ("send_next", "chained", "received", "waiting"):
            self.record[member] = 0
        self.record["send_free"] = self.send_depth
        self._modify(ibv.INIT, self.INIT_MASK)
        following = np.roll(
            np.uint64(self._receive_requests.ctypes.data)
            + np.arange(self.receive_depth, dtype=np.uint64) * np.uint64(RECEIVE_REQUEST.itemsize),
            -1,
        )
        following[-1] = 0
        self._receive_requests["next"] = following
        post = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_void_p)(self._function(records.POST_RECEIVE))
        refused = c_void_p()
        error = post(int(self.record[0]["queue_pair"]), self._receive_requests.ctypes.data, ctypes.addressof(refused))
        zero(error, f"post {self.receive_depth} buffers to {self.name}")
        self._modify(ibv.RTR, 0)
        self._modify(ibv.RTS, self.RTS_MASK)

    def _listen(self) -> None:
        """Ask for packets. The network knows the number of a UD queue pair, so it needs nothing."""

    def recover(self) -> None:
        """Restore a queue pair that compiled code has marked as broken; what it held is lost. Raises VerbsFailed."""
        self._modify(ibv.RESET, 0)
        poll = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_int, c_void_p)(self._function(records.POLL))
        for queue in self._queues:
            while poll(queue, RECEIVE_BATCH, self._completions.ctypes.data) > 0:
                pass
        self.bring_up()
        shared_words.store_release(self.state + BROKEN, 0)

    def address_handle(self, address: str) -> int:
        """The handle for datagrams to an address, made at the first call. Raises VerbsFailed."""
        if address not in self.handles:
            attributes = ibv.AddressAttributes(
                sgid_index=self._gid_index, hop_limit=HOP_LIMIT, is_global=1, port_num=self.port
            )
            attributes.dgid[:] = gid_of(address)
            made = self._library.ibv_create_ah(self._domain, byref(attributes))
            self.handles[address] = checked(made, f"find the way from {self.address} on {self.name} to {address}")
        return self.handles[address]

    def join(self, group: str) -> None:
        """Receive packets to a multicast group. VerbsFailed if the device can not. Network and kernel go by the host's
        membership: rxe gets what the kernel takes from its interface."""
        self._membership = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            join_interface(self._membership, group, self.address)
        except OSError as refusal:
            raise VerbsFailed(f"its host can not join it: {refusal.strerror}") from refusal
        self._attach(group)
        self._group = group

    def _attach(self, group: str) -> None:
        error = self._library.ibv_attach_mcast(self.queue_pair, byref((c_uint8 * 16)(*gid_of(group))), 0)
        zero(error, f"attach the queue pair on {self.name} to it")

    def _detach(self, group: str) -> None:
        self._library.ibv_detach_mcast(self.queue_pair, byref((c_uint8 * 16)(*gid_of(group))), 0)

    def _leave_group(self) -> None:
        if self._group:
            self._detach(self._group)
        if self._membership is not None:
            self._membership.close()
        self._group, self._membership = "", None

    def close(self) -> None:
        self._leave_group()
        if self.queue_pair:
            self._library.ibv_destroy_qp(self.queue_pair)
        for handle in self.handles.values():
            self._library.ibv_destroy_ah(handle)
        for queue in self._queues:
            self._library.ibv_destroy_cq(queue)
        if self._channel:
            self._library.ibv_destroy_comp_channel(self._channel)
        if self._region:
            self._library.ibv_dereg_mr(self._region)
        if self._domain:
            self._library.ibv_dealloc_pd(self._domain)
        if self._context:
            self._library.ibv_close_device(self._context)
        if hasattr(self, "wake_fd"):
            os.close(self.wake_fd)
        self.queue_pair = self._channel = self._region = None
        self._queues, self.handles, self._domain, self._context = [], {}, 0, 0
