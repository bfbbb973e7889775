"""A rank of a job, which compares an allreduce with numpy.

FANIN_SOCKET=rdma://10.0.0.1:4792 FANIN_TOKEN_FILE=token FANIN_JOB=job.txt FANIN_RANK=0 FANIN_SIZE=4 python allreduce.py
"""

import sys

import numpy as np

import fanin

COUNT = 1_000_000

with fanin.Communicator() as communicator:
    rank, size = communicator.rank, communicator.size
    mine = communicator.alloc(COUNT, np.float32)
    mine[:] = np.arange(COUNT) % 1000 + rank  # small whole numbers: the same bits in every order of additions
    total = communicator.allreduce(mine)
    expected = (np.arange(COUNT) % 1000 * size + size * (size - 1) // 2).astype(np.float32)
    right = np.array_equal(total, expected)
    print(f"rank {rank} of {size}: {total.nbytes} bytes, {'verified' if right else 'WRONG'}")
sys.exit(not right)
