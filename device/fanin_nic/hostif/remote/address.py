"""Where a device serves clients over RDMA, as in its settings: rdma://DEVICE@ADDRESS:PORT."""

from typing import NamedTuple

from fanin_wire.settings import RDMA_PREFIX


class HostAddress(NamedTuple):
    """A verbs device, and the TCP address at which clients ask for its queue pair."""

    device: str
    address: str
    port: int


def parse(text: str) -> HostAddress:
    """The address in a checked setting."""
    device, _, place = text.removeprefix(RDMA_PREFIX).partition("@")
    address, _, port = place.partition(":")
    return HostAddress(device, address, int(port))
