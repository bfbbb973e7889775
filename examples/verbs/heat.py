"""Heat on a plate: pyverbs carries the edges between neighbours, collectives find when it is over.

    fanin run -n 4 --pyverbs -- env LD_PRELOAD=$(fanin verbs-lib) python examples/verbs/heat.py  # on software NICs
    fanin run -n 4 --pyverbs --name rdma -- python examples/verbs/heat.py               # on real devices: docs/verbs.md

Each rank has some rows of the plate, and a queue pair of pyverbs for the rank above it and for the one below. In each
step it writes its first and last row into their memory, while an allreduce finds the largest change of the step before.
Both kinds of traffic use the same memory: `Communicator.alloc` gives it to Fanin's device, and pyverbs' MR to the verbs
device. --pyverbs adds pyverbs of the system (Debian: python3-pyverbs) to an environment that has fanin.
"""

import hashlib
import ipaddress
import random
from collections import Counter

import numpy as np
import pyverbs.enums as e
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

import fanin
from fanin.job import Job

ROWS, COLUMNS = 8, 256  # of a rank
ENOUGH, MAX_STEPS = 10.0, 200  # ends when no point changes by more, or after so many steps
ABOVE, BELOW = 0, 1
SENT, RECEIVED = 0, 2  # wr_id, plus the side
HALOS = 2  # for the rows of even and odd steps: a neighbour may be a step ahead
RIGHTS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE


def open_device(address):
    """With the address of this node's NIC, and the index of its GID."""
    wanted = ipaddress.IPv6Address(f"::ffff:{address}")
    for device in get_device_list():
        context = Context(name=device.name.decode())
        for entry in context.query_gid_table(256):
            if entry.gid_type == e.IBV_GID_TYPE_ROCE_V2 and ipaddress.IPv6Address(entry.gid_str()) == wanted:
                return context, entry.gid_index
        context.close()
    raise SystemExit(f"no verbs device has {address}, the address of this rank's NIC")


class Edges:
    """The connections with the ranks above and below, and the memory that they write."""

    def __init__(self, communicator, address):
        self.context, self.gid_index = open_device(address)
        self.pd, self.channel = PD(self.context), CompChannel(self.context)
        self.cq = CQ(self.context, 64, None, self.channel, 0)
        self.seen = Counter()  # completions by wr_id

        # One allocation, for both devices: the rows of the plate, then those that the neighbours write.
        self.memory = communicator.alloc((ROWS + 2 * HALOS, COLUMNS), np.float64)
        self.rows = self.memory[:ROWS]
        self.halos = self.memory[ROWS:].reshape(HALOS, 2, COLUMNS)
        self.mr = MR(self.pd, self.memory.nbytes, RIGHTS, address=self.memory.ctypes.data)

        cap = QPCap(max_send_wr=8, max_recv_wr=8)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)
        self.qps = [QP(self.pd, init) for _ in (ABOVE, BELOW)]
        self.connect(communicator, address)

    def connect(self, communicator, address):
        """Tell all ranks by an allgather what their neighbours need, and connect."""
        psns = [random.getrandbits(24) for _ in self.qps]
        mine = [qp.qp_num for qp in self.qps] + psns
        mine += [self.mr.rkey, self.halos.ctypes.data, int(ipaddress.IPv4Address(address))]
        everyone = communicator.allgather(np.array(mine, np.int64))
        everyone = everyone.reshape(communicator.size, len(mine)).tolist()
        self.targets = []
        for side, step in ((ABOVE, -1), (BELOW, 1)):
            *of_qps, rkey, halos, number = everyone[(communicator.rank + step) % communicator.size]
            attr = QPAttr(port_num=1, path_mtu=e.IBV_MTU_1024)
            attr.qp_access_flags, attr.ah_attr = RIGHTS, self.path(ipaddress.IPv4Address(number))
            attr.dest_qp_num, attr.rq_psn, attr.sq_psn = of_qps[1 - side], of_qps[2 + 1 - side], psns[side]
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 12, 7, 7
            self.qps[side].to_init(attr)
            for _ in range(HALOS):
                self.expect(side)
            self.qps[side].to_rts(attr)
            self.targets.append((rkey, halos))
        communicator.barrier()  # all are ready to receive before anybody sends

    def path(self, address):
        gid = GID(ipaddress.IPv6Address(f"::ffff:{address}").exploded)
        route = GlobalRoute(dgid=gid, sgid_index=self.gid_index, hop_limit=64)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def expect(self, side):
        """Post a request for the end of a neighbour's WRITE."""
        unused = SGE(self.memory.ctypes.data, 0, self.mr.lkey)  # pyverbs wants a place; a WRITE names its own
        self.qps[side].post_recv(RecvWR(wr_id=RECEIVED + side, num_sge=1, sg=[unused]))

    def send(self, step):
        """The first row into the memory of the rank above, the last one into that of the rank below."""
        for side, row in ((ABOVE, 0), (BELOW, ROWS - 1)):
            place = SGE(self.rows[row].ctypes.data, self.rows[row].nbytes, self.mr.lkey)
            wr = SendWR(SENT + side, num_sge=1, sg=[place], opcode=e.IBV_WR_RDMA_WRITE_WITH_IMM)
            rkey, halos = self.targets[side]
            there = 2 * (step % HALOS) + 1 - side  # this rank is below the one above it
            wr.set_wr_rdma(rkey, halos + there * place.length)
            self.qps[side].post_send(wr)

    def wait(self, step):
        """The rows that the neighbours wrote in this step, when they have come and ours have gone."""
        while any(self.seen[kind + side] <= step for kind in (SENT, RECEIVED) for side in (ABOVE, BELOW)):
            self.await_completions()
        return self.halos[step % HALOS]

    def await_completions(self):
        """Count completions; sleep until there is one."""
        count, found = self.cq.poll(16)
        if not count:
            self.cq.req_notify()
            count, found = self.cq.poll(16)  # it may have come meanwhile
        if not count:
            self.channel.get_cq_event(self.cq)
            self.cq.ack_events(1)
            return
        for wc in found:
            assert wc.status == e.IBV_WC_SUCCESS, (wc.wr_id, wc.status)
            self.seen[wc.wr_id] += 1
            if wc.wr_id >= RECEIVED:
                self.expect(wc.wr_id - RECEIVED)

    def close(self):
        """Give the verbs objects back, before the memory goes."""
        self.context.close()


def main():
    """Compute until little changes. The plate is closed: above its first row is its last."""
    with fanin.Communicator() as communicator:
        job, rank = Job.from_environment(), communicator.rank
        edges = Edges(communicator, job.nodes[job.node_of(rank)].address)
        rows = edges.rows
        rows[:] = np.random.default_rng(rank).integers(0, 100, rows.shape)

        step, largest = 0, np.inf
        change = communicator.alloc(1, np.float64)  # of the step before
        while step < MAX_STEPS and largest > ENOUGH:
            edges.send(step)
            request = communicator.iallreduce(change, op="max") if step else None
            above, below = edges.wait(step)
            around = np.vstack([above[None], rows, below[None]])
            mean = (around[:-2] + around[2:] + np.roll(rows, 1, axis=1) + np.roll(rows, -1, axis=1)) / 4
            if request:
                largest = request.wait()[0]
            change[0] = np.abs(mean - rows).max()
            rows[:] = mean
            step += 1

        plate = communicator.allgather(rows)
        if rank == 0:
            digest = hashlib.sha256(plate.tobytes()).hexdigest()
            print(f"{step} steps, change {largest}, plate {digest}")
        edges.close()


main()
