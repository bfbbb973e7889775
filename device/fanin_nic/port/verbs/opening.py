"""Opening a verbs device, and what its calls return."""

import ctypes
import ipaddress
import os
from ctypes import byref
from typing import Any

from fanin_nic.port.verbs.library import last_error, library

MAPPED = b"\0" * 10 + b"\xff" * 2  # an IPv4 address as GID


class VerbsFailed(Exception):
    """A verbs device can not serve: cause, then remedy."""


def gid_of(address: str) -> bytes:
    """The GID of an IPv4 address."""
    return MAPPED + ipaddress.IPv4Address(address).packed


def checked(result: Any, what: str, remedy: str = "see the cause") -> Any:
    """A pointer returned by a call. VerbsFailed if it is null."""
    if not result:
        raise VerbsFailed(f"cannot {what}: {last_error()}; {remedy}")
    return result


def zero(error: int, what: str, remedy: str = "see the cause") -> None:
    """VerbsFailed if a call has returned an error."""
    if error:
        raise VerbsFailed(f"cannot {what}: {os.strerror(abs(error))}; {remedy}")


def open_device(name: str, user: str) -> int:
    """The context of a device for `user`, who is named in errors."""
    try:
        devices = library()
    except OSError as error:
        remedy = "install libibverbs (Debian: libibverbs1 and ibverbs-providers)"
        raise VerbsFailed(f"{user} needs libibverbs: {error}; {remedy}") from error
    except AttributeError as error:
        remedy = "use that of rdma-core 32 or later"
        raise VerbsFailed(f"libibverbs is too old for {user}: {error}; {remedy}") from error
    names, count = [], ctypes.c_int()
    found = devices.ibv_get_device_list(byref(count))
    for index in range(count.value if found else 0):
        names.append(devices.ibv_get_device_name(found[index]).decode())
        if names[-1] == name:
            context = devices.ibv_open_device(found[index])
            cause = last_error()
            devices.ibv_free_device_list(found)
            if not context:
                remedy = "give this user the right to /dev/infiniband"
                raise VerbsFailed(f"cannot open verbs device {name}: {cause}; {remedy}")
            return int(context)
    if found:
        devices.ibv_free_device_list(found)
    remedy = f"use one of {', '.join(names)}" if names else "load the driver of an RDMA device (rdma link lists them)"
    raise VerbsFailed(f"no verbs device is called {name}; {remedy}")
