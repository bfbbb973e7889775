"""The uplinks of each NIC, for programs that find their device themselves (`host/fanin/mpi/comm/device.c` reads it).

A row for each NIC, in the order of the nodes: "SOCKET ADDRESS RING SWITCH...". SOCKET is a name in the same folder.
RING is the number of the ring that the NICs of a plain switch form, 0 for none. The addresses of the offloading
switches follow, the lowest first, as in the file of a job.
"""

from fanin_tools.fabric.description import Device, Fabric
from fanin_tools.fabric.tree import Tree
from fanin_wire.job_text import place_text

NAME = "uplinks"


def render(fabric: Fabric) -> str:
    tree = Tree(fabric)
    plain = [switch.name for switch in fabric.switches if not switch.offload]
    return "".join(f"{nic.name}.sock {_place(tree, nic, plain)}\n" for nic in tree.nics())


def _place(tree: Tree, nic: Device, plain: list[str]) -> str:
    above = tree.above(nic)
    ring = plain.index(above[0].name) if above and above[0].name in plain else None
    return place_text(nic.address, ring, [switch.address for switch in tree.offloading_above(nic)])
