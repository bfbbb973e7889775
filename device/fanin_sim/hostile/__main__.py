"""`python -m fanin_sim.hostile`: see `fanin_sim.campaign`."""

import sys

from fanin_sim.campaign import main
from fanin_sim.hostile.campaign import replay, run

if __name__ == "__main__":
    sys.exit(main("fanin_sim.hostile", run, replay))
