"""Verdicts on the expected request, and the acknowledgement that each of them means (sections 9.7.5.2 and 9.9)."""

from __future__ import annotations

import enum

import numpy as np
from numba import int64

from fanin_nic.native.compiled import internal
from fanin_nic.transport.records.accessors import count
from fanin_nic.transport.records.tables import Counter
from fanin_wire.rocev2 import ACKNOWLEDGE_SHIFT, Acknowledge, Nak, syndrome


class Verdict(enum.IntEnum):
    """What becomes of the expected request."""

    ACCEPTED = 0
    NOT_READY = 1  # no receive request: RNR NAK
    INVALID = 2  # NAK invalid request
    ACCESS = 3  # NAK remote access error
    OPERATION = 4  # NAK remote operational error


ACCEPTED, NOT_READY, INVALID = int(Verdict.ACCEPTED), int(Verdict.NOT_READY), int(Verdict.INVALID)
ACCESS, OPERATION = int(Verdict.ACCESS), int(Verdict.OPERATION)
NAKS = np.zeros(len(Verdict), np.uint8)
NAKS[INVALID] = syndrome(Acknowledge.NAK, Nak.INVALID_REQUEST)
NAKS[ACCESS] = syndrome(Acknowledge.NAK, Nak.REMOTE_ACCESS)
NAKS[OPERATION] = syndrome(Acknowledge.NAK, Nak.REMOTE_OPERATIONAL)
RNR = int(Acknowledge.RNR_NAK) << ACKNOWLEDGE_SHIFT
REFUSED_INVALID, REFUSED_ACCESS = int(Counter.REFUSED_INVALID), int(Counter.REFUSED_ACCESS)
REFUSED_OPERATION = int(Counter.REFUSED_OPERATION)


@internal
def rnr_syndrome(q):
    """Syndrome of an RNR NAK, with the time that the queue pair asks for."""
    return RNR | int64(q.rnr_timer)


@internal
def refuse_invalid(t):
    """Count a request that is refused as invalid. Returns the verdict."""
    count(t, REFUSED_INVALID)
    return INVALID


@internal
def refuse_access(t):
    """Count a request that is refused because its memory may not be accessed. Returns the verdict."""
    count(t, REFUSED_ACCESS)
    return ACCESS


@internal
def refuse_operation(t):
    """Count a request that this side can not carry out by a fault of its own. Returns the verdict."""
    count(t, REFUSED_OPERATION)
    return OPERATION
