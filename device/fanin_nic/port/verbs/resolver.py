"""The resolver: a thread that learns the queue pairs of other devices, recovers a queue pair that has failed, and
takes the events of the verbs device.

The compiled code marks the destinations that it wants and wakes the resolver, which writes into the table of
destinations. A destination that does not answer packets is asked again, because it may have been restarted.
"""

import contextlib
import errno
import ipaddress
import logging
import os
import secrets
import select
import socket
import threading
import time
from dataclasses import dataclass

import numpy as np

from fanin_nic.native import shared_words
from fanin_nic.port.descriptors import DESTINATION, PEER_SLOTS
from fanin_nic.port.verbs.events import Watch
from fanin_nic.port.verbs.interface import VerbsFailed
from fanin_nic.port.verbs.queue_pair import QueuePair
from fanin_nic.port.verbs.raw_queue_pair import RawQueuePair
from fanin_nic.port.verbs.records import MULTICAST_QUEUE_PAIR
from fanin_nic.port.verbs.wake import BROKEN, DESTINATION_WANTED, HANDLE, QUEUE_PAIR, WANTED
from fanin_wire.resolution import RESOLUTION_PORT, Kind, Message, decode, encode

REPEAT_SECONDS, MAX_REPEAT_SECONDS = 0.05, 1.0  # between questions without an answer: ever longer
TRIES = 8  # questions, few since forged addresses may cause them; then only the next packet asks again
LOOK_SECONDS = 0.25  # between checks for silent devices
MESSAGES = 64  # taken in one turn
RECOVERY_SECONDS, MAX_RECOVERY_SECONDS = 0.05, 5.0  # between attempts, doubled each time
RECEIVE_BYTES = 2048
DISCARD_PORT = 9  # RFC 863
log = logging.getLogger(__name__)


@dataclass
class Question:
    row: int
    token: int
    tries: int = 0
    due: float = 0.0


class Resolver:
    """The resolver of one queue pair. peers: the PEER table beside whose rows the destinations are."""

    def __init__(self, queue_pair: QueuePair, lane: int, peers: np.ndarray) -> None:
        self._queue_pair, self._lane, self._peers = queue_pair, lane, peers
        self._record, self._destinations = queue_pair.record, queue_pair.destinations
        self._questions: dict[str, Question] = {}
        self.watch = Watch(queue_pair)
        self._unreachable: set[str] = set()  # named in the log once
        self._counted = np.zeros((2, PEER_SLOTS), np.uint64)
        self._look_due = self._recovery_due = 0.0
        self._recovery_pause = RECOVERY_SECONDS
        self._stop = False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind((queue_pair.address, RESOLUTION_PORT))
        except OSError as error:
            self._socket.close()
            remedy = "stop the device that has this address, or choose another address"
            raise VerbsFailed(
                f"cannot open UDP port {RESOLUTION_PORT} of {queue_pair.address}: {error.strerror}; {remedy}"
            ) from error
        self._thread = threading.Thread(target=self._run, name="resolver", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop = True
        os.eventfd_write(self._queue_pair.wake_fd, 1)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._stop:
            now = time.monotonic()
            self._recover(now)
            self._look(now)
            self._ask(now)
            descriptors = [self._socket.fileno(), self._queue_pair.wake_fd, self._queue_pair.async_fd]
            readable, _, _ = select.select(descriptors, [], [], self._pause(now))
            if self._queue_pair.wake_fd in readable:
                os.eventfd_read(self._queue_pair.wake_fd)
            if self._queue_pair.async_fd in readable and self.watch.take():
                self._recovery_due, self._recovery_pause = 0.0, RECOVERY_SECONDS
            self._collect_wanted()
            for _ in range(MESSAGES):
                if not self._take_message():
                    break

    def _pause(self, now: float) -> float | None:
        """Seconds to wait for messages; None: without limit."""
        dues = [question.due for question in self._questions.values()]
        if self._queue_pair.handles:
            dues.append(self._look_due)
        if self._is_broken():
            dues.append(self._recovery_due)
        return max(0.0, min(dues) - now) if dues else None

    def _is_broken(self) -> bool:
        """Whether the queue pair has failed. Read its status after this."""
        return shared_words.load_acquire(self._queue_pair.state + BROKEN) != 0

    def _address(self, row: int) -> int:
        return int(self._destinations.ctypes.data) + row * DESTINATION.itemsize

    def _recover(self, now: float) -> None:
        if not self._is_broken() or now < self._recovery_due:
            return
        if not self.watch.is_active():  # it would fail again
            self._postpone_recovery(now)
            return
        name, status = self._queue_pair.name, int(self._record[0]["status"])
        try:
            self._queue_pair.recover()
        except VerbsFailed as error:
            if self._recovery_pause == RECOVERY_SECONDS:  # log it once
                cause = f"the queue pair on {name} has failed (status {status}) and stays down: {error}"
                log.error("%s; restart this device when the verbs device is back", cause)
            self._postpone_recovery(now)
            return
        log.warning("the queue pair on %s had failed (status %d) and is up again", name, status)
        self._recovery_due, self._recovery_pause = now + RECOVERY_SECONDS, RECOVERY_SECONDS

    def _postpone_recovery(self, now: float) -> None:
        self._recovery_due = now + self._recovery_pause
        self._recovery_pause = min(2 * self._recovery_pause, MAX_RECOVERY_SECONDS)

    def _collect_wanted(self) -> None:
        """Put a question for each wanted destination. A mark set after this wakes again."""
        shared_words.exchange(self._queue_pair.state + WANTED, 0)
        for row in map(int, np.flatnonzero(self._destinations["wanted"][:PEER_SLOTS])):
            shared_words.store_release(self._address(row) + DESTINATION_WANTED, 0)
            self._want(row)

    def _look(self, now: float) -> None:
        """Ask again those that were sent to since the last look and sent nothing."""
        if now < self._look_due:
            return
        self._look_due = now + LOOK_SECONDS
        peers = self._peers[:PEER_SLOTS]
        counted = np.stack([peers["tx_packets"], peers["rx_packets"]])
        is_silent = (counted[0] != self._counted[0]) & (counted[1] == self._counted[1])
        self._counted = counted
        for row in map(int, np.flatnonzero(is_silent)):
            self._want(row)

    def _want(self, row: int) -> None:
        address = ipaddress.IPv4Address(int(self._peers["address"][row]))
        if not int(address):  # `_look` saw the counters of a new row before its address
            return
        if address.is_multicast:
            self._reach_group(row, str(address))
        else:
            self._questions.setdefault(str(address), Question(row, secrets.randbits(64)))

    def _reach_group(self, row: int, group: str) -> None:
        """Verbs define a group's queue pair, so no question is needed. A device that can not send logs it once."""
        if group in self._unreachable or self._destinations["handle"][row]:
            return
        if not self._enter(row, group, MULTICAST_QUEUE_PAIR):
            self._unreachable.add(group)

    def _ask(self, now: float) -> None:
        for address, question in list(self._questions.items()):
            if now < question.due:
                continue
            if question.tries == TRIES:
                del self._questions[address]
                continue
            question.due = now + min(REPEAT_SECONDS * 2**question.tries, MAX_REPEAT_SECONDS)
            question.tries += 1
            if self._put(question, address):
                del self._questions[address]

    def _put(self, question: Question, address: str) -> bool:
        """Put a question; returns whether it needs no answer."""
        self._send(Message(Kind.QUESTION, self._lane, question.token), address, RESOLUTION_PORT)
        return False

    def _send(self, message: Message, address: str, port: int) -> None:
        with contextlib.suppress(OSError):  # counts as lost
            self._socket.sendto(encode(message), (address, port))

    def _take_message(self) -> bool:
        """Take one message; False if none has come."""
        try:
            data, (address, port) = self._socket.recvfrom(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            return True
        message = decode(data)
        if message is None or message.lane != self._lane:
            return True
        if message.kind == Kind.QUESTION:
            self._send(Message(Kind.ANSWER, self._lane, message.token, self._queue_pair.number), address, port)
        elif port == RESOLUTION_PORT and address in self._questions:
            self._learn(address, message)
        return True

    def _learn(self, address: str, message: Message) -> None:
        question = self._questions[address]
        if message.token != question.token:
            return
        del self._questions[address]
        self._enter(question.row, address, message.queue_pair)

    def _enter(self, row: int, address: str, queue_pair: int) -> bool:
        """Send packets of a destination to a queue pair at an address; returns whether that works."""
        try:
            handle = self._queue_pair.address_handle(address)
        except VerbsFailed as error:
            log.warning("%s", error)
            return False
        place = self._address(row)
        shared_words.store_release(place + QUEUE_PAIR, queue_pair)
        shared_words.store_release_64(place + HANDLE, handle)
        return True


class NeighbourResolver(Resolver):
    """The resolver of a RAW_PACKET queue pair: the kernel knows the Ethernet addresses of neighbours, or asks for them.
    Other devices are asked nothing: they may have UDP sockets, which answer no question."""

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
