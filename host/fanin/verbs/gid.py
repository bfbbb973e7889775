"""GIDs and addresses: how verbs programs name the other side. Here that is an IPv4 address, as in RoCE v2."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from fanin.errors import InvalidRequest, NotSupported

MAPPED = 0xFFFF << 32  # bits above the IPv4 address in a mapped IPv6 address


class GID:
    """The address of a port, written as IPv6. RoCE v2 over IPv4 maps the address: ::ffff:10.0.0.1."""

    def __init__(self, val: str = "::") -> None:
        try:
            self._address = ipaddress.ip_address(val)
        except ValueError:
            raise InvalidRequest(f"{val!r} is not a GID", remedy="Give an address as ::ffff:10.0.0.1.") from None

    @classmethod
    def of_ipv4(cls, address: int) -> GID:
        """The GID of an IPv4 address in host order."""
        return cls(str(ipaddress.IPv6Address(MAPPED | address)))

    @property
    def gid(self) -> str:
        """Eight groups of four digits."""
        return self._ipv6().exploded

    @property
    def ipv4(self) -> int:
        """In host order. NotSupported if it maps no IPv4 address."""
        mapped = self._ipv6().ipv4_mapped
        if mapped is None:
            raise NotSupported(f"GID {self.gid} is not an IPv4 address", remedy="Use the IPv4 address of the device.")
        return int(mapped)

    def _ipv6(self) -> ipaddress.IPv6Address:
        if isinstance(self._address, ipaddress.IPv4Address):
            return ipaddress.IPv6Address(MAPPED | int(self._address))
        return self._address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GID) and self.gid == other.gid

    def __hash__(self) -> int:
        return hash(self.gid)

    def __str__(self) -> str:
        return self.gid


@dataclass
class GlobalRoute:
    """The way to a GID. The device uses `dgid` only."""

    dgid: GID = field(default_factory=GID)
    flow_label: int = 0
    sgid_index: int = 0
    hop_limit: int = 1
    traffic_class: int = 0


@dataclass
class AHAttr:
    """The other side of a connection, or of an AH. The device uses the GID of `gr` only."""

    gr: GlobalRoute | None = None
    dlid: int = 0
    sl: int = 0
    src_path_bits: int = 0
    static_rate: int = 0
    is_global: int = 1
    port_num: int = 1

    @property
    def ipv4(self) -> int:
        if self.gr is None:
            raise InvalidRequest("the address has no global route", remedy="Give AHAttr a GlobalRoute with the GID.")
        return self.gr.dgid.ipv4
