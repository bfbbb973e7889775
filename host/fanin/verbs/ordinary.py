"""QP and SendWR: ordinary RDMA traffic beside the offload, which the device does not carry yet."""

from __future__ import annotations

from typing import NoReturn

from fanin.errors import NotSupported


def _refuse(name: str) -> NoReturn:
    raise NotSupported(
        f"{name}: ordinary RDMA traffic (SEND, WRITE, READ) does not pass through this device yet",
        remedy="Use CollectiveQP and CollectiveWR for collectives, and an RDMA device's own verbs for the rest.",
    )


class QP:
    """Queue pair for ordinary traffic: raises NotSupported."""

    def __init__(self, *_arguments: object, **_options: object) -> None:
        _refuse("QP")


class SendWR:
    """Work request for ordinary traffic: raises NotSupported."""

    def __init__(self, *_arguments: object, **_options: object) -> None:
        _refuse("SendWR")
