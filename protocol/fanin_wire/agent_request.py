"""What all requests to the agent of a device under test share: docs/conformance.md."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MAX_WAIT_S = 60.0

Number24 = Annotated[int, Meta(ge=0, lt=1 << 24)]
Number32 = Annotated[int, Meta(ge=0, lt=1 << 32)]
Number64 = Annotated[int, Meta(ge=0)]  # msgspec has no bound of 2^64
Seconds = Annotated[float, Meta(ge=0, le=MAX_WAIT_S)]
Queue = Annotated[int, Meta(ge=0, lt=1 << 16)]


class Request(msgspec.Struct, forbid_unknown_fields=True, tag_field="do", kw_only=True):
    """A request of the suite."""
