"""Answers of several lanes to one JOIN."""

import numpy as np
import pytest

from fanin_nic.daemon.lanes.host import Answers
from fanin_nic.engine.records.actions import ACTION
from fanin_wire.abi import Status


def notice(number: int, status: str = "SUCCESS") -> np.void:
    record = np.zeros(1, ACTION)
    record["wr_id"], record["status"] = number, Status[status]
    return record[0]


@pytest.fixture
def answers() -> Answers:
    return Answers(3)


def test_all_must_agree(answers):
    number = answers.ask(5, tag=40)
    assert answers.add(2, notice(number)) is None
    assert answers.add(0, notice(number)) is None
    question = answers.add(1, notice(number))
    assert question is not None
    assert (question.queue, question.tag, sorted(question.answers)) == (5, 40, [0, 1, 2])
    assert answers.add(1, notice(number)) is None


def test_the_first_refusal_decides(answers):
    number = answers.ask(5, tag=40)
    answers.add(0, notice(number))
    question = answers.add(1, notice(number, "NO_RESOURCES"))
    assert question is not None
    assert question.tag == 40
    assert answers.add(2, notice(number, "JID_IN_USE")) is None


def test_pending_answers_pass(answers):
    number = answers.ask(5, tag=40)
    assert answers.add(0, notice(number, "PENDING")) is not None
    assert answers.add(1, notice(number, "PENDING")) is not None
    assert [answers.add(lane, notice(number)) is None for lane in range(3)] == [True, True, False]


def test_equal_tags_of_two_clients_are_told_apart(answers):
    first, second = answers.ask(5, tag=1), answers.ask(6, tag=1)
    for lane in range(3):
        question = answers.add(lane, notice(second))
    assert question is not None
    assert question.queue == 6
    assert answers.add(0, notice(first)) is None


def test_late_answers_to_a_closed_queue_are_dropped(answers):
    number = answers.ask(5, tag=40)
    answers.forget(5)
    assert answers.add(0, notice(number, "PEER_LOST")) is None
