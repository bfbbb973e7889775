"""The verbs objects of clients over RDMA: for each a protection domain, a queue pair, memory and keys."""

import contextlib
import ctypes
import mmap
import os
import secrets
from ctypes import byref, c_void_p
from typing import Any

import numpy as np

from fanin_nic.engine.records.actions import ACTION
from fanin_nic.hostif.mapping import ControlRegion
from fanin_nic.hostif.remote.queue_pair import (
    ALL_SLOTS,
    MAX_REGIONS,
    MAX_WAITING_READS,
    READ_SLOTS,
    READ_STAGING_BYTES,
    RECEIVE_DEPTH,
    REMOTE,
    REMOTE_REGION,
    SEND_DEPTH,
    WRITE_BYTES,
    drain_requests,
)
from fanin_nic.hostif.remote.transfer import post_marker
from fanin_nic.port.verbs import library as ibv
from fanin_nic.port.verbs import records
from fanin_nic.port.verbs.interface import MAPPED, VerbsFailed, checked, gid_of, open_device, zero
from fanin_nic.port.verbs.library import library
from fanin_nic.port.verbs.records import RECEIVE_REQUEST

HOP_LIMIT = 64
READS_IN_FLIGHT = 16  # on one queue pair, in each direction; fewer if a verbs device has fewer
RETRIES = 6  # the most that ends: rxe takes 7 as "without end"
ANY_NUMBER = 7  # retries while the other side has no buffer: for ever
NO_BUFFER_TIMER = 1  # 10 us
TICK = 4.096e-6  # s: the time-out of a queue pair is 2^n ticks
MAX_TIMEOUT = 18
PSN_BITS = 24
RECEIVED = 2 << 32  # number of a receive: hostif/remote/queue_pair.py


class VerbsDevice:
    """A verbs device; port and GID are those of `address`, else its first of RoCE v2 over IPv4. Raises VerbsFailed."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.context = open_device(name, f"rdma://{name}")
        self.library = library()
        try:
            self._find_port(gid_of(address))
        except BaseException:
            self.close()
            raise

    def _find_port(self, wanted: bytes) -> None:
        attributes, found = ibv.DeviceAttributes(), None
        zero(self.library.ibv_query_device(self.context, byref(attributes)), f"query {self.name}")
        self.reads_asked = min(READS_IN_FLIGHT, attributes.max_qp_init_rd_atom)
        self.reads_answered = min(READS_IN_FLIGHT, attributes.max_qp_rd_atom)
        for port in range(1, attributes.phys_port_cnt + 1):
            state, entry = ibv.PortAttributes(), ibv.GidEntry()
            zero(self.library.ibv_query_port(self.context, port, byref(state)), f"query port {port} of {self.name}")
            for index in range(state.gid_tbl_len):
                arguments = (self.context, port, index, byref(entry), 0, ctypes.sizeof(entry))
                if self.library._ibv_query_gid_ex(*arguments) or entry.gid_type != ibv.ROCE_V2:
                    continue
                gid = bytes(entry.gid)
                if gid.startswith(MAPPED) and (found is None or gid == wanted):
                    found = port, index, gid, state.state, 128 << state.active_mtu
        if found is None:
            remedy = "give its network interface an IPv4 address"
            raise VerbsFailed(f"verbs device {self.name} has no GID of RoCE v2 over IPv4; {remedy}")
        self.port, self.gid_index, self.gid, active, self.mtu = found
        if active != ibv.ACTIVE:
            raise VerbsFailed(f"port {self.port} of {self.name} is down; set its network interface up")

    def close(self) -> None:
        self.library.ibv_close_device(self.context)


class Endpoint:
    """Queue pair and memory of one client. Raises VerbsFailed.

    `state`: address of its REMOTE record. `markers`: number posted, mod 2^32. `patience`: seconds for which the device
    waits for a client that takes nothing.
    """

    def __init__(self, device: VerbsDevice, region: ControlRegion, patience: float) -> None:
        self._device, self._library, self._patience = device, device.library, patience
        self.psn = secrets.randbits(PSN_BITS)
        self.markers = 0
        with contextlib.ExitStack() as undo:
            self._make(undo, region)
            self._arrange(region)
            self._resources = undo.pop_all()

    def _make(self, undo: contextlib.ExitStack, region: ControlRegion) -> None:
        call, context, name = self._library, self._device.context, self._device.name
        domain = checked(call.ibv_alloc_pd(context), f"make a protection domain on {name}")
        undo.callback(call.ibv_dealloc_pd, domain)
        self._staging = mmap.mmap(-1, WRITE_BYTES + READ_STAGING_BYTES)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._staging))
        remedy = "raise the limit of locked memory (ulimit -l)"

        def registered(start: int, length: int, access: int) -> Any:
            found = call.ibv_reg_mr(domain, start, length, access)
            checked(found, f"register {length >> 20} MiB with {name}", remedy)
            undo.callback(call.ibv_dereg_mr, found)
            return found.contents

        self._staged = registered(self._start, len(self._staging), ibv.LOCAL_WRITE)
        rights = ibv.LOCAL_WRITE | ibv.REMOTE_WRITE | ibv.REMOTE_READ
        self.region = registered(region.doorbell, region.length, rights)
        self._channel = checked(call.ibv_create_comp_channel(context), "make a completion channel")
        undo.callback(call.ibv_destroy_comp_channel, self._channel)
        os.set_blocking(self.event_fd, False)
        depth = SEND_DEPTH + RECEIVE_DEPTH
        self._queue = checked(call.ibv_create_cq(context, depth, None, self._channel, 0), f"make a queue of {depth}")
        undo.callback(call.ibv_destroy_cq, self._queue)
        wanted = ibv.QueuePairInit(
            None, self._queue, self._queue, None, ibv.Capabilities(SEND_DEPTH, RECEIVE_DEPTH, 1, 1, 0), ibv.RC, 1
        )
        self.queue_pair = checked(call.ibv_create_qp(domain, byref(wanted)), "make an RC queue pair")
        undo.callback(call.ibv_destroy_qp, self.queue_pair)

    def _arrange(self, region: ControlRegion) -> None:
        """The tables of the compiled code."""
        self.record = np.zeros(1, REMOTE)
        self._regions = np.zeros(MAX_REGIONS, REMOTE_REGION)
        self._reads = np.zeros(READ_SLOTS, ACTION)
        self._waiting = np.zeros(MAX_WAITING_READS, ACTION)
        self._sent = np.zeros(region.max_cq, np.uint32)
        members = {
            "queue_pair": ctypes.addressof(self.queue_pair.contents),
            "completion_queue": self._queue,
            "channel": ctypes.addressof(self._channel.contents),
            "poll": self._function(records.POLL),
            "request_event": self._function(records.REQUEST_EVENT),
            "post_send": self._function(records.POST_SEND),
            "post_receive": self._function(records.POST_RECEIVE),
            "take_event": ctypes.cast(self._library.ibv_get_cq_event, c_void_p).value,
            "acknowledge": ctypes.cast(self._library.ibv_ack_cq_events, c_void_p).value,
            "region": region.doorbell,
            "write_staging": self._start,
            "read_staging": self._start + WRITE_BYTES,
            "regions": self._regions.ctypes.data,
            "reads": self._reads.ctypes.data,
            "waiting": self._waiting.ctypes.data,
            "sent": self._sent.ctypes.data,
            "free_reads": ALL_SLOTS,
            "patience": round(self._patience * 1e9),
            "region_key": self.region.lkey,
            "staging_key": self._staged.lkey,
            "sq_offset": region.sq_offset,
            "sq_stride": region.sq_stride,
            "cq_offset": region.cq_offset,
            "cq_stride": region.cq_stride,
            "max_qp": region.max_qp,
        }
        for member, value in members.items():
            self.record[member] = value

    def _function(self, offset: int) -> int:
        return int(c_void_p.from_address(self._device.context + offset).value or 0)

    @property
    def state(self) -> int:
        """Address of the REMOTE record."""
        return int(self.record.ctypes.data)

    @property
    def event_fd(self) -> int:
        """Readable when something has come, after it was asked for."""
        return int(self._channel.contents.fd)

    @property
    def is_broken(self) -> bool:
        return bool(self.record[0]["broken"])

    def describe(self) -> tuple[np.ndarray, int, int, int, int, int]:
        """What the other side needs: a record of abi.ENDPOINT."""
        number, device = int(self.queue_pair.contents.qp_num), self._device
        gid = np.frombuffer(device.gid, "u1")
        return (gid, number, self.psn, device.mtu, device.reads_asked, device.reads_answered)

    def connect(self, other: np.void) -> None:
        """Connect to the client's queue pair (a record of abi.ENDPOINT), and post the buffers of its messages."""
        attributes = ibv.QueuePairAttributes(
            qp_state=ibv.INIT, port_num=self._device.port, qp_access_flags=ibv.REMOTE_WRITE | ibv.REMOTE_READ
        )
        reads = min(self._device.reads_asked, int(other["reads_answered"]))
        if not reads:
            remedy = "use verbs devices whose max_qp_rd_atom and max_qp_init_rd_atom (ibv_devinfo -v) are not 0"
            raise VerbsFailed(f"{self._device.name} asks no READs, or the client's verbs device answers none; {remedy}")
        self._modify(attributes, ibv.STATE | ibv.P_KEY_INDEX | ibv.PORT | ibv.ACCESS_FLAGS)
        self._post_receives()
        way = ibv.AddressAttributes(
            sgid_index=self._device.gid_index, hop_limit=HOP_LIMIT, is_global=1, port_num=self._device.port
        )
        way.dgid[:] = other["gid"].tobytes()
        mtu = min(self._device.mtu, int(other["path_mtu"]))
        attributes.qp_state, attributes.path_mtu = ibv.RTR, max(1, min(5, mtu.bit_length() - 8))
        attributes.dest_qp_num, attributes.rq_psn = int(other["qpn"]), int(other["psn"])
        attributes.min_rnr_timer = NO_BUFFER_TIMER
        attributes.max_dest_rd_atomic = min(self._device.reads_answered, int(other["reads_asked"]))
        ctypes.memmove(byref(attributes, ibv.QueuePairAttributes.ah_attr.offset), byref(way), ctypes.sizeof(way))
        self._modify(
            attributes,
            ibv.STATE
            | ibv.AV
            | ibv.PATH_MTU
            | ibv.OTHER_NUMBER
            | ibv.RECEIVE_PSN
            | ibv.MAX_DEST_RD_ATOMIC
            | ibv.RNR_TIMER,
        )
        attributes.qp_state, attributes.sq_psn = ibv.RTS, self.psn
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = self._timeout(), RETRIES, ANY_NUMBER
        attributes.max_rd_atomic = reads
        self._modify(
            attributes, ibv.STATE | ibv.TIMEOUT | ibv.RETRIES | ibv.RNR_RETRIES | ibv.SEND_PSN | ibv.MAX_RD_ATOMIC
        )

    def _timeout(self) -> int:
        """Time-out of the queue pair, as 2^n ticks: within the patience including all retries."""
        found = 1
        while found < MAX_TIMEOUT and TICK * 2 ** (found + 1) * (RETRIES + 1) <= self._patience:
            found += 1
        return found

    def _modify(self, attributes: ibv.QueuePairAttributes, mask: int) -> None:
        error = self._library.ibv_modify_qp(self.queue_pair, byref(attributes), mask)
        zero(error, f"bring a queue pair on {self._device.name} into state {attributes.qp_state}")

    def _post_receives(self) -> None:
        """Empty buffers: a message has only immediate data."""
        requests = np.zeros(RECEIVE_DEPTH, RECEIVE_REQUEST)
        requests["number"] = RECEIVED
        places = requests.ctypes.data + np.arange(RECEIVE_DEPTH) * RECEIVE_REQUEST.itemsize
        requests["next"][:-1] = places[1:]
        post = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_void_p)(self._function(records.POST_RECEIVE))
        error = post(int(self.record[0]["queue_pair"]), requests.ctypes.data, ctypes.addressof(c_void_p()))
        zero(error, f"post {RECEIVE_DEPTH} buffers to {self._device.name}")

    def mirror(self, region: int, key: int) -> None:
        """Set the place of the client's copy of the control region."""
        self.record["host_region"], self.record["host_key"] = region, key

    def open_completions(self, cq: int) -> None:
        """A completion queue is used anew, and empty."""
        self._sent[cq] = 0
        self.record["cq_end"] = max(int(self.record[0]["cq_end"]), cq + 1)

    def enter(self, start: int, length: int, key: int, access: int) -> None:
        """Enter memory of the client, registered there under `key`."""
        count = int(self.record[0]["region_count"])
        self._regions[count] = (start, length, key, access)
        self.record["region_count"] = count + 1

    def erase(self, start: int, key: int) -> None:
        """Forget memory of the client, which nothing reaches after the return."""
        self._erase(start, key)
        drain_requests(self.state)

    def _erase(self, start: int, key: int) -> None:
        count = int(self.record[0]["region_count"])
        for row in range(count):
            if (int(self._regions[row]["start"]), int(self._regions[row]["key"])) == (start, key):
                self._regions[row] = self._regions[count - 1]
                self.record["region_count"] = count - 1
                return

    def post_marker(self) -> None:
        """A message behind all that was written to the client."""
        post_marker(self.state)
        self.markers = (self.markers + 1) % 2**32

    def close(self) -> None:
        """The compiled code must not know the record any more."""
        self._resources.close()
