"""The resolver of a RAW_PACKET queue pair: the kernel knows neighbours' Ethernet addresses, or asks for them."""

import contextlib
import errno
import logging
import socket

from fanin_nic.port.verbs.raw_queue_pair import RawQueuePair
from fanin_nic.port.verbs.resolver import RECEIVE_BYTES, Question, Resolver

DISCARD_PORT = 9  # RFC 863

log = logging.getLogger(__name__)


class NeighbourResolver(Resolver):
    """Other devices are asked nothing: they may have UDP sockets, which answer no question."""

    _queue_pair: RawQueuePair

    def _put(self, question: Question, address: str) -> bool:
        """Look an address up. The datagram makes the kernel ask for an unknown Ethernet address, or check an old
        one."""
        with contextlib.suppress(OSError):
            self._socket.sendto(b"", (address, DISCARD_PORT))
        try:
            return self._look_up(question.row, address)
        except OSError as error:  # such as too many open files; the next question looks again
            log.error("the kernel does not report how to reach %s: %s", address, error.strerror)
            return False

    def _look_up(self, row: int, address: str) -> bool:
        if self._queue_pair.mac_towards(address):
            return self._enter(row, address, 0)
        if address not in self._unreachable and is_of_this_host(address):
            self._unreachable.add(address)
            cause = f"{address} is an address of this host: no frame that {self._queue_pair.name} sends comes back"
            log.error("%s; put the two devices on two hosts, or use UDP", cause)
        return False

    def _take_message(self) -> bool:
        """Take one message. Questions get no answer here: datagrams of a UD queue pair would not be understood."""
        try:
            self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True


def is_of_this_host(address: str) -> bool:
    """Whether the kernel has an IPv4 address itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_port:
        try:
            any_port.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True
