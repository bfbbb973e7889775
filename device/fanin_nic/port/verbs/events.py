"""Asynchronous events of a verbs device."""

import enum
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

log = logging.getLogger(__name__)


class Event(enum.IntEnum):
    """enum ibv_event_type"""

    CQ_ERR = 0
    QP_FATAL = 1
    QP_REQ_ERR = 2
    QP_ACCESS_ERR = 3
    COMM_EST = 4
    SQ_DRAINED = 5
    PATH_MIG = 6
    PATH_MIG_ERR = 7
    DEVICE_FATAL = 8
    PORT_ACTIVE = 9
    PORT_ERR = 10
    LID_CHANGE = 11
    PKEY_CHANGE = 12
    SM_CHANGE = 13
    SRQ_ERR = 14
    SRQ_LIMIT_REACHED = 15
    QP_LAST_WQE_REACHED = 16
    CLIENT_REREGISTER = 17
    GID_CHANGE = 18
    WQ_FATAL = 19


OF_PORTS = (Event.PORT_ACTIVE, Event.PORT_ERR, Event.LID_CHANGE, Event.PKEY_CHANGE, Event.GID_CHANGE)
FATAL = (Event.DEVICE_FATAL, Event.CQ_ERR)  # a completion queue in error can not be restored


class Source(Protocol):
    """The source of events: a queue pair with its device."""

    name: str
    address: str
    port: int

    def events(self) -> Iterator[tuple[int, int]]:
        """Events that have come: code, and number of the port if it is of one."""

    def has_address(self) -> bool:
        """Whether the port still has it."""

    def is_active(self) -> bool:
        """Whether the port is up."""


class Watch:
    """Takes the events of a device, logs them, and keeps them for the status. failure: why the device can no longer
    serve; "" while it does."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._counted: Counter[str] = Counter()
        self._is_up = self._has_address = True
        self.failure = ""
        self._tell: Callable[[str], None] = lambda failure: None

    def on_failure(self, tell: Callable[[str], None]) -> None:
        """Call `tell` with the failure, in the thread that takes events; at once if it has happened."""
        self._tell = tell
        if self.failure:
            tell(self.failure)

    def take(self) -> bool:
        """Take the events that have come; returns whether the port came up."""
        is_active = False
        for code, port in self._source.events():
            event = Event(code) if code in set(Event) else None
            if event in OF_PORTS and port != self._source.port:
                continue
            self._counted[event.name if event is not None else f"event {code}"] += 1
            is_active |= event == Event.PORT_ACTIVE
            if event in (Event.PORT_ACTIVE, Event.PORT_ERR):
                self._note_port(event == Event.PORT_ACTIVE)
            elif event == Event.GID_CHANGE:
                self._note_address(self._source.has_address())
            elif event in FATAL:
                self._fail(event)
            else:
                log.info("verbs device %s: %s", self._source.name, event.name if event is not None else code)
        return is_active

    def is_active(self) -> bool:
        """Whether the port is up, by asking it."""
        self._note_port(self._source.is_active())
        return self._is_up

    def status(self) -> dict[str, Any]:
        """`events` counts events by name."""
        return {
            "device": self._source.name,
            "port": "active" if self._is_up else "down",
            "has_address": self._has_address,
            "events": dict(self._counted),
        }

    def _note_port(self, is_up: bool) -> None:
        if is_up != self._is_up:
            what = "is up again" if is_up else "is down: nothing is sent or received until it is up again"
            log.warning("port %d of verbs device %s %s", self._source.port, self._source.name, what)
        self._is_up = is_up

    def _note_address(self, has_address: bool) -> None:
        if has_address != self._has_address:
            place = f"verbs device {self._source.name} {'has' if has_address else 'has lost'}"
            log.warning("%s the address %s%s", place, self._source.address, " again" if has_address else "")
        self._has_address = has_address

    def _fail(self, event: Event) -> None:
        if self.failure:
            return
        cause = f"verbs device {self._source.name} has failed (IBV_EVENT_{event.name})"
        self.failure = f"{cause}; restart this device when the verbs device is back"
        self._tell(self.failure)
