"""Hostile packets into engines: no crash, no stray write, one reason for each drop, no effect without the key."""

import numpy as np
import pytest

from fanin_tools.stress.fuzz import packet_oracle
from fanin_tools.stress.fuzz.engine_fuzz import EngineFuzzer, packet_source
from fanin_tools.stress.fuzz.packet_mutation import field_table, template_table
from fanin_tools.stress.fuzz.targets import make_targets
from fanin_tools.stress.tally import Tally, Work
from fanin_wire import fields
from fanin_wire.golden import vectors

PACKETS = 3000  # of each sender to each target
OFTEN = {"key", "sender", "slot", "stale", "duplicate", "unexpected", "length", "config", "ended"}
OFTEN |= {"unknown_job", "unknown_opcode", "version", "short"}


def attack(seed: int, count: int = PACKETS) -> Tally:
    tally, packets = Tally(seed), packet_source(seed)
    for target in make_targets():
        for knows_key in (False, True):
            EngineFuzzer(target, knows_key, packets, tally).run(count)
    return tally


def test_every_packet_is_taken_or_dropped_under_one_name() -> None:
    met: set[str] = set()
    for seed in (1, 2, 3):
        tally = attack(seed)
        assert tally.findings == []
        accepted = tally.work[Work.ACCEPTED]
        assert tally.work[Work.PACKETS] == accepted + tally.drops.total() == 6 * PACKETS
        assert accepted > PACKETS
        met |= tally.drops.keys()
    assert {f"drop_{reason}" for reason in OFTEN} <= met


def test_a_seed_replays() -> None:
    first, second = attack(3, 300), attack(3, 300)
    assert first.as_dict() == second.as_dict()
    assert first.drops != attack(4, 300).drops


@pytest.mark.parametrize("knows_key", [False, True])
def test_violations_are_found(knows_key: bool) -> None:
    """The oracle must find a change of memory, made behind its back, that the sender must not be able to make."""
    tally, packets = Tally(5), packet_source(5)
    target = make_targets()[0]
    attacker = EngineFuzzer(target, knows_key, packets, tally)
    engine, original = target.device.engine, target.device.engine.packet

    def packet(*arguments: int) -> None:
        original(*arguments)
        engine.tables["jobs"][1]["window"] += 1

    target.device.engine.packet = packet  # type: ignore[method-assign]
    attacker.run(5)
    assert len(tally.findings) == 5
    assert all(packet_oracle.Verdict.FOREIGN.name in finding.description for finding in tally.findings)


def test_all_fields_and_vectors_are_used() -> None:
    """The generator mutates new fields of headers, and new vectors, without being told."""
    templates, lengths = template_table()
    assert len(templates) == len(vectors())
    assert lengths.min() >= fields.BTH.size
    pairs = {tuple(row) for row in field_table().tolist()}
    assert {(field.offset, field.bits) for field in fields.BTH.fields} <= pairs
    assert {(8 * fields.BTH.size + field.offset, field.bits) for field in fields.CETH.fields} <= pairs
    assert np.all(field_table()[:, 1] > 0)
