"""Notices to a service manager: the protocol of sd_notify(3), as of systemd. A datagram of lines NAME=VALUE goes to the
UNIX socket in $NOTIFY_SOCKET, where "@" stands for the zero byte of an abstract name; without the variable none is
sent."""

import logging
import os
import socket

log = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "NOTIFY_SOCKET"


class ServiceManager:
    """Sends this process's notices to the socket `address`; "": none. By default it takes the environment's variable,
    which children must not inherit."""

    def __init__(self, address: str | None = None) -> None:
        self._address = os.environ.pop(ENVIRONMENT_VARIABLE, "") if address is None else address

    def status(self, text: str) -> None:
        """Say in one line, for people, what the device does."""
        self._send(f"STATUS={text}")

    def ready(self, text: str) -> None:
        """The device accepts ranks."""
        self._send(f"READY=1\nSTATUS={text}")

    def stopping(self, text: str) -> None:
        self._send(f"STOPPING=1\nSTATUS={text}")

    def _send(self, message: str) -> None:
        """A manager that does not listen ends nothing."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            try:
                sender.sendto(message.encode(), address)
            except OSError as error:
                log.warning("%s=%s does not accept notices: %s", ENVIRONMENT_VARIABLE, self._address, error)
