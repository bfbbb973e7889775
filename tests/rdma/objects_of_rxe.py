"""A rank, for the guest: a collective in memory of pyverbs on a real device, and the refusal of CollectiveQP."""

import ctypes

import numpy as np
from pyverbs import enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD

import fanin
from fanin import errors
from fanin.verbs import CollectiveQP

COUNT = 5000


def main() -> None:
    with fanin.Communicator() as communicator, Context(name="rxe1") as context:
        pd, cq = PD(context), CQ(context, 4)
        mr = MR(pd, 2 * COUNT * 8, e.IBV_ACCESS_LOCAL_WRITE)
        memory = (ctypes.c_int64 * (2 * COUNT)).from_address(mr.buf)
        given, result = np.frombuffer(memory, np.int64).reshape(2, COUNT)
        given[:] = np.arange(COUNT) * (communicator.rank + 1)
        communicator.allreduce(given, op="sum", out=result)
        assert (result == np.arange(COUNT) * sum(range(communicator.size + 1))).all()
        try:
            CollectiveQP(pd, cq)
        except errors.NotSupported as error:
            print(error)


if __name__ == "__main__":
    main()
