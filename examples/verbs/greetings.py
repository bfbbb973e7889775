"""pyverbs and collectives in one program.

    fanin run -n 4 --pyverbs -- env LD_PRELOAD=$(fanin verbs-lib) python examples/verbs/greetings.py

Each rank has a queue pair of pyverbs for datagrams. An allreduce, on the same protection domain, completion queue and
memory region, tells all ranks the numbers and addresses of these queue pairs. Then each rank sends a datagram to the
next one. --pyverbs adds pyverbs of the system (Debian: python3-pyverbs) to an environment that has fanin.
"""

import os
import struct

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from fanin.job import Job
from fanin.verbs import Address, CollectiveQP, CollectiveWR
from fanin_wire.abi import DType, Op

PART = 4096  # bytes of each part of the region: what is sent, results, what is received
KEY, HEADER = 0x1234, 40  # of datagrams; bytes before their data
SUMMED, SENT, RECEIVED = 1, 2, 3  # wr_id


def await_completion(cq, seen, wr_id):
    """Of a request; others, of either kind, may come before."""
    while wr_id not in seen:
        for wc in cq.poll(4)[1]:
            assert wc.status == e.IBV_WC_SUCCESS, wc.status
            seen[wc.wr_id] = wc
    return seen[wr_id]


def start_sum(collectives, mr, values):
    """Add numbers over all ranks, element by element."""
    length = 8 * len(values)
    mr.write(struct.pack(f"{len(values)}q", *values), length)
    wr = CollectiveWR(int(Op.SUM), int(DType.I64), length, [Address(mr.buf, mr.buf + PART)], wr_id=SUMMED)
    wr.source_lkey = wr.destination_lkey = mr.lkey
    collectives.post_send(wr)


def main():
    """Exchange the numbers, then greet."""
    job, rank = Job.from_environment(), int(os.environ["FANIN_RANK"])
    context = Context(name="fanin0")  # the NIC of this rank's node
    pd, cq, seen = PD(context), CQ(context, 100), {}
    mr = MR(pd, 3 * PART, e.IBV_ACCESS_LOCAL_WRITE)

    attr, cap = QPAttr(port_num=1), QPCap(max_send_wr=4, max_recv_wr=4)
    attr.qkey = KEY
    datagrams = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=cap), attr)  # in RTS
    datagrams.post_recv(RecvWR(wr_id=RECEIVED, num_sge=1, sg=[SGE(mr.buf + 2 * PART, PART, mr.lkey)]))

    with CollectiveQP(pd, cq) as collectives:
        collectives.join(job.membership(rank))
        mine = [0] * (2 * job.size)
        own_gid = context.query_gid(1, 0).gid
        mine[2 * rank : 2 * rank + 2] = datagrams.qp_num, int(own_gid.replace(":", "")[-8:], 16)
        start_sum(collectives, mr, mine)
        await_completion(cq, seen, SUMMED)
        collectives.leave()

    all_ranks = struct.unpack(f"{len(mine)}q", mr.read(8 * len(mine), PART))
    number, address = all_ranks[2 * ((rank + 1) % job.size) :][:2]
    gid = GID(f"0000:0000:0000:0000:0000:ffff:{address >> 16:04x}:{address & 0xFFFF:04x}")
    path = AH(pd, attr=AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=0), is_global=1, port_num=1))
    text = f"greetings from rank {rank}".encode()
    mr.write(text, len(text))
    greeting = SendWR(wr_id=SENT, num_sge=1, sg=[SGE(mr.buf, len(text), mr.lkey)])
    greeting.set_wr_ud(path, number, KEY)
    datagrams.post_send(greeting)
    await_completion(cq, seen, SENT)
    length = await_completion(cq, seen, RECEIVED).byte_len - HEADER
    print(f"rank {rank}: {mr.read(length, 2 * PART + HEADER).decode()}")
    path.close()
    context.close()


main()
