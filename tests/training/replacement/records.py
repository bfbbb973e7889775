"""A cluster of a few nodes, as records."""

from collections.abc import Sequence

from fanin_train.replacement.records import Bandwidths, Monitor, Node, Task

PEAKS = {"slow": 4e12, "A100": 19.5e12, "MLU370": 24e12}
GIGABYTE = 1e9


def cluster(
    ring: Sequence[str], pool: Sequence[str], parameters: int = 250_000_000, flop: float = 4e12, step: float = 2.5
) -> tuple[Monitor, Bandwidths]:
    """Nodes "r0", "r1", ... of the types in `ring`, which run the task "t", and idle ones "p0", "p1", ... of `pool`.

    Each node of the ring has measured steps of `step` seconds. Each pair has 1 GB/s.
    """
    monitor, bandwidths = Monitor(), Bandwidths()
    for letter, types in (("r", ring), ("p", pool)):
        for number, kind in enumerate(types):
            monitor.add_node(Node(f"{letter}{number}", kind, PEAKS[kind], step_times=(step,) if letter == "r" else ()))
    monitor.add_task(Task("t", tuple(f"r{number}" for number in range(len(ring))), parameters, flop))
    for sender in monitor.nodes:
        for receiver in monitor.nodes:
            if sender != receiver:
                bandwidths.note(sender, receiver, GIGABYTE)
    return monitor, bandwidths


def fail(monitor: Monitor, *addresses: str) -> None:
    """Their heartbeats stop."""
    for address in addresses:
        monitor.change(address, alive=False)
