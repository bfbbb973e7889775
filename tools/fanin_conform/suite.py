"""Runs scripts against a target, and collects verdicts."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from fanin_conform import scripts as _all_scripts
from fanin_conform.capture import Capture
from fanin_conform.profile import EVERYTHING, LeftOut, Profile
from fanin_conform.script import ROCEV2, SCRIPTS, SWITCH, Script, is_for
from fanin_conform.targets.target import Target
from fanin_conform.tester import Tester
from fanin_conform.verbs.tester import VerbsTester

assert _all_scripts  # importing fills SCRIPTS
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
TRIES = 3
ADDRESSES = 4  # of the tester: as many as the largest script needs
PORT = "port"
NEEDS = {
    PORT: "the target has no port of its own: no ICRC, no UDP",
    "drain": "the suite can not make this target drain",
    "pause": "the suite can not make this target stand still",
}
BESIDE = 6  # waiting scripts at once


class Verdict(NamedTuple):
    """The verdict on a script.

    text: expected and seen, or why it was not run. log: its packets.
    left_out: parts of it that were not run.
    """

    script: Script
    outcome: str
    text: str = ""
    clauses: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    seconds: float = 0.0
    left_out: tuple[str, ...] = ()


def chosen(patterns: Iterable[str], role: str = SWITCH) -> list[Script]:
    """The scripts for a role whose names contain one of the patterns; without patterns all of the role."""
    wanted, own = list(patterns), [each for each in SCRIPTS.values() if is_for(each, role)]
    return [each for each in own if not wanted or any(pattern in each.name for pattern in wanted)]


def run(
    target: Target,
    scripts: list[Script],
    seed: int,
    say: Callable[[Verdict], None],
    profile: Profile = EVERYTHING,
    beside: Callable[[int], Target] | None = None,
    capture: Capture | None = None,
) -> list[Verdict]:
    """Run scripts one after the other, as far as the profile goes. Returns the verdicts.

    say: called when a script has ended, from several threads; a repeated script has another verdict then.
    beside: opens the device again, from other addresses of the tester, selected by number. Then scripts that wait run
    beside the others. One that fails so is repeated alone, for its verdict.
    capture: gets all packets, each with the name of its script.

    Raises NoFaninDevice if no device answers.
    """
    waiting = deque(each for each in scripts if each.waits) if beside else deque()
    verdicts: dict[str, Verdict] = {}

    def ended(verdict: Verdict) -> None:
        verdicts[verdict.script.name] = verdict
        say(verdict)

    def wait(number: int) -> None:
        assert beside is not None
        with contextlib.closing(beside(number)) as own:
            while True:
                try:
                    script = waiting.popleft()
                except IndexError:
                    return
                ended(_run_one(own, script, seed, profile, capture))

    others = [each for each in scripts if each not in waiting]
    workers = min(BESIDE, len(waiting))
    with ThreadPoolExecutor(max(1, workers)) as pool:
        waits = [pool.submit(wait, number) for number in range(1, 1 + workers)]
        try:
            for script in others:
                ended(_run_one(target, script, seed, profile, capture))
        except BaseException:
            waiting.clear()  # waiting threads end after their current script
            raise
        for each in waits:
            each.result()
    for name, verdict in verdicts.items():
        if workers and verdict.outcome == FAILED:
            verdicts[name] = _run_one(target, verdict.script, seed, profile, capture)
    return [verdicts[script.name] for script in scripts]


def _run_one(target: Target, script: Script, seed: int, profile: Profile, capture: Capture | None) -> Verdict:
    target = capture.of(target, script.name) if capture else target
    for need in script.needs:
        if not (target.has_port if need == PORT else need in target.controls):
            return Verdict(script, NOT_RUN, NEEDS[need])
    for _ in range(TRIES - 1):
        verdict, stalled = _play(target, script, seed, profile)
        if verdict.outcome == PASSED or not stalled:
            return verdict
    return _play(target, script, seed, profile)[0]


def _play(target: Target, script: Script, seed: int, profile: Profile) -> tuple[Verdict, bool]:
    """The verdict, and whether the tester stood still: then a failure may be its own."""
    begun = time.monotonic()
    kind = VerbsTester if script.role == ROCEV2 else Tester
    tester = kind(target, f"{seed} {script.name}", profile)  # no script shares jobs with another
    try:
        tester.join_fence()
    except LeftOut as lacking:
        return Verdict(script, NOT_RUN, f"the device has no {lacking}"), False
    verdict = Verdict(script, PASSED)
    try:
        script.play(tester)
    except LeftOut as lacking:
        verdict = Verdict(script, NOT_RUN, f"the device has no {lacking}")
    except AssertionError as wrong:
        clauses = getattr(wrong, "clauses", ()) or script.clauses
        verdict = Verdict(script, FAILED, str(wrong), clauses, tuple(tester.log))
    finally:
        target.script_ends()
        tester.close()
    verdict = verdict._replace(seconds=time.monotonic() - begun, left_out=tuple(tester.left_out))
    return verdict, tester.stalled
