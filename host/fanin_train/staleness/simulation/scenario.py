"""A simulated scenario as data. Times are in seconds."""

from dataclasses import dataclass, field

from fanin_train.errors import TrainingError


@dataclass(frozen=True)
class Pauses:
    """Each iteration takes `factor` times as long with this probability; on `slow` nodes always."""

    probability: float = 0.0
    factor: float = 6.0
    slow: tuple[int, ...] = ()
    slow_factor: float = 3.0


@dataclass(frozen=True)
class Network:
    """Messages from node to node. A link keeps the order of its messages unless it `reorders`.

    transfer: seconds of one gradient on the link to a node; those of several nodes follow each other.
    jitter: share of the latency that is random. loss, duplication: probabilities of each message.
    """

    latency: float = 0.02
    transfer: float = 0.0
    jitter: float = 0.0
    loss: float = 0.0
    duplication: float = 0.0
    reorders: bool = False


@dataclass(frozen=True)
class Events:
    """Events of nodes: rank -> time. Others notice a death after `detection`."""

    deaths: dict[int, float] = field(default_factory=dict)
    leaves: dict[int, float] = field(default_factory=dict)
    joins: dict[int, float] = field(default_factory=dict)
    detection: float = 0.5


@dataclass(frozen=True)
class Scenario:
    """One run. compute: of one iteration. last: iterations of each node; None: until `duration`."""

    nodes: int = 8
    compute: float = 0.1
    network: Network = Network()
    pauses: Pauses = Pauses()
    events: Events = Events()
    duration: float = 60.0
    last: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise TrainingError(f"there are {self.nodes} nodes", "give 1 or more")
        for name, share in (("probability", self.pauses.probability), ("loss", self.network.loss)):
            if not 0 <= share < 1:
                raise TrainingError(f"the {name} is {share}", "give a number from 0 to below 1")
        if any(not 0 <= rank < self.nodes for rank in self.pauses.slow):
            raise TrainingError(
                f"slow nodes are {self.pauses.slow}, of {self.nodes}", f"name ranks from 0 to {self.nodes - 1}"
            )
        for name, seconds in (("compute", self.compute), ("duration", self.duration)):
            if not seconds > 0:
                raise TrainingError(f"{name} is {seconds} s", "give a time above 0")
