"""The transport of ordinary traffic for the control server (hostif.ports.TransportPort)."""

import secrets
import time

import numpy as np

from fanin_nic.daemon.lanes.host_port import check_share
from fanin_nic.daemon.loop.lane_record import ORDINARY_RINGS
from fanin_nic.hostif.ports import NoResources, OrdinaryQueuePair, OrdinaryRegion, Refused
from fanin_nic.hostif.server import MAX_CLIENTS
from fanin_nic.transport.transport import AttributesInvalid, Limits, TableFull, Transport
from fanin_wire import fields
from fanin_wire.abi import Access, Service, Status
from fanin_wire.rocev2 import MAX_HEADERS, PATH_MTUS
from fanin_wire.rocev2 import Transport as WireService
from fanin_wire.verbs import Access as VerbsAccess
from fanin_wire.verbs import Attribute, QueuePairState

MAX_CQ = 64  # completion queues of a client
MAX_QUEUE_PAIRS = 64  # of a client
MAX_SHARED_QUEUES = 16  # likewise
DOMAINS = 1 << 16  # of a client
TAGS = (1 << 16) - 1
SERVICES = {Service.RC: WireService.RC, Service.UC: WireService.UC, Service.UD: WireService.UD}
RIGHTS = int(sum(VerbsAccess))  # of enum fanin_access, those of the transport
CHANGING = Access.REMOTE_WRITE | Access.REMOTE_ATOMIC


def largest_payload(mtu: int) -> int:
    """Bytes of the longest datagram in a path MTU, up to the specification's maximum."""
    room = mtu - fields.IPV4_UDP_SIZE - fields.BTH.size - MAX_HEADERS - fields.ICRC_SIZE
    return min(room & ~3, PATH_MTUS[-1])


def largest_path_mtu(mtu: int) -> int:
    """The largest path MTU of InfiniBand that fits into a path MTU; 0: none."""
    return max((size for size in PATH_MTUS if size <= largest_payload(mtu)), default=0)


class OrdinaryHost:
    """Queue pairs, shared receive queues and regions of the clients of one device. For the compiled loop: `rings` by
    row of the queue pair, `shared_rings` by row of the shared receive queue, `completion_rings` by number."""

    def __init__(self, address: str, mtu: int, limits: Limits | None = None) -> None:
        self.transport = Transport(
            address, limits=limits, mtu=largest_payload(mtu), incarnation=secrets.randbelow(1 << 16)
        )
        self.path_mtu = largest_path_mtu(mtu)
        self.rings = np.zeros(self.transport.limits.queue_pairs, ORDINARY_RINGS)
        self.shared_rings = np.zeros(self.transport.limits.shared_queues, np.uint64)
        self.completion_rings = np.zeros(MAX_CLIENTS * MAX_CQ, np.uint64)
        self.draining = False

    @property
    def end(self) -> int:
        """1 + the highest row of a queue pair; 0: none."""
        used = np.flatnonzero(self.rings["send"])
        return int(used[-1]) + 1 if len(used) else 0

    @property
    def shared_end(self) -> int:
        """1 + the highest row of a shared receive queue; 0: none."""
        used = np.flatnonzero(self.shared_rings)
        return int(used[-1]) + 1 if len(used) else 0

    def register(self, client: int, region: OrdinaryRegion) -> int:
        """Refuses memory that the other side may change and that is not writable here."""
        if region.access & CHANGING and not region.access & Access.WRITE:
            raise Refused(Status.INVALID_REQUEST, "rights to change memory that is not writable")
        self._check_share("regions", "key", client)
        try:
            return self.transport.register(
                region.start,
                region.length,
                VerbsAccess(region.access & RIGHTS),
                domain=_domain(client, region.domain),
                tag=1 + secrets.randbelow(TAGS),
                mapped=region.mapped,
                process=0 if region.mapped is not None else client + 1,
            )
        except TableFull as error:
            raise NoResources(f"{error} of ordinary traffic") from None

    def _check_share(self, what: str, used: str, client: int) -> None:
        """Refuse one more row of a table to a client that has its share. used: member that is 0 in a free row."""
        table = self.transport.tables[what.replace(" ", "_")]
        owners = (table["domain"][table[used] != 0] - 1) // DOMAINS
        check_share(f"{what} of ordinary traffic", owners, len(table), client)

    def deregister(self, key: int) -> None:
        self.transport.deregister(key)

    def open_completions(self, client: int, cq: int, ring: int) -> None:
        """Store completions of a completion queue in a ring; 0: no more."""
        self.completion_rings[_completion_queue(client, cq)] = ring

    def create(self, client: int, wanted: OrdinaryQueuePair) -> tuple[int, int]:
        """Returns the queue pair's row and its number on the wire. Refused while `draining`."""
        if self.draining:
            raise Refused(Status.DRAINING, "a queue pair of ordinary traffic")
        self._check_share("queue pairs", "qpn", client)
        try:
            row = self.transport.create_queue_pair(
                SERVICES[wanted.service],
                send_cq=_completion_queue(client, wanted.send_cq),
                receive_cq=_completion_queue(client, wanted.receive_cq),
                domain=_domain(client, wanted.domain),
                all_signaled=wanted.all_signaled,
                shared_queue=wanted.shared_queue,
            )
        except TableFull as error:
            raise NoResources(f"{error} of ordinary traffic") from None
        except AttributesInvalid as error:
            raise Refused(Status.INVALID_REQUEST, str(error)) from None
        self.rings[row] = (wanted.send_ring, wanted.receive_ring)
        return row, int(self.transport.queue_pair(row)["qpn"])

    def create_shared(self, client: int, domain: int, ring: int) -> int:
        """Returns the row of the shared receive queue, with its ring."""
        self._check_share("shared queues", "is_used", client)
        try:
            row = self.transport.create_shared_queue(domain=_domain(client, domain))
        except TableFull as error:
            raise NoResources(f"{error} of ordinary traffic") from None
        self.shared_rings[row] = ring
        return row

    def destroy_shared(self, row: int) -> None:
        """No queue pair may receive from it."""
        self.transport.destroy_shared_queue(row)
        self.shared_rings[row] = 0

    def destroy(self, row: int) -> None:
        self.transport.destroy_queue_pair(row)
        self.rings[row] = (0, 0)

    def modify(self, row: int, state: int, values: dict[int, int]) -> None:
        given = {Attribute(bit): value for bit, value in values.items()}
        try:
            wanted = QueuePairState(state)
            if given.get(Attribute.PATH_MTU, 0) > self.path_mtu:
                raise AttributesInvalid(f"the path MTU of this port is {self.path_mtu}")
            self.transport.modify(row, wanted, time.monotonic_ns(), given)
        except ValueError as error:
            raise Refused(Status.INVALID_REQUEST, str(error)) from None

    def query(self, row: int) -> tuple[int, dict[int, int]]:
        state, values = self.transport.query(row)
        return int(state), {int(attribute): value for attribute, value in values.items()}

    def holdings(self) -> dict[str, int]:
        """Numbers of clients' queue pairs, shared receive queues and regions."""
        tables = self.transport.tables
        used = {"queue_pairs": "qpn", "shared_queues": "is_used", "regions": "key"}
        columns = {name: tables[name][member] for name, member in used.items()}
        return {name: int(np.count_nonzero(column)) for name, column in columns.items()}

    def counters(self) -> dict[str, int]:
        """The transport's counters, with the prefix `ordinary_`."""
        return {f"ordinary_{name}": value for name, value in self.transport.counters().items()}


def _domain(client: int, number: int) -> int:
    return client * DOMAINS + number + 1


def _completion_queue(client: int, cq: int) -> int:
    return client * MAX_CQ + cq
