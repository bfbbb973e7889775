"""A member after a failed agreement about the survivors."""

from __future__ import annotations

from typing import Any

import pytest

from fanin import FaninError, errors
from fanin_train.replacement.recovery import Fenced, Training

MEMBERS = 3
LOST = (errors.PeerLost, errors.Timeout, errors.Aborted)


class Pool:
    """Its agreement fails so many times, with `failure`."""

    rank, size = 0, MEMBERS

    def __init__(self, failure: type[FaninError], times: int) -> None:
        self.failure, self.times = failure, times

    def shrink(self, patience: float) -> Pool:
        if self.times == 0:
            return Pool(self.failure, 0)
        self.times -= 1
        raise self.failure("a member is lost meanwhile")


@pytest.mark.parametrize("failure", LOST)
def test_it_is_tried_again_as_often_as_there_are_members(failure: type[FaninError]) -> None:
    pool: Any = Pool(failure, MEMBERS)
    training = Training(pool, 2, {})
    assert training._shrink(1.0) is training.pool
    assert training.pool is not pool


@pytest.mark.parametrize("failure", LOST)
def test_then_the_others_have_gone_on(failure: type[FaninError]) -> None:
    pool: Any = Pool(failure, MEMBERS + 1)
    with pytest.raises(Fenced, match="no agreement with the others"):
        Training(pool, 2, {})._shrink(1.0)
