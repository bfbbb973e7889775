"""A program for the guest: opens a port, `python -m tests.rdma.port_over_rxe DEVICE ADDRESS`, and prints "open" or the
error. With a further "little", this process may lock little memory."""

import contextlib
import ctypes
import resource
import sys

from fanin_nic.port.port import PortError
from fanin_nic.port.verbs.port import VerbsPort

LITTLE = 1 << 20  # bytes
CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h


def lock_little() -> None:
    """Give up root's right to lock any memory, and lower the limit."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (LITTLE, LITTLE))
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) != 0:  # none of them
        raise OSError(ctypes.get_errno(), "capset")


def main() -> None:
    device, address, *limited = sys.argv[1:]
    if limited:
        lock_little()
    try:
        with contextlib.closing(VerbsPort(device, address, mtu=9000)):
            print("open")
    except PortError as error:
        print(error)


if __name__ == "__main__":
    main()
