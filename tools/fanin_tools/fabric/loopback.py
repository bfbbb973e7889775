"""Free loopback addresses, different for commands that choose at the same time.

A command reserves a block of addresses: until its devices have bound their own, it binds UDP port 4791 at the block's
first address, which no device uses. The kernel gives a port to one process only, across all users, and frees it if the
process crashes.
"""

import contextlib
import socket
from collections.abc import Iterator

from fanin_tools.errors import ToolError
from fanin_tools.fabric.description import Fabric
from fanin_tools.fabric.generate import Plan
from fanin_wire.fields import UDP_PORT

FIRST_BLOCK = 77


@contextlib.contextmanager
def reserved(plan: Plan) -> Iterator[Fabric]:
    """`plan` with the first free addresses of 127.77.0.0/16, reserved for the time of the block. Raises ToolError
    NO_RESOURCES if none are free."""
    for third in range(256):
        fabric = plan.at(f"127.{FIRST_BLOCK}.{third}")
        with contextlib.ExitStack() as held:
            if _reserve(fabric, held):
                yield fabric
                return
    raise ToolError(
        "NO_RESOURCES",
        f"UDP port {UDP_PORT} is taken on all of 127.{FIRST_BLOCK}.0.0/16",
        "take other fabrics down (fanin fabric status) or give addresses in a description file",
    )


def _reserve(fabric: Fabric, held: contextlib.ExitStack) -> bool:
    """Until `held` is closed. False if a block or an address is in use."""
    addresses = [device.address for device in fabric.daemons]
    blocks = dict.fromkeys(address.rpartition(".")[0] for address in addresses)
    if not all(bind(f"{block}.0", held) for block in blocks):
        return False
    with contextlib.ExitStack() as tried:
        return all(bind(address, tried) for address in addresses)


def bind(address: str, stack: contextlib.ExitStack) -> bool:
    """Bind the RoCEv2 port of an address until `stack` is closed. False if it is in use."""
    port = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    try:
        port.bind((address, UDP_PORT))
    except OSError:
        return False
    return True
