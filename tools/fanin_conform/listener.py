"""What every tester is made of: it hears a target, keeps a log, and notices when it has stood still itself."""

import random
import time

from fanin_conform.profile import EVERYTHING, Profile
from fanin_conform.targets.target import Frame, Target

PATIENCE_S = 10.0  # an upper bound for what must come "at once"
STALL_S = 1.0  # a tester that stood still so long may have been taken for lost


class Mismatch(AssertionError):
    """The device did something else than the script expects. clauses: the demands that this concerns, if known."""

    def __init__(self, text: str, clauses: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.clauses = clauses


class NoFaninDevice(Exception):
    """Nothing at the address answers CONFIG with CONFIG_ACK, or READ with a response. The argument is the address."""


class Listener:
    """See above.

    log: every packet of the script, as text, without the fence.
    left_out: parts of the script that the device does not implement.
    stalled: it stood still for long.
    """

    def __init__(self, target: Target, seed: int | str, profile: Profile = EVERYTHING) -> None:
        self.target, self.random, self.profile = target, random.Random(seed), profile
        self.addresses = target.addresses
        self.log: list[str] = []
        self.left_out: list[str] = []
        self.stalled, self._heard = False, time.monotonic()

    def number(self, bits: int) -> int:
        """A random number that is not 0."""
        return self.random.getrandbits(bits) or 1

    def _receive(self, seconds: float) -> Frame | None:
        """The next packet. Notes whether the tester itself stood still."""
        begun = time.monotonic()
        frame = self.target.receive(seconds)
        ended = time.monotonic()
        self.stalled |= begun - self._heard > STALL_S or ended - begun > seconds + STALL_S
        self._heard = ended
        return frame
