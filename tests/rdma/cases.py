"""The tried cases: a sample by default, all with FANIN_TEST_RDMA=all (`make rdma`)."""

import os

import pytest

from fanin_wire.verbs import RequestOpcode

from .wire import Faults

ALL = os.environ.get("FANIN_TEST_RDMA") == "all"
WAYS = ("fanin to rxe", "rxe to fanin")
SENDS = (RequestOpcode.SEND, RequestOpcode.SEND_WITH_IMM)
WRITES = (RequestOpcode.RDMA_WRITE, RequestOpcode.RDMA_WRITE_WITH_IMM)
ATOMICS = (RequestOpcode.ATOMIC_CMP_AND_SWP, RequestOpcode.ATOMIC_FETCH_AND_ADD)
RECEIVED = (*SENDS, RequestOpcode.RDMA_WRITE_WITH_IMM)  # these take a request to receive
WITH_IMMEDIATE = (RequestOpcode.SEND_WITH_IMM, RequestOpcode.RDMA_WRITE_WITH_IMM)
FAULTS = {
    "none": Faults(),
    "loss": Faults(loss=0.02),
    "reordering": Faults(reordering=0.05),
    "repetition": Faults(repetition=0.05),
    "all": Faults(loss=0.02, reordering=0.02, repetition=0.02),
}
PATH_MTUS = (256, 1024, 4096)
SAMPLE = ((1024, "none"), (256, "all"))  # of path MTU and faults
EVERY = tuple((mtu, faults) for mtu in PATH_MTUS for faults in FAULTS)
paths = pytest.mark.parametrize(("mtu", "faults"), EVERY if ALL else SAMPLE)
ways = pytest.mark.parametrize("way", WAYS)
opcodes = pytest.mark.parametrize("opcode", [*SENDS, *WRITES, RequestOpcode.RDMA_READ], ids=lambda opcode: opcode.name)
