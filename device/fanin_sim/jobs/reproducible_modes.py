"""The reproducible modes of a simulated job."""

from fanin_wire.abi import JobFlag

# The flags of each mode. A ring in mode "shape" starts all segments at node 0.
MODES = {
    "none": 0,
    "run": JobFlag.REPRODUCIBLE_RUN,
    "shape": JobFlag.REPRODUCIBLE_SHAPE | JobFlag.WIDE,
}
