"""Numbers of queue pairs: the row in the low bits, an incarnation above.

A number comes back only after all incarnations, so that packets of an old queue pair do not reach a new one. The number
of collective traffic and the reserved ones are left out.
"""

from fanin_wire.fields import COLLECTIVE_QPN
from fanin_wire.rocev2 import QPN_BITS, RESERVED_QPNS


class QueuePairNumbers:
    """rows: of the table of queue pairs, a power of two. incarnation: where to begin; different after a restart."""

    def __init__(self, rows: int, incarnation: int = 1) -> None:
        self._rows = rows
        self._incarnations = (1 << QPN_BITS) // rows
        self._incarnation = incarnation

    def number_of(self, row: int) -> int:
        while True:
            self._incarnation = (self._incarnation + 1) % self._incarnations
            number = self._incarnation * self._rows + row
            if number != COLLECTIVE_QPN and number not in RESERVED_QPNS:
                return number
