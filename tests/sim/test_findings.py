"""Findings and tallies: counted, merged and written as JSON."""

import json
from collections import Counter

from fanin_sim.findings import Category, Finding, Tally
from fanin_sim.fuzz.campaign import FuzzTally

HANG = Finding(Category.HANG, "rank 3 hangs", "fanin soak --replay 9", 9, ("the last event",))


def test_a_tally_with_a_finding_is_not_clean() -> None:
    tally = Tally()
    assert tally.is_clean
    tally.findings.append(HANG)
    assert not tally.is_clean
    assert tally.number_of(Category.HANG) == 1
    assert tally.by_category() == {category.value: int(category == Category.HANG) for category in Category}


def test_merge_adds_counts_and_keeps_the_longer_time() -> None:
    total = Tally(Counter(schedules=2), Counter(LOSS=1), [], seconds=5)
    total.merge_all([Tally(Counter(schedules=3, requests=1), Counter(LOSS=4), [HANG], seconds=3), Tally(seconds=6)])
    assert total.counts == {"schedules": 5, "requests": 1}
    assert total.faults == {"LOSS": 5}
    assert (total.findings, total.seconds) == ([HANG], 6)


def test_a_campaign_can_be_merged_into_a_plain_tally_and_the_other_way_round() -> None:
    campaign, plain = FuzzTally(Counter(schedules=1), workloads=Counter({"a switch": 1})), Tally(Counter(inputs=7))
    plain.merge(campaign)
    assert plain.counts == {"schedules": 1, "inputs": 7}
    campaign.merge(campaign)
    assert campaign.workloads == {"a switch": 2}
    campaign.merge(Tally(Counter(inputs=7)))
    assert campaign.counts == {"schedules": 2, "inputs": 7}


def test_json() -> None:
    told = json.loads(json.dumps(Tally(Counter(rounds=4), findings=[HANG]).as_dict()))
    assert told["rounds"] == 4
    assert told["defects"]["hangs"] == 1
    assert told["findings"] == [
        {
            "category": "hangs",
            "description": "rank 3 hangs",
            "replay": "fanin soak --replay 9",
            "seed": 9,
            "details": ["the last event"],
        }
    ]
