"""The base of all testers: it hears a target, keeps a log, and notices its own pauses."""

import random
import time

from fanin_conform.profile import EVERYTHING, Profile
from fanin_conform.targets.target import Frame, Target

RECEIVE_TIMEOUT_S = 10.0  # an upper bound for what must come "at once"
STALL_S = 1.0  # after such a pause a tester may count as lost


class Mismatch(AssertionError):
    """The device differs from the script. clauses: the demands in question, if known."""

    def __init__(self, text: str, clauses: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.clauses = clauses


class NoFaninDevice(Exception):
    """Nothing at the address answers CONFIG with CONFIG_ACK, or READ with a response. The argument is the address."""


class Listener:
    """The base of testers.

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
        """A random number other than 0."""
        return self.random.getrandbits(bits) or 1

    def _receive(self, seconds: float) -> Frame | None:
        """The next packet. Notes pauses of the tester itself."""
        begun = time.monotonic()
        frame = self.target.receive(seconds)
        ended = time.monotonic()
        self.stalled |= begun - self._heard > STALL_S or ended - begun > seconds + STALL_S
        self._heard = ended
        return frame
