"""The set-ups of a comparison, the message sizes, and the numbers of repetitions."""

from dataclasses import dataclass

from fanin_tools.errors import UsageError
from fanin_tools.fabric import namespaces
from fanin_tools.fabric.generate import Shape, default_lanes
from fanin_tools.quantities import parse_rate, parse_size, render_size

ELEMENT = 4  # bytes of f32
SIZES = tuple(1 << power for power in (3, 6, 9, 12, 14, 16, 18, 20, 22, 24, 26, 28))
SHORT_SIZES = (8, 4 << 10, 64 << 10, 1 << 20, 16 << 20)
ROUNDS = 5
SHORT_ROUNDS = 3
VOLUME = 64 << 20  # bytes of one turn's messages, within the limits of REPETITIONS
REPETITIONS = (2, 1000)  # least and most in one turn; OSU's benchmarks repeat 1000 times
FIRST_WARM_UP = 5  # calls that do not count, with new memory
MIN_WARM_UP = 2  # calls that do not count, at the beginning of each turn


@dataclass(frozen=True)
class Variant:
    """A variant of Fanin: a route, registered or ordinary memory, ranks in Python or C."""

    route: str
    registered: bool = True
    in_c: bool = False

    @property
    def title(self) -> str:
        route = [] if self.route == "local" else [self.route]
        return " ".join(["fanin", *(["C"] if self.in_c else []), *route, *([] if self.registered else ["ordinary"])])


@dataclass(frozen=True)
class Setup:
    """A set-up of a comparison.

    netns: each rank has a node in a namespace of its own; else all ranks are on one node. rate: of the links between
    namespaces; "": unshaped. lanes: of the devices; None: the default. variants: of Fanin, each a contender. multicast:
    results over namespaces are multicast. bound: each rank of every contender on one node is bound to a core. In
    namespaces ranks are not: an MPI there does not know the other hosts, and would bind all to one core.
    """

    ranks: int = 4
    netns: bool = False
    rate: str = ""
    lanes: int | None = None
    variants: tuple[Variant, ...] = (Variant("local"), Variant("local", registered=False), Variant("local", in_c=True))
    multicast: bool = True
    bound: bool = True

    @property
    def title(self) -> str:
        words = ["1 node", f"{self.ranks} ranks"]
        if self.netns:
            words = [f"{self.ranks} namespaces", self.rate or "unshaped"]
        if self.lanes or not self.netns:
            words.append(f"{self.lane_count} lane{'s' if self.lane_count > 1 else ''}")
        without = [] if self.multicast else ["no multicast"]
        return ", ".join([*words, *without, *(["not bound"] if self.is_free else [])])

    @property
    def name(self) -> str:
        """Name in file names and on the command line."""
        words = [f"netns-{self.ranks}", self.rate] if self.netns else [f"local-{self.ranks}"]
        if self.lanes:
            words.append(f"{self.lanes}lane{'s' if self.lanes > 1 else ''}")
        return "-".join([*(word for word in words if word), *(["not-bound"] if self.is_free else [])])

    @property
    def lane_count(self) -> int:
        """Lanes of each device."""
        return self.lanes or default_lanes(1 if not self.netns else self.ranks)

    @property
    def shape(self) -> Shape:
        nodes, ranks = (self.ranks, 1) if self.netns else (1, self.ranks)
        return Shape(nodes, ranks, netns=self.netns, rate=self.rate, lanes=self.lanes, multicast=self.multicast)

    @property
    def binds(self) -> bool:
        return self.bound and not self.netns

    @property
    def is_free(self) -> bool:
        """The ranks could be bound but are not."""
        return not self.bound and not self.netns

    @property
    def link_speed(self) -> float | None:
        """Bytes per second of each link; None if unshaped."""
        return parse_rate(self.rate) / 8 if self.rate else None


OVER_NETWORK = (Variant("tree"), Variant("ring"), Variant("tree", in_c=True))
EVERY_SETUP = (
    Setup(2),
    Setup(4),
    Setup(4, lanes=1),
    Setup(4, netns=True, variants=OVER_NETWORK),
    Setup(8, netns=True, variants=OVER_NETWORK),
    Setup(4, netns=True, rate="1gbit", variants=OVER_NETWORK),
    Setup(8, netns=True, rate="1gbit", variants=OVER_NETWORK),
)


def short() -> list[Setup]:
    """Of `make bench`: one node, and namespaces if this user may create them."""
    return [Setup(4), *([Setup(4, netns=True, variants=OVER_NETWORK)] if namespaces.are_allowed() else [])]


def chosen(names: str) -> list[Setup]:
    """The set-ups of the documentation with these names, as in "local-4,netns-4"; all for ""."""
    known = {setup.name: setup for setup in EVERY_SETUP}
    words = names.split(",") if names else list(known)
    if unknown := [word for word in words if word not in known]:
        raise UsageError(f"there is no set-up {', '.join(unknown)}", f"use some of {', '.join(known)}")
    return [known[word] for word in words]


def repetitions(size: int) -> int:
    """Repetitions of a message of `size` bytes in one turn."""
    least, most = REPETITIONS
    return max(least, min(most, VOLUME // size))


def warm_up(size: int) -> int:
    """Calls at the beginning of a turn that do not count.

    The scheduler wakes a process on any core, and takes tens of milliseconds to distribute processes over the cores.
    (The OSU benchmarks leave out 100 to 200 calls.)
    """
    return max(MIN_WARM_UP, repetitions(size) // 2)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse sizes such as "8,4K,1M". They must be whole elements; repetitions are dropped."""
    sizes = tuple(dict.fromkeys(parse_size(word) for word in text.split(",")))
    for size in sizes:
        if size < ELEMENT or size % ELEMENT:
            raise UsageError(
                f"{render_size(size)} is not a multiple of the size of f32", f"use multiples of {ELEMENT} bytes"
            )
    return sizes
