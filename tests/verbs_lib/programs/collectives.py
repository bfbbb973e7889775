"""Collectives on objects of pyverbs, beside pyverbs' own traffic: the four ranks of a job, on fanin0 and fanin1.

Runs in an interpreter that has pyverbs and fanin. $FANIN_JOB: the job. Prints "right".
"""

import errno
import os
import struct

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from fanin import errors
from fanin.job import Job
from fanin.verbs import Address, CollectiveQP, CollectiveWR
from fanin_wire.abi import DType, Op, Status

RANKS, COUNT, SECONDS = 4, 3000, 120.0
BYTES = COUNT * 8
COLLECTIVE, QUERY = 135, 136  # IBV_WC_DRIVER1 and 2
TIMEOUT_ERR = 20  # IBV_WC_RESP_TIMEOUT_ERR
SUM, I64 = int(Op.SUM), int(DType.I64)


class Rank:
    """One rank of the job: all its objects are pyverbs', except its queue pair of collectives."""

    def __init__(self, number, context):
        self.number, self.context = number, context
        self.pd, self.channel = PD(context), CompChannel(context)
        self.cq = CQ(context, 100, None, self.channel, 0)
        self.mr = MR(self.pd, 2 * BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
        self.unwritable = MR(self.pd, BYTES, e.IBV_ACCESS_REMOTE_READ)
        self.qp = CollectiveQP(self.pd, self.cq)

    def write(self, values):
        self.mr.write(struct.pack(f"{COUNT}q", *values), BYTES)

    def result(self):
        return struct.unpack(f"{COUNT}q", self.mr.read(BYTES, BYTES))

    def request(self, wr_id, **members):
        """Sum the first half of the region into the second."""
        given = {"source_lkey": self.mr.lkey, "destination_lkey": self.mr.lkey} | members
        places = [Address(self.mr.buf, self.mr.buf + BYTES)]
        return CollectiveWR(SUM, I64, BYTES, given.pop("address_list", places), wr_id=wr_id, **given)

    def next(self):
        """The next completion, announced by the channel."""
        count, found = self.cq.poll()
        while not count:
            self.cq.req_notify()
            count, found = self.cq.poll()  # it may have come before that
            if not count:
                self.channel.get_cq_event(self.cq)
                self.cq.ack_events(1)
                count, found = self.cq.poll()
        return found[0]


class OfTheKernel:
    """An object of pyverbs on a device of libibverbs: its handle is small."""

    __module__ = "pyverbs.pd"

    def __init__(self, handle):
        self.handle = handle


def refuses(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def sums(ranks):
    """An allreduce of all ranks, with data and results in regions of pyverbs."""
    for rank in ranks:
        rank.write(range(rank.number, rank.number + COUNT))
    for rank in ranks:
        rank.qp.post_send(rank.request(wr_id=70 + rank.number))
    for rank in ranks:
        wc = rank.next()
        assert (wc.wr_id, wc.status, wc.opcode) == (70 + rank.number, e.IBV_WC_SUCCESS, COLLECTIVE), wc.status
        assert (wc.byte_len, wc.qp_num) == (BYTES, rank.qp.qp_num)
        assert rank.result() == tuple(range(6, 6 + RANKS * COUNT, RANKS))
        last = rank.qp.last_completion()
        assert (last.wr_id, last.status, last.byte_len) == (70 + rank.number, Status.SUCCESS, BYTES)


def connected(rank, other):
    """Queue pairs of pyverbs in the same protection domains, with the same completion queues."""
    ends = [rank, other]
    cap = QPCap(max_send_wr=4, max_recv_wr=4)
    qps = [QP(one.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=one.cq, rcq=one.cq, cap=cap), QPAttr()) for one in ends]
    for qp, mate, far in zip(qps, reversed(qps), reversed(ends), strict=True):
        attr = QPAttr(port_num=1)
        attr.dest_qp_num = mate.qp_num
        attr.path_mtu = e.IBV_MTU_1024
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        route = GlobalRoute(dgid=far.context.query_gid(1, 0), sgid_index=0)
        attr.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        qp.to_rts(attr)
    return qps


def messages(ranks):
    """A SEND of pyverbs beside an allreduce: completions of both kinds are in one queue."""
    first, last = ranks[0], ranks[-1]
    sender, receiver = connected(first, last)
    text = b"beside the collectives"
    first.mr.write(text, len(text))
    receiver.post_recv(RecvWR(wr_id=5, num_sge=1, sg=[SGE(last.mr.buf, BYTES, last.mr.lkey)]))
    sender.post_send(SendWR(wr_id=6, num_sge=1, sg=[SGE(first.mr.buf, len(text), first.mr.lkey)]))
    sent, received = first.next(), last.next()
    assert (sent.wr_id, sent.status, sent.opcode) == (6, e.IBV_WC_SUCCESS, e.IBV_WC_SEND)
    assert (received.wr_id, received.opcode, received.byte_len) == (5, e.IBV_WC_RECV, len(text))
    assert last.mr.read(len(text), 0) == text

    receiver.post_recv(RecvWR(wr_id=7, num_sge=1, sg=[SGE(last.mr.buf, 0, last.mr.lkey)]))
    sender.post_send(SendWR(wr_id=8, num_sge=1, sg=[SGE(first.mr.buf, 0, first.mr.lkey)]))
    for rank in ranks:
        rank.qp.post_send(rank.request(wr_id=9))
    for rank, ids in ((first, [8, 9]), (last, [7, 9])):
        assert sorted(rank.next().wr_id for _ in range(2)) == ids
    for rank in ranks[1:-1]:
        assert rank.next().wr_id == 9
    sender.close()
    receiver.close()


def refusals(ranks):
    """Memory outside a region, or without the right, is refused by name before it is posted."""
    rank = ranks[0]
    before = rank.qp.position
    outside = [Address(rank.mr.buf + 8, rank.mr.buf + BYTES + 8)]
    refuses(errors.LocalProtectionError, rank.qp.post_send, rank.request(1, address_list=outside))
    refuses(errors.LocalProtectionError, rank.qp.post_send, rank.request(1, source_lkey=rank.mr.lkey ^ 1))
    into = {"address_list": [Address(rank.mr.buf, rank.unwritable.buf)], "destination_lkey": rank.unwritable.lkey}
    refuses(errors.LocalProtectionError, rank.qp.post_send, rank.request(1, **into))
    assert rank.qp.position == before
    refuses(errors.InvalidRequest, CollectiveQP, rank.pd, ranks[-1].cq)  # of another context
    refuses(errors.InvalidRequest, CollectiveQP, rank.pd, 5)
    without = type("CQ", (), {"__module__": "pyverbs.cq"})()  # of a version that does not show the handle
    assert "Handle" in refuses(errors.NotSupported, CollectiveQP, rank.pd, without).remedy
    for first in range(3 * len(ranks)):
        refuses(errors.InvalidRequest, CollectiveQP, OfTheKernel(first), OfTheKernel(first + 1))
    assert refuses(PyverbsRDMAError, rank.cq.close).error_code == errno.EBUSY


def late(ranks):
    """A rank that does not take part in time is named."""
    rank = ranks[0]
    rank.qp.post_send(rank.request(wr_id=11, deadline_ms=300))
    wc = rank.next()
    assert (wc.wr_id, wc.status, wc.opcode) == (11, TIMEOUT_ERR, COLLECTIVE), (wc.status, wc.opcode)
    assert wc.vendor_err == Status.TIMEOUT
    assert rank.qp.last_completion().missing_members() == [1]


def child_gives_back(ranks):
    """A forked child has nothing of the devices, and its end does not affect the parent."""
    pid = os.fork()
    if pid == 0:
        refuses(errors.InvalidRequest, ranks[0].qp.post_send, ranks[0].request(1))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    sums(ranks)


def main():
    job = Job.from_environment()
    contexts = [Context(name=name) for name in ("fanin0", "fanin1")]
    ranks = [Rank(number, contexts[number // (RANKS // 2)]) for number in range(RANKS)]
    for rank in ranks:
        rank.qp.start_join(job.membership(rank.number))
    for rank in ranks:
        rank.qp.finish_join(SECONDS)
    sums(ranks)
    messages(ranks)
    refusals(ranks)
    child_gives_back(ranks)
    late(ranks)
    for rank in ranks:
        rank.qp.close()
    for context in contexts:
        context.close()
    print("right")


main()
