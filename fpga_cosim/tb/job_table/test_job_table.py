"""Jobs from their first CONFIG to their end: found by their jid, one entry each, with their state."""

import pytest

from fpga_cosim.tb.steps import JOB, STATUS, Steps, number
from fpga_cosim.tb.verilated import Module

JOBS = 2
CONFIG = {"config_mask": 0b111, "config_lease": 8, "config_slots": 8, "config_window": 6, "config_chunk": 1024}
CONFIG |= {"config_digest": 3 << 100, "config_in_order": 1}
END = {"end_status": STATUS["PEER_LOST"], "end_bits": 0b100, "end_above": 7, "end_lost": 0x0A000003}
SECOND = 1_000_000  # microseconds


@pytest.fixture
def table() -> Steps:
    return Steps(Module("job_table", {"JOBS": JOBS}))


def look_up(table: Steps, jid: int, key: int = 9) -> bool:
    """Whether a job is found; from now on it has the turn, and the packet."""
    table.keep(jid=jid, key=key, looks_up=1)
    table.step()
    table.keep(looks_up=0)
    return bool(table.step()["found"])


def form(table: Steps, jid: int, key: int = 9) -> int:
    """Form a new job. Returns its entry."""
    assert not look_up(table, jid, key)
    table.step(forms=1, **CONFIG)
    return int(table.step()["job"])


def test_entries_are_given_until_there_is_none(table: Steps) -> None:
    assert [form(table, jid) for jid in range(100, 104)] == [0, 1, 2, 3]
    for jid in range(100, 104):
        assert look_up(table, jid)
        assert (table.step()["own_jid"], table.step()["job"]) == (jid, jid - 100)
    assert not look_up(table, 104)
    assert not table.step()["has_entry"]
    look_up(table, 102)
    table.step(frees=1)
    assert not look_up(table, 102)
    assert form(table, 105) == 2


def test_a_job_from_its_first_child_to_its_end(table: Steps) -> None:
    form(table, 5)
    seen = table.step(jid=5, key=9)
    assert (seen["state"], seen["key_is_right"], seen["slots"], seen["window"]) == (JOB["JOINING"], 1, 8, 6)
    assert (seen["mask"], seen["chunk"], number(seen["digest"]), seen["in_order"]) == (0b111, 1024, 3 << 100, 1)
    assert not table.step(key=8)["key_is_right"]
    table.step(joins=1, source_bit=0b010, config_slots=4, config_window=9)
    table.step(joins=1, source_bit=0b100, config_slots=8, config_window=3)
    seen = table.step()
    assert (seen["joined"], seen["slots"], seen["window"]) == (0b110, 4, 3)  # the least of each
    table.step(halves=1)
    table.step(activates=1)
    seen = table.step()
    assert (seen["state"], seen["window"]) == (JOB["ACTIVE"], 2)
    table.step(leaves=1, source_bit=0b010)
    table.step(aborts=1, **END)
    table.step(buries=1)
    seen = table.step()
    assert (seen["state"], seen["left"]) == (JOB["TOMBSTONE"], 0b010)
    assert tuple(seen[name] for name in ("status", "bits", "above", "lost")) == tuple(END.values())
    table.step(frees=1)
    assert table.step()["state"] == JOB["FREE"]


def test_a_key_that_was_refused_stays_refused(table: Steps) -> None:
    form(table, 5)
    table.step(refuses=1, key=77)
    table.step(frees=1)
    assert look_up(table, 5, 77)
    seen = table.step()
    assert (seen["state"], seen["key_is_right"]) == (JOB["REMEMBERED"], 1)
    assert (seen["status"], seen["mask"]) == (STATUS["JID_IN_USE"], 0)


def test_an_end_is_remembered_where_there_is_room(table: Steps) -> None:
    for jid in range(100, 103):
        form(table, jid)
    for jid in (7, 8):  # the second one in the place of the first one
        assert not look_up(table, jid)
        table.step(remembers=1, **END)
        assert look_up(table, jid)
        seen = table.step()
        assert (seen["state"], seen["status"], seen["bits"]) == (JOB["REMEMBERED"], END["end_status"], 0b100)
    assert not look_up(table, 7)


def test_a_scan_goes_through_all_entries(table: Steps) -> None:
    form(table, 5)
    table.step(looks_up=1, to_first=1)
    assert [int(table.step(to_next=1)["job"]) for _ in range(5)] == [0, 1, 2, 3, 0]


def test_times(table: Steps) -> None:
    """Times of the job, one clock late."""
    form(table, 5)
    table.step(is_heard=1, lived_us=10)
    table.step(loses=1, invites=1, now_us=10)

    def seen(us: int) -> tuple[int, int, int]:
        table.step(now_us=us, lived_us=us)
        outputs = table.step()
        return tuple(int(outputs[name]) for name in ("was_invited", "had_loss", "is_aged"))

    assert seen(SECOND // 3) == (1, 1, 0)
    assert seen(SECOND // 2) == (0, 1, 0)
    assert seen(5 * SECOND + 10) == (0, 1, 0)
    assert seen(5 * SECOND + 11) == (0, 0, 0)
    assert seen(60 * SECOND + 11) == (0, 0, 1)
