"""The logs of a device: prematurely ended jobs, and packets that could not be sent."""

import errno
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from fanin_nic.daemon import status
from fanin_nic.daemon.status import JobLog, SendErrors
from fanin_nic.engine.records.tables import JOB, JobState
from fanin_wire.abi import Status

PEER = "10.0.0.2"


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize(("before", "key", "lines"), [(JobState.ACTIVE, 1, 1), (JobState.ACTIVE, 2, 0), (0, 1, 0)])
def test_only_the_end_of_a_job_that_was_there_is_told(
    before: int, key: int, lines: int, said: pytest.LogCaptureFixture
) -> None:
    """A record may get the tombstone of another incarnation, or of a refused job."""
    jobs = np.zeros(1, JOB)
    jobs["jid"], jobs["key"], jobs["state"] = 7, 1, before
    log = JobLog(jobs)
    jobs["key"], jobs["state"], jobs["status"] = key, JobState.ABORTED, Status.PEER_LOST
    log.look()
    assert len(said.records) == lines


def test_a_full_queue_is_told_if_it_stays(monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture) -> None:
    now, lost = 0.0, 0
    monkeypatch.setattr(status.time, "monotonic", lambda: now)
    port = SimpleNamespace(
        lane=0, mtu=1500, failed_sends=lambda: lost, send_errors=lambda: {PEER: (lost, errno.EAGAIN)}
    )
    log = SendErrors([port])
    for moment in (100.0, 3700.0, 7300.0):
        now, lost = moment, lost + 1
        log.look()
    assert not said.records
    for _ in range(5):
        now, lost = now + 0.5, lost + 1
        log.look()
    assert [record.message for record in said.records] == [
        f"5 packets to {PEER} could not be sent: EAGAIN {errno.EAGAIN}; {status.FULL}"
    ]
