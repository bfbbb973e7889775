"""The token of clients over RDMA: 32 bytes, as 64 hexadecimal digits in a file. It replaces the kernel's credentials of
a UNIX socket's peer: who can read the file may use the device."""

import hmac
import os
import stat
from pathlib import Path

from fanin_wire import abi


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
