"""`python -m fanin_sim.rdma`: see `fanin_sim.campaign`."""

import sys

from fanin_sim.campaign import main
from fanin_sim.rdma.campaign import replay, run

if __name__ == "__main__":
    sys.exit(main("fanin_sim.rdma", run, replay))
