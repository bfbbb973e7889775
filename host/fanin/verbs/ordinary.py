"""QP and SendWR: ordinary RDMA traffic beside the offload, which the device does not carry yet."""

from __future__ import annotations

from fanin.errors import NotSupported


class _Ordinary:
    def __init__(self, *_arguments: object, **_options: object) -> None:
        raise NotSupported(
            f"{type(self).__name__}: ordinary RDMA traffic (SEND, WRITE, READ) does not pass through this device yet",
            remedy="Use CollectiveQP and CollectiveWR for collectives, and an RDMA device's own verbs for the rest.",
        )


class QP(_Ordinary):
    """Queue pair for ordinary traffic: raises NotSupported."""


class SendWR(_Ordinary):
    """Work request for ordinary traffic: raises NotSupported."""
