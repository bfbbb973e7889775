"""A program whose memory is written: `written_to.py SOCKET SOURCE QPN mapped|process`.

It prints the number of its queue pair, the key and the address of its memory, and waits for ever.
"""

import sys

import numpy as np

from fanin.verbs import GID, MR, AHAttr, GlobalRoute, QPAttr
from tests.ordinary.sides import ALL_RIGHTS, Side

LENGTH = 65536


def main() -> None:
    socket, source, qpn, kind = sys.argv[1:]
    side = Side(socket)
    own = np.zeros(LENGTH, np.uint8)
    region = MR(side.pd, LENGTH, ALL_RIGHTS, address=own.ctypes.data) if kind == "process" else side.mr
    route = AHAttr(GlobalRoute(GID(source)))
    side.qp.to_rts(QPAttr(dest_qp_num=int(qpn), qp_access_flags=ALL_RIGHTS, ah_attr=route))
    print(side.qp.qp_num, region.rkey, region.address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
