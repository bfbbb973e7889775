"""Campaigns of hostile packets make every attack, meet every reason to drop a packet, and are repeatable by seed; the
oracle finds forbidden actions."""

import json
import subprocess
import sys

import numpy as np
import pytest

from fanin_nic.transport.records.actions import ActionKind
from fanin_nic.transport.records.tables import Counter
from fanin_sim.hostile import HostileTally, replay, run
from fanin_sim.hostile.attacker import KINDS
from fanin_sim.hostile.device import REASONS, Device
from fanin_sim.hostile.life import PACKETS, Life
from fanin_sim.hostile.memory import GUARD

SEED, LIVES = 5_000, 60


@pytest.fixture(scope="module")
def tally() -> HostileTally:
    return run(float("inf"), SEED, 1, schedules=LIVES)


def test_nothing_is_violated(tally: HostileTally) -> None:
    assert [finding.description for finding in tally.findings] == []
    assert tally.counts["schedules"] == LIVES
    assert tally.counts["packets"] == LIVES * PACKETS == sum(tally.faults.values())
    assert tally.counts["honest"] > 10 * LIVES
    assert sum(tally.reasons.values()) > tally.counts["packets"]


def test_every_kind_of_attack_is_made_and_every_reason_is_met(tally: HostileTally) -> None:
    assert tally.faults.keys() == KINDS.keys()
    assert tally.reasons.keys() == {"taken", "duplicates", *REASONS.values()}
    assert tally.reasons["taken"] > tally.counts["packets"] // 5


def test_a_seed_repeats_its_life() -> None:
    first, second, other = (Life(seed).run() for seed in (7, 7, 8))
    assert first.digest == second.digest != other.digest
    assert first == second


# Forbidden actions of a device, with the words of the oracle.


def write_guard(device: Device, actions: np.ndarray) -> np.ndarray:
    """A byte before the first region changes."""
    device.memory.bytes[GUARD - 1] ^= 1
    return actions


def end_twice(_device: Device, actions: np.ndarray) -> np.ndarray:
    return np.concatenate([actions, actions[actions["kind"] == ActionKind.COMPLETE]])


def lose_completions(_device: Device, actions: np.ndarray) -> np.ndarray:
    return actions[actions["kind"] != ActionKind.COMPLETE]


def read_elsewhere(device: Device, actions: np.ndarray) -> np.ndarray:
    """An answer carries bytes before the requested memory."""
    answers = (actions["kind"] == ActionKind.SEND) & (actions["length"] > 8) & (actions["of_request"] == 0)
    actions["payload"][answers] -= np.uint64(1)
    return actions


DEEDS = {
    write_guard: "guard byte 63",
    end_twice: "ends twice",
    lose_completions: "completions",
    read_elsewhere: "which the other side may not read",
}


@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_the_oracle_finds(deed, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Device._perform
    monkeypatch.setattr(Device, "_perform", lambda device, actions: original(device, deed(device, actions)))
    violations = [Life(seed).run().violation for seed in range(10)]
    assert any(DEEDS[deed] in violation for violation in violations), violations


def test_the_oracle_finds_a_packet_that_is_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Device._reason

    def reason(device: Device, before: np.ndarray) -> str:
        device.transport.tables["counters"][Counter.DROP_LENGTH] += 1
        return original(device, before)

    monkeypatch.setattr(Device, "_reason", reason)
    violations = [Life(seed).run().violation for seed in range(10)]
    assert any("one packet is counted as" in violation for violation in violations), violations


def test_a_violation_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Device._perform
    monkeypatch.setattr(Device, "_perform", lambda device, actions: original(device, write_guard(device, actions)))
    tally = run(float("inf"), 1, 1, schedules=1)
    (finding,) = tally.findings
    assert finding.replay == "python -m fanin_sim.hostile --seed 1 --trace"
    assert finding.details
    assert replay(1).violation in finding.description


@pytest.mark.process
def test_the_command() -> None:
    command = [sys.executable, "-m", "fanin_sim.hostile", "--seed", "3", "--schedules", "4", "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout)["schedules"] == 4
