"""What a device needs for clients over RDMA: a verbs device, a TCP socket, a token."""

from contextlib import ExitStack

import numpy as np

from fanin_nic.hostif.engine_port import Refused
from fanin_nic.hostif.remote import address
from fanin_nic.hostif.remote.endpoint import VerbsDevice
from fanin_nic.hostif.remote.stream import AddressInUse, TcpListener
from fanin_nic.hostif.remote.token import BadToken, is_token, read_token
from fanin_nic.port.verbs.opening import VerbsFailed
from fanin_wire import abi
from fanin_wire.abi import Status


class RemoteFailed(Exception):
    """Clients over RDMA can not be served: cause, then remedy."""


class RemoteService:
    """Serves clients at `place` (settings.rdma). Raises RemoteFailed."""

    def __init__(self, place: str, token_file: str, detection: float) -> None:
        where = address.parse(place)
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
            raise Refused(Status["VERSION_MISMATCH"], f"a client over RDMA of version {request['version']}")
        if not is_token(self._token, request["token"].tobytes()):
            raise Refused(Status["PERMISSION_DENIED"], "a client over RDMA with a wrong token")

    def close(self) -> None:
        self._resources.close()
