"""Verdicts on the expected request, and the acknowledgement for each (sections 9.7.5.2 and 9.9)."""

import enum

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.records.tables import Counter
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, Acknowledge, Nak, syndrome


class Verdict(enum.IntEnum):
    """What becomes of the expected request."""

    ACCEPTED = 0
    NOT_READY = 1  # no receive request: RNR NAK
    INVALID = 2  # NAK invalid request
    ACCESS = 3  # NAK remote access error
    OPERATION = 4  # NAK remote operational error


NAKS = np.zeros(len(Verdict), np.uint8)
NAKS[Verdict.INVALID] = syndrome(Acknowledge.NAK, Nak.INVALID_REQUEST)
NAKS[Verdict.ACCESS] = syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS)
NAKS[Verdict.OPERATION] = syndrome(Acknowledge.NAK, Nak.REMOTE_OPERATIONAL)
RNR = int(Acknowledge.RNR_NAK) << ACKNOWLEDGE_SHIFT
REFUSALS = np.zeros(len(Verdict), np.uint8)  # of a refused request
REFUSALS[Verdict.INVALID] = Counter.REFUSED_INVALID
REFUSALS[Verdict.ACCESS] = Counter.REFUSED_ACCESS
REFUSALS[Verdict.OPERATION] = Counter.REFUSED_OPERATION


@internal
def rnr_syndrome(q):
    """Syndrome of an RNR NAK with the queue pair's time."""
    return RNR | int64(q.rnr_timer)
