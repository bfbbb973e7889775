"""Devices that ranks reach by RDMA, as FANIN_SOCKET names them."""

import re

ADDRESS = re.compile(r"(?:^|(?<=:))rdma://[^:]*(?::[^:]*)?")  # the rule of host/fanin/core/device/remote.c


def remote_addresses(sockets: str) -> list[str]:
    """Addresses with rdma:// in a list with ':' between."""
    return ADDRESS.findall(sockets)
