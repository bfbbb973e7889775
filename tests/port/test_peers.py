"""The table of other devices: who is entered, and who is only looked up."""

import numpy as np

from fanin_nic.port.descriptors import PEER, PEER_SLOTS
from fanin_nic.port.tables import find_peer, known_peer

KNOWN, STRANGER = 0x0A00_0001, 0x0A00_0002


def test_who_is_only_looked_for_takes_no_row() -> None:
    peers = np.zeros(PEER_SLOTS + 1, PEER)
    table = np.uint64(peers.ctypes.data)
    row = find_peer(table, np.uint32(KNOWN))
    assert known_peer(table, np.uint32(KNOWN)) == row
    assert known_peer(table, np.uint32(STRANGER)) == 0
    assert set(peers["address"]) == {0, KNOWN}
    assert find_peer(table, np.uint32(STRANGER)) == known_peer(table, np.uint32(STRANGER)) != row


def test_full_table() -> None:
    """The last row is for all devices without a row; it identifies none."""
    peers = np.zeros(PEER_SLOTS + 1, PEER)
    table = np.uint64(peers.ctypes.data)
    peers["address"][:PEER_SLOTS] = KNOWN + 1 + np.arange(PEER_SLOTS, dtype=np.uint32)
    assert find_peer(table, np.uint32(KNOWN)) == table + np.uint64(PEER_SLOTS * PEER.itemsize)
    assert known_peer(table, np.uint32(KNOWN)) == 0
