"""A machine from any source: the root element of a file says its format."""

from pathlib import Path

from fanin_cluster.topology import hwloc_xml, nccl_xml
from fanin_cluster.topology.machine import Machine, TopologyInvalid
from fanin_cluster.topology.sysfs import read_sysfs
from fanin_cluster.topology.xml_file import REMEDY, parse

FORMATS = {nccl_xml.ROOT: nccl_xml.read_nccl, hwloc_xml.ROOT: hwloc_xml.read_hwloc}


def read_machine(path: Path | None = None) -> Machine:
    """The machine that a file in XML describes; without a file this one. Raises TopologyInvalid."""
    if path is None:
        return read_sysfs()
    root = parse(path)
    if root.tag not in FORMATS:
        wanted = " or ".join(f"<{tag}>" for tag in FORMATS)
        raise TopologyInvalid(f"{path}: line {root.line}: the file begins with <{root.tag}>, not with {wanted}", REMEDY)
    return FORMATS[root.tag](root, path)
