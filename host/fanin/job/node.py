"""A node of a job."""

import msgspec


class JobNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node of the job: the IPv4 address of its NIC, and the ranks on it.

    switches: addresses of the offloading switches above it, lowest first. ring: nodes with the same number hang on a
    switch that does not offload; they form a ring, and its last node alone sends to the switches above.
    """

    address: str
    ranks: tuple[int, ...]
    switches: tuple[str, ...] = ()
    ring: int | None = None
