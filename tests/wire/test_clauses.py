"""The numbered demands of SPEC.md, for tests."""

import re

import pytest

from fanin_wire.clauses import NUMBER, SPECIFICATION, UnknownClause, clause, clauses


def test_every_number_of_the_text_is_a_demand() -> None:
    introduction, _, rest = SPECIFICATION.read_text().partition("\n## 1 ")
    written = re.findall(rf"\[({NUMBER})\]", rest)
    assert written == list(clauses())
    assert len(written) > 400
    assert set(re.findall(rf"\[({NUMBER})\]", introduction)) <= set(written)


def test_a_demand_has_the_text_that_follows_its_number() -> None:
    text = "A discarded packet MUST NOT change anything but, if it has come to item 10, the time that 5-20 keeps."
    assert clause("5-22").text == text
    assert clause("6-33").text == "< 0 | any | stale: discard and count"
    assert clause("10.8-3").title == "The state of a job"
    assert all(each.text and "\n" not in each.text and "[" not in each.text[:3] for each in clauses().values())


def test_numbers_of_a_section_have_no_gap() -> None:
    sections: dict[str, set[int]] = {}
    for each in clauses().values():
        sections.setdefault(each.section, set()).add(int(each.number.partition("-")[2]))
    for section, numbers in sections.items():
        assert numbers == set(range(1, len(numbers) + 1)), section


def test_a_number_that_no_demand_has() -> None:
    with pytest.raises(UnknownClause, match="5-99"):
        clause("5-99")
