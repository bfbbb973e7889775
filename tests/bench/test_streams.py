"""The table of streams, and its stars."""

import pytest

from fanin_tools.bench import mpi_shim, streams
from fanin_tools.bench.streams import Row
from fanin_tools.errors import UsageError

ROWS = [
    Row("Open MPI", 4, "Bcast", 8, 0.25, 1.5, ""),
    Row("MPICH", 4, "Bcast", 8, 20.0, 1.25, ""),
    Row("Open MPI", 1, "Barrier", 0, 0.01, 0.02, "ONE_RANK"),
]


def test_the_mpis_stand_side_by_side() -> None:
    columns, lines = streams.cells(ROWS)
    assert columns == ("collective", "bytes", "ranks", "Open MPI", "with Fanin", "MPICH", "with Fanin")
    assert lines == [
        ("Bcast", "8 B", "4", "4,000", "667", "50.0", "800"),
        ("Barrier", "0 B", "1", "100,000", "50,000*", "", ""),
    ]


def test_calls_that_were_left_have_a_star_and_a_remark() -> None:
    assert streams.remarks(ROWS) == ["* Open MPI, 1 rank: calls were left to the MPI: ONE_RANK"]
    assert "| Bcast | 8 B | 4 | 4,000 | 667 | 50.0 | 800 |\n" in streams.markdown(ROWS)
    assert streams.remarks(ROWS)[0] in streams.markdown(ROWS)


def test_with_default_settings_a_column_has_the_ratio_of_times() -> None:
    columns, lines = streams.cells(ROWS, forced=False)
    assert columns == (*streams.COLUMNS, "Open MPI", "with Fanin", "time", "MPICH", "with Fanin", "time")
    assert lines[0] == ("Bcast", "8 B", "4", "4,000", "667", "6.00", "50.0", "800", "0.06")
    assert "`fanin bench streams --default-settings --into`" in streams.markdown(ROWS, forced=False)


def test_the_page_says_where_the_ranks_are() -> None:
    assert "\nOne node; " in streams.markdown(ROWS)
    assert "\nA rank on each of several hosts; " in streams.markdown(ROWS, hosts=4)
    assert "`fanin bench streams --nodes 4 --into`" in streams.markdown(ROWS, hosts=4)


@pytest.mark.parametrize("sizes", [(12,), (0,), (2 << 20,)])
def test_lengths_that_are_not_measured(sizes: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="multiples of 8 B"):
        streams.check_sizes(sizes)


def test_the_report_of_the_shim_says_what_was_left() -> None:
    report = "fanin: Bcast 120 960 0\nfanin: Reduce 1 8 3 TYPE\n"
    assert mpi_shim.calls_left(report) == {"Bcast": "", "Reduce": "TYPE"}
