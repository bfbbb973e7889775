"""The topologies of the matrix, all on one fabric, and the jobs over them.

```
              top
    +----------+-----------+
  nic0        leaf       plain          plain: a switch that only forwards, so its NICs form a ring
           +---+---+    +--+--+
         nic1 nic2 nic3  nic4 nic5 nic6
```
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from fanin_tools.fabric.checks import check
from fanin_tools.fabric.description import Device, Fabric, Link
from fanin_tools.fabric.generate import Plan, Shape
from fanin_tools.fabric.tree import Tree
from fanin_tools.launch.placement import Placement
from fanin_tools.launch.uplinks import Uplinks, uplinks_of
from fanin_tools.quantities import counted
from fanin_wire.settings import JobSettings

ROOM = 8  # ranks on a node
NICS_BELOW = {"top": ("nic0",), "leaf": ("nic1", "nic2", "nic3"), "plain": ("nic4", "nic5", "nic6")}
SWITCH_ADDRESSES = {"top": 254, "leaf": 253}


@dataclass(frozen=True)
class MatrixPlan(Plan):
    """The fabric above, without addresses yet."""

    shape: Shape = field(default_factory=Shape)

    def at(self, prefix: str) -> Fabric:
        nics = [name for names in NICS_BELOW.values() for name in names]
        devices = [
            Device(kind="nic", name=name, address=f"{prefix}.{1 + node}", host=f"host{node}", ranks=ROOM)
            for node, name in enumerate(nics)
        ]
        for name in NICS_BELOW:
            number = SWITCH_ADDRESSES.get(name)
            address = f"{prefix}.{number}" if number else ""
            devices.append(Device(kind="switch", name=name, address=address, host=name, offload=number is not None))
        ends = [(name, switch) for switch, names in NICS_BELOW.items() for name in names]
        ends += [("leaf", "top"), ("plain", "top")]
        return check(Fabric(self.name, tuple(devices), tuple(map(Link, ends))), "matrix")


@dataclass(frozen=True)
class Topology:
    """route: of the jobs; nics: that take part; per_node: numbers of ranks on each node."""

    name: str
    route: str
    nics: tuple[str, ...]
    per_node: tuple[int, ...]


LEAF = NICS_BELOW["leaf"]
TOPOLOGIES = (
    Topology("tree", "tree", LEAF, (1, 2, 3)),
    Topology("2 levels", "tree", ("nic0", *LEAF), (1, 2, 3)),
    Topology("ring", "ring", LEAF, (1, 2, 3)),
    Topology("local", "local", ("nic0",), (1, 2, 5)),
    Topology("mixed", "tree", ("nic0", *LEAF, *NICS_BELOW["plain"]), (1, 2)),
)
TOPOLOGY_BY_NAME = {topology.name: topology for topology in TOPOLOGIES}
MODES = {
    "": JobSettings(),
    "reproducible run": JobSettings(reproducible="run"),
    "reproducible shape": JobSettings(reproducible="shape"),
    "wide partials": JobSettings(wide=True),
}


@dataclass(frozen=True, order=True)
class JobSetup:
    """A job: topology, ranks on each node, and the name of its settings in MODES."""

    topology: str
    per_node: int
    mode: str

    def __str__(self) -> str:
        members = f"{counted(self.size, 'rank')} on {counted(len(TOPOLOGY_BY_NAME[self.topology].nics), 'node')}"
        return ", ".join(part for part in (self.topology, members, self.mode) if part)

    @property
    def size(self) -> int:
        return self.per_node * len(TOPOLOGY_BY_NAME[self.topology].nics)

    @property
    def staged(self) -> bool:
        """The library may use bounce buffers. Half of the jobs cover each way."""
        return self.per_node % 2 == 0

    def placement(self, fabric: Fabric) -> Placement:
        topology = TOPOLOGY_BY_NAME[self.topology]
        nics = tuple(fabric.device(name) for name in topology.nics)
        blocks = tuple(tuple(range(node * self.per_node, (node + 1) * self.per_node)) for node in range(len(nics)))
        uplinks = uplinks_of(Tree(fabric), nics) if topology.route == "tree" else None
        return Placement(topology.route, nics, blocks, uplinks or (Uplinks(),) * len(nics))


def setups() -> Iterator[JobSetup]:
    """Every topology with every number of ranks; with two ranks on a node, in every mode."""
    for topology in TOPOLOGIES:
        for per_node in topology.per_node:
            for mode in MODES if per_node == 2 else ("",):
                yield JobSetup(topology.name, per_node, mode)
