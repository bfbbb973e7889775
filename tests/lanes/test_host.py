"""Events of a job in one lane affect it in all lanes, and no other job."""

import pytest

from fanin_nic.daemon.loop.lane import Reason
from fanin_nic.hostif.ports import Refused
from fanin_wire import abi
from fanin_wire.abi import Status
from tests.lanes.stepped_lanes import KEY, LANES

SUCCESS, TIMEOUT, LOST = Status.SUCCESS, Status.TIMEOUT, Status.PEER_LOST


@pytest.mark.parametrize("lane", range(LANES))
def test_a_job_that_ends_in_one_lane_ends_in_all(lanes, lane):
    """Also without a request under way that could report it."""
    lanes.joined()
    lanes.cores[lane].host.fail(lanes.queue, LOST)
    assert lanes.turn(lane) == Reason.ENDED
    lanes.host.spread_ends()
    assert lanes.ends() == [LOST, LOST]


def test_a_lane_says_once_that_a_job_has_ended(lanes):
    lanes.joined()
    lanes.cores[1].host.fail(lanes.queue, LOST)
    assert [lanes.turn(1), lanes.turn(1)] == [Reason.ENDED, Reason.INTERRUPTED]


def test_a_request_that_fails_alone_does_not_stop_the_lanes(lanes):
    """A client could block all lanes with requests of no job."""
    lanes.post()
    assert lanes.turn(0) == Reason.INTERRUPTED  # the test's own call


def test_a_completion_without_room_ends_the_job_in_all_lanes(lanes):
    lanes.joined()
    for _ in range(abi.CQ_DEPTH):
        lanes.post()
        assert lanes.turn(0) == Reason.INTERRUPTED
    lanes.post()
    assert lanes.turn(0) == Reason.ENDED
    lanes.host.spread_ends()
    assert lanes.ends() == [Status.CQ_OVERRUN] * LANES


def test_a_second_join_is_refused_and_leaves_the_job_alone(lanes):
    lanes.joined()
    with pytest.raises(Refused) as refusal:
        lanes.join(tag=2)
    assert refusal.value.status == Status.INVALID_REQUEST
    assert list(lanes.answers()) == []
    assert lanes.ends() == [None, None]
    assert all(core.host.is_in_job(lanes.queue) for core in lanes.cores)


def test_an_answer_that_is_out_of_date_changes_nothing(lanes):
    """An impatient client: its first JOIN is refused after it has left and joined another job."""
    lanes.join(tag=1, ranks=2)
    lanes.host.leave(lanes.queue, 2)
    lanes.join(tag=3, key=KEY + 1)
    told = list(lanes.answers())
    assert [(tag, status) for tag, status in told if status != Status.PENDING] == [
        (1, TIMEOUT), (2, SUCCESS), (3, SUCCESS),
    ]  # fmt: skip
    assert lanes.ends() == [None, None]
    assert all(core.host.is_in_job(lanes.queue) for core in lanes.cores)
    assert lanes.splitter.queues["slots"][lanes.queue] > 0
