"""The opcodes of ordinary traffic, judged by scapy's list, by the golden packets and by the specification."""

import pytest
from scapy.contrib import roce

from fanin_wire.fields import AETH, DETH, FIRST_OFFLOAD_OPCODE, IMMDT, RETH
from fanin_wire.golden import vectors
from fanin_wire.rocev2 import (
    CODES,
    MAX_HEADERS,
    OPCODES,
    RNR_TIMES_NS,
    Acknowledge,
    Nak,
    Operation,
    Part,
    Transport,
    syndrome,
)

SCAPY = {code: name for code, name in roce.BTH.fields_desc[0].i2s.items() if name[:2] in Transport.__members__}
# scapy lacks the sends with invalidate of RC. It lists operations for UC that UC can not do, and for UD packets of
# longer messages.
UNKNOWN_TO_SCAPY = {"RC_SEND_LAST_WITH_INVALIDATE", "RC_SEND_ONLY_WITH_INVALIDATE"}
ORDINARY = [golden for golden in vectors() if golden.file == "rocev2"]


def test_names_are_those_of_scapy():
    assert {row.name for row in OPCODES.values()} - set(SCAPY.values()) == UNKNOWN_TO_SCAPY
    assert {code: row.name for code, row in OPCODES.items() if code in SCAPY} == {
        code: name for code, name in SCAPY.items() if code in OPCODES
    }
    assert set(SCAPY) - set(OPCODES) == set()


def test_codes_and_names_are_unique():
    assert len(CODES) == len(OPCODES)
    assert all(row.code == code for code, row in OPCODES.items())


def test_no_opcode_is_one_of_the_offload():
    assert max(OPCODES) < FIRST_OFFLOAD_OPCODE


@pytest.mark.parametrize("golden", ORDINARY, ids=lambda golden: golden.name)
def test_headers_are_those_of_the_golden_packets(golden):
    row = OPCODES[golden.value("BTH", "opcode")]
    assert [name for name in golden.headers if name not in ("IP", "UDP", "BTH")] == [h.name for h in row.headers]


@pytest.mark.parametrize("row", OPCODES.values(), ids=lambda row: row.name)
def test_headers_follow_from_the_name(row):
    assert (IMMDT in row.headers) == row.name.endswith("WITH_IMMEDIATE")
    assert (DETH in row.headers) == (row.transport == Transport.UD)
    begins = row.part in (Part.FIRST, Part.ONLY)
    assert (RETH in row.headers) == (row.operation in (Operation.WRITE, Operation.READ_REQUEST) and begins)
    answers = row.operation in (Operation.ACKNOWLEDGE, Operation.ATOMIC_ACKNOWLEDGE, Operation.READ_RESPONSE)
    assert (AETH in row.headers) == (answers and row.part != Part.MIDDLE)


def test_longest_headers():
    assert MAX_HEADERS == 28  # AtomicETH


def test_syndromes_of_the_golden_packets():
    found = {golden.name: golden.value("AETH", "syndrome") for golden in ORDINARY if "AETH" in golden.headers}
    assert found["rc_nak_sequence"] == syndrome(Acknowledge.NAK, Nak.SEQUENCE)
    assert found["rc_rnr_nak"] == syndrome(Acknowledge.RNR_NAK, RNR_TIMES_NS.index(640_000))
    assert found["rc_acknowledge"] == syndrome(Acknowledge.ACK, 31)


def test_times_of_an_rnr_nak_grow():
    assert len(RNR_TIMES_NS) == 32
    assert list(RNR_TIMES_NS[1:]) == sorted(RNR_TIMES_NS[1:])
    assert max(RNR_TIMES_NS) == RNR_TIMES_NS[0] == 655_360_000
