"""Types of nodes, with the peak of one processor from its manual.

The first four are those of Alibaba's cluster of 2023 (github.com/alibaba/clusterdata, cluster-trace-gpu-v2023) with
public names, so not its G2 and G3. The text [87] names the others, or types like them.
"""

from typing import NamedTuple


class NodeType(NamedTuple):
    """peak: FLOP/s of f32 without tensor cores. source: of that number."""

    name: str
    peak: float
    source: str


NODE_TYPES = (
    NodeType("P100", 9.3e12, "NVIDIA Tesla P100 data sheet, PCIe"),
    NodeType("T4", 8.1e12, "NVIDIA T4 data sheet"),
    NodeType("V100", 14.0e12, "NVIDIA V100 data sheet, PCIe"),
    NodeType("A10", 31.2e12, "NVIDIA A10 data sheet"),
    NodeType("A100", 19.5e12, "NVIDIA A100 data sheet"),
    NodeType("MLU370", 24.0e12, "Cambricon MLU370-X4 product page"),
)
OF_TRACE = NODE_TYPES[:4]
