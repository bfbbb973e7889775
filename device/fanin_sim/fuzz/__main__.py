"""`python -m fanin_sim.fuzz`: see `fanin_sim.campaign`."""

import sys

from fanin_sim.campaign import main
from fanin_sim.fuzz.campaign import replay, run

if __name__ == "__main__":
    sys.exit(main("fanin_sim.fuzz", run, replay))
