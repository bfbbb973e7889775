"""The headers of an ordinary packet as a native record, with a member for each field."""

import numpy as np

from fanin_wire.fields import AETH, ATOMICACKETH, ATOMICETH, BTH, DETH, IETH, IMMDT, RETH

# In the order on the wire (section 9.3)
EXTENDED_HEADERS = (DETH, RETH, ATOMICETH, AETH, ATOMICACKETH, IMMDT, IETH)
_WIDTHS = {8: "u1", 16: "u2", 32: "u4", 64: "u8"}


def _members() -> dict[str, str]:
    """Type of each member. Equal names of fields are one member, as a packet has only one of them."""
    fields = {field.name: field.bits for header in (BTH, *EXTENDED_HEADERS) for field in header.fields}
    return {name: _WIDTHS[min(width for width in _WIDTHS if width >= bits)] for name, bits in fields.items()}


PACKET = np.dtype([*_members().items()], align=True)
