"""A program that sends for ever: `endless_sender.py SOCKET DESTINATION QPN RKEY ADDRESS`.

It prints the number of its queue pair, waits for a line, and then writes 64 KiB again and again. It also has a shared
receive queue, with requests and a queue pair.
"""

import sys

from fanin.verbs import GID, SRQ, AHAttr, GlobalRoute, QPAttr, RecvWR, SendWR
from fanin.verbs.enums import IBV_WR_RDMA_WRITE
from tests.ordinary.sides import ALL_RIGHTS, Side

LENGTH = 65536


def main() -> None:
    socket, destination, qpn, rkey, address = sys.argv[1:]
    side = Side(socket)
    shared = SRQ(side.pd)
    side.make_qp(srq=shared)
    for number in range(100):
        shared.post_recv(RecvWR(number, sg=[side.piece(8)]))
    print(side.qp.qp_num, flush=True)
    sys.stdin.readline()
    route = AHAttr(GlobalRoute(GID(destination)))
    side.qp.to_rts(QPAttr(dest_qp_num=int(qpn), qp_access_flags=ALL_RIGHTS, ah_attr=route))
    under_way = 0
    while True:
        while under_way < 32:
            post(side, int(rkey), int(address))
            under_way += 1
        under_way -= len(side.completions(1))
        print("one is done", flush=True)


def post(side: Side, rkey: int, address: int) -> None:
    request = SendWR(1, IBV_WR_RDMA_WRITE, sg=[side.piece(LENGTH)])
    request.set_wr_rdma(rkey, address)
    side.qp.post_send(request)


if __name__ == "__main__":
    main()
