"""Statistics of measured times: medians, quartiles, ratios and bounds, in tables and plots."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from fanin_tools.bench import bounds, machine, mpi_shim, plot, report, setups
from fanin_tools.bench.compare import Comparison, Row, sizes_that_fit
from fanin_tools.bench.samples import Summary, slowest_rank
from fanin_tools.bench.setups import EVERY_SETUP, OVER_NETWORK, Setup
from fanin_tools.errors import ToolError, UsageError
from fanin_tools.fabric.generate import make

SHAPED = Setup(4, netns=True, rate="1gbit", variants=OVER_NETWORK)


def summary(microseconds: float) -> Summary:
    return Summary(microseconds, microseconds * 0.9, microseconds * 1.1, microseconds / 2, 10)


def comparison(peers: bool = True, setup: Setup = SHAPED) -> Comparison:
    """With times in microseconds that are easily compared."""
    times = {("fanin tree", True): 200, ("fanin ring", True): 400}
    if peers:
        times |= {("Open MPI", False): 300, ("MPICH", False): 500}
    rows = [
        Row(name, ours, size, summary(time * size), None if setup.rate == "" else 100 * size)
        for size in (8, 4096)
        for (name, ours), time in times.items()
    ]
    return Comparison(setup, tuple(rows))


def test_the_slowest_rank_of_each_repetition_counts() -> None:
    assert slowest_rank([[1, 5, 3], [2, 4, 3]]) == [2, 5, 3]


def test_median_and_quartiles() -> None:
    found = Summary.of([5000, 1000, 4000, 2000, 3000])
    assert found == Summary(3.0, 2.0, 4.0, 1.0, 5)
    assert found.spread == pytest.approx(2 / 3)
    assert Summary.of([7000]) == Summary(7.0, 7.0, 7.0, 7.0, 1)


def test_ratio_is_that_to_the_best_peer() -> None:
    found = comparison()
    assert found.ratio("fanin tree", 8) == 1.5
    assert found.ratio("fanin ring", 4096) == 0.75
    assert comparison(peers=False).ratio("fanin tree", 8) is None


def test_bandwidth_is_of_the_message() -> None:
    assert comparison().row("fanin tree", 4096).bandwidth == pytest.approx(4096 / (200e-6 * 4096))


def test_table_for_the_documentation() -> None:
    lines = report.markdown(comparison()).splitlines()
    assert lines[0] == "### 4 namespaces, 1gbit"
    assert lines[2] == "| bytes | fanin tree | fanin ring | Open MPI | MPICH | bandwidth | of bound | ratio |"
    assert lines[4] == (
        "| 8 B | 1.6 ms ±10% | 3.2 ms ±10% | 2.4 ms ±10% | 4 ms ±10% | 4.883 KiB/s | 50.0% | 1.50 / 0.75 |"
    )


def test_json_has_the_lanes_that_were_used() -> None:
    assert comparison().as_dict()["setup"]["lanes"] == 1
    assert comparison(setup=Setup(4, lanes=2)).as_dict()["setup"]["lanes"] == 2


def test_table_without_peers_and_bounds_has_no_columns_for_them() -> None:
    found = comparison(peers=False, setup=Setup(4, netns=True, variants=OVER_NETWORK))
    assert report.markdown(found).splitlines()[2] == "| bytes | fanin tree | fanin ring | bandwidth |"
    assert report.explanation([found]).endswith("bandwidth: algorithm's, best of ours.")
    assert report.explanation([found, comparison()]).endswith("of the columns; of bound: least time in ours.")


def test_tables_fit_a_terminal() -> None:
    """Of one node, with all contenders: no cell wraps."""
    ours = ["registered", "ordinary", "C program", "Open MPI with Fanin", "MPICH with Fanin"]
    rows = [Row(name, name in ours, 64 << 20, summary(123_000), None) for name in [*ours, "Open MPI", "MPICH"]]
    console = Console(width=110, record=True, file=io.StringIO())
    console.print(*report.tables(Comparison(Setup(4), tuple(rows))))
    shown = console.export_text().splitlines()
    assert [line.count("123 ms ±10%") for line in shown if "123" in line] == [7]
    assert [line.count("1.00") for line in shown if "1.00" in line] == [5]


REPORT = """
fanin: calls of all ranks        offloaded            bytes  left to MPI  why
fanin: Allreduce                       {}           249600 {:12}  {}
fanin: THRESHOLD: the MPI is faster, by the thresholds (FANIN_MPI_THRESHOLDS, fanin tune)
"""


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (REPORT.format(480, 0, ""), ""),
        (REPORT.format(470, 10, "THRESHOLD 10"), "10 of 480 calls not offloaded: THRESHOLD 10"),
        (REPORT.format(470, 0, ""), "10 of 480 calls not offloaded"),
        ("fanin: NO_DEVICE: collectives stay with MPI", "nothing offloaded: the shim has reported no call"),
    ],
)
def test_report_lists_calls_that_the_shim_did_not_offload(report: str, words: str) -> None:
    assert mpi_shim.shortfall(report, 480) == words


def test_columns_of_the_shim_say_whether_they_are_ours() -> None:
    found = replace(comparison(), shortfalls={"fanin ring": "2 of 9 calls not offloaded", "fanin tree": ""})
    lines = report.markdown(found).splitlines()
    assert lines[2].startswith("| bytes | fanin tree | fanin ring (not all offloaded) | Open MPI |")
    assert lines[-3:] == ["fanin ring: 2 of 9 calls not offloaded.", "", "fanin tree: all calls offloaded."]


def test_everything_is_saved(tmp_path: Path) -> None:
    found = comparison()
    report.save([found], report.Circumstances(machine.describe(), {"MPICH": "5.0"}), tmp_path)
    plot.save(found, tmp_path / "p.png")
    saved = json.loads((tmp_path / "results.json").read_text())
    assert [row["ratio"] for row in saved["comparisons"][0]["rows"][:2]] == [1.5, 0.75]
    assert saved["machine"]["cores"] >= 1
    text = (tmp_path / "results.md").read_text()
    assert report.markdown(found) in text
    assert "MPICH 5.0" in text
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_bound_of_shaped_links_is_the_message_over_the_rate() -> None:
    assert bounds.bound_us(SHAPED, 125_000_000) == pytest.approx(1e6)
    assert bounds.bound_us(Setup(4, netns=True, variants=OVER_NETWORK), 8) is None


def test_bound_of_one_node_is_that_of_its_memory() -> None:
    small, large = (bounds.bound_us(Setup(2), size) for size in (1 << 16, 1 << 22))
    assert small is not None
    assert large is not None
    assert 0 < small < large


def test_messages_for_which_there_is_no_memory_are_left_out() -> None:
    said: list[str] = []
    assert sizes_that_fit([8, 1 << 50], 16, said.append) == [8]
    assert said == ["left out for want of memory: 1.049e+06 GiB"]
    with pytest.raises(ToolError, match=r"NO_RESOURCES: 16 pairs of arrays of 1.049e\+06 GiB do not fit"):
        sizes_that_fit([1 << 50, 1 << 51], 16, said.append)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("p.xyz", "does not end like a picture"),
        ("p", "does not end like"),
        ("gone/p.png", "can not be"),
        ("f.png", "can not"),
    ],
)
def test_pictures_that_can_not_be_drawn_are_refused(tmp_path: Path, name: str, cause: str) -> None:
    (tmp_path / "f.png").mkdir()
    plot.require_plot([tmp_path / "p.png", tmp_path / "p.SVG"])
    with pytest.raises(UsageError, match=cause):
        plot.require_plot([tmp_path / "p.png", tmp_path / name])


def test_setups_differ_in_title_and_name() -> None:
    assert len({setup.title for setup in EVERY_SETUP}) == len({setup.name for setup in EVERY_SETUP}) == len(EVERY_SETUP)


def test_setups_are_chosen_by_name() -> None:
    assert setups.chosen("") == list(EVERY_SETUP)
    assert [setup.ranks for setup in setups.chosen("netns-8,local-2")] == [8, 2]
    with pytest.raises(UsageError, match=r"there is no set-up local-3; use some of local-2, local-4"):
        setups.chosen("local-2,local-3")


def test_sizes_are_read_and_checked() -> None:
    assert setups.parse_sizes("8,4K,1M,4096") == (8, 4096, 1 << 20)
    with pytest.raises(UsageError, match="multiples of 4"):
        setups.parse_sizes("8,6")


@pytest.mark.parametrize(("size", "times"), [(8, 1000), (1 << 20, 64), (1 << 28, 2)])
def test_large_messages_are_repeated_less_often(size: int, times: int) -> None:
    assert setups.repetitions(size) == times


def test_multicast_can_be_left_out() -> None:
    setup = Setup(4, netns=True, variants=OVER_NETWORK, multicast=False)
    assert setup.title == "4 namespaces, unshaped, no multicast"
    assert [switch.group for switch in make("f", setup.shape).switches] == [""]
    assert [bool(switch.group) for switch in make("f", Setup(4, netns=True).shape).switches] == [True]
