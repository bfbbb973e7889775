"""What a device needs to serve clients over RDMA: a verbs device, a TCP socket, a token.

The token is 32 bytes, as 64 hexadecimal digits in a file. It replaces the kernel's credentials of a UNIX socket's peer:
who can read the file may use the device.
"""

import hmac
import os
import stat
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fanin_nic.hostif.ports import Refused
from fanin_nic.hostif.remote.endpoint import VerbsDevice
from fanin_nic.hostif.remote.tcp import AddressInUse, TcpListener, parse_address
from fanin_nic.port.verbs.interface import VerbsFailed
from fanin_wire import abi
from fanin_wire.abi import Status


class RemoteService:
    """Serves clients at `place` (settings.rdma). Raises RemoteFailed."""

    def __init__(self, place: str, token_file: str, detection: float) -> None:
        where = parse_address(place)
        if not token_file:
            raise RemoteFailed(f"{place} without a token file; name one with --token-file")
        try:
            with ExitStack() as undo:
                self._token = read_token(token_file)
                self.device = VerbsDevice(where.device, where.address)
                undo.callback(self.device.close)
                self.listener = TcpListener(where, detection)
                undo.callback(self.listener.close)
                self._resources = undo.pop_all()
        except (BadToken, VerbsFailed, AddressInUse) as error:
            raise RemoteFailed(str(error)) from error

    def check(self, request: np.void) -> None:
        """Refuse a record of abi.ATTACH_RDMA of another version or without the token."""
        if request["version"] != abi.RDMA_VERSION:
            raise Refused(Status.VERSION_MISMATCH, f"a client over RDMA of version {request['version']}")
        if not is_token(self._token, request["token"].tobytes()):
            raise Refused(Status.PERMISSION_DENIED, "a client over RDMA with a wrong token")

    def close(self) -> None:
        self._resources.close()


class RemoteFailed(Exception):
    """Clients over RDMA can not be served: cause, then remedy."""


class BadToken(Exception):
    """The token file is unusable: cause, then remedy."""


def read_token(path: str) -> bytes:
    """The token in a file that only its owner can read or write. Raises BadToken."""
    remedy = "make one with: (umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n' > FILE)"
    try:
        with open(path, encoding="ascii") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read(4096).strip()
        token = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise BadToken(f"the token file {path} can not be read: {error}; {remedy}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise BadToken(f"others may read or write the token file {path}; chmod 600 {Path(path).name}")
    if len(token) != abi.TOKEN_BYTES:
        raise BadToken(f"the token in {path} has {len(token)} bytes, not {abi.TOKEN_BYTES}; {remedy}")
    return token


def is_token(token: bytes, given: bytes) -> bool:
    """Whether a client gave the token, in constant time."""
    return hmac.compare_digest(token, given)
