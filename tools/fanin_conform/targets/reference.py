"""The switch in plain Python in this process, in virtual time."""

from collections import deque

from fanin_conform.agents.agent import Agent
from fanin_conform.datagram import DEVICE_PORT, TESTER_PORT
from fanin_conform.targets.target import Frame, Uncontrolled
from fanin_reference.switch import Switch
from fanin_reference.times import TICK_S

ADDRESS = "10.0.0.1"


class ReferenceTarget(Uncontrolled):
    """See `target.Target`. kind: class of the switch, maybe a faulty one. group: its multicast group, if any."""

    agent: Agent | None = None
    name, address, has_port, is_virtual = "reference", ADDRESS, True, True

    def __init__(self, count: int, kind: type[Switch] = Switch, lanes: int = 1, group: str = "") -> None:
        self.addresses, self.group = [f"10.0.1.{1 + number}" for number in range(count)], group
        self._switch, self._now = kind(ADDRESS, lanes, group=group), 1.0
        self._waiting: deque[Frame] = deque()

    def send(self, source: str, data: bytes) -> None:
        self._take(self._switch.receive(data, source, TESTER_PORT, self._now))

    def receive(self, seconds: float) -> Frame | None:
        """The next packet; time passes, at most so much."""
        end = self._now + seconds
        while not self._waiting and self._now < end:
            self._now = min(end, self._now + TICK_S)
            self._take(self._switch.tick(self._now))
        return self._waiting.popleft() if self._waiting else None

    def now(self) -> float:
        return self._now

    def close(self) -> None:
        """Nothing is open."""

    def _take(self, packets: list[tuple[str, int, bytes]]) -> None:
        for to, lane, data in packets:
            self._waiting.append(Frame(to, ADDRESS, DEVICE_PORT + lane, data))
