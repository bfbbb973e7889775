"""What a service manager is told: the protocol of sd_notify(3), which systemd and others speak.

A datagram of lines NAME=VALUE to the UNIX socket that $NOTIFY_SOCKET names; "@" stands for the zero byte with which an
abstract name begins. Without the variable nobody wants to know.
"""

import logging
import os
import socket

log = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "NOTIFY_SOCKET"


class ServiceManager:
    """Where the notices of this process go: to the socket `address`, "" for nobody. By default it is that of the
    environment, out of which the variable is taken, since it is for no child."""

    def __init__(self, address: str | None = None) -> None:
        self._address = os.environ.pop(ENVIRONMENT_VARIABLE, "") if address is None else address

    def status(self, text: str) -> None:
        """Say in one line what the device does, for people."""
        self._send(f"STATUS={text}")

    def ready(self, text: str) -> None:
        """The device accepts ranks."""
        self._send(f"READY=1\nSTATUS={text}")

    def stopping(self, text: str) -> None:
        """The device ends."""
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
                log.warning("%s=%s takes no notice: %s", ENVIRONMENT_VARIABLE, self._address, error)
