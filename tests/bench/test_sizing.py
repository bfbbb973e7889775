"""The estimate for cards: its formulas, by numbers worked out by hand, and errors of its input."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanin_tools.bench import engine, port, sizing
from fanin_tools.bench.sizing import Card, Cost, Costs, Job
from fanin_tools.cli.app import app
from fanin_tools.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs/performance.md"
HERE = Costs(Cost(100e-9, 100e-12), Cost(200e-9, 300e-12), 3.0, 64, "some processor")
# Its core has half the clock, half the instructions of a cycle, and a quarter of the bytes.
CARD = Card("card", 5, 1.5, 0.5, 16, 12.5e9, 31.5e9, 25.6e9)


def test_fit_finds_the_cost_of_packet_and_byte() -> None:
    rates = {payload: 1 / (50e-9 + 80e-12 * payload) for payload in (256, 1024, 4096)}
    found = sizing.fitted(rates)
    assert (found.packet, found.byte) == pytest.approx((50e-9, 80e-12))


def test_no_part_of_a_cost_is_below_zero() -> None:
    found = sizing.fitted({256: 1e7, 1024: 1e6, 4096: 2e5})
    assert found.packet == 0
    assert found.byte > 0
    assert sizing.fitted({256: 1e6, 4096: 1.1e6}).byte == 0


def test_costs_are_scaled_by_clock_instructions_and_vectors() -> None:
    found = sizing.scaled(HERE.engine, HERE, CARD)
    assert (found.packet, found.byte) == pytest.approx((100e-9 * 2 / 0.5, 100e-12 * 2 * 4))


def test_estimate_by_hand() -> None:
    """2 ranks, segments of 1000 bytes: 3 packets through the engine, 2 through the port."""
    found = sizing.estimate(HERE, CARD, Job(4, 2), 1000)
    seconds = 3 * (400e-9 + 800e-9) + 2 * (800e-9 + 2400e-9)
    assert found.lane == pytest.approx(1000 / seconds)
    assert found.cores == pytest.approx(4 * 1000 / seconds)
    assert (found.link, found.pcie, found.memory) == pytest.approx((12.5e9, 15.75e9, 25.6e9 / 9))
    assert (found.one_lane, found.all_cores) == (found.lane, found.cores)
    assert found.gain == pytest.approx(1.5 * found.cores / 12.5e9)


def test_the_least_part_bounds_a_job() -> None:
    fast = Costs(Cost(1e-12, 0), Cost(1e-12, 0), 3.0, 64, "")
    assert sizing.estimate(fast, CARD, Job(4, 2)).all_cores == pytest.approx(25.6e9 / 9)
    assert sizing.estimate(fast, CARD._replace(memory=1e15), Job(4, 2)).all_cores == 12.5e9
    assert sizing.estimate(fast, CARD._replace(memory=1e15), Job(4, 63)).all_cores == 0.5e9


def test_costs_are_those_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the engine's rows the larger working set with both ICRCs counts, in its best rounds."""
    rows = [
        engine.Row(payload, volume, check, 1e-9, best)
        for payload in (256, 1024, 4096)
        for volume, check, best in (
            (64 << 20, sizing.CHECK, 1e-6 / (50e-9 + 80e-12 * payload)),
            (64 << 20, engine.CHECKS[engine.NO_ICRC], 1.0),
            (256 << 10, sizing.CHECK, 1.0),
        )
    ]
    ports = [port.Row(payload, 1 / (1e-6 + 1e-9 * payload), 0.0) for payload in (256, 1024, 4096)]
    monkeypatch.setattr(engine, "measure", lambda *_: rows)
    monkeypatch.setattr(port, "measure", lambda *_: ports)
    found = sizing.measure("sizing", lambda _: None, 2.5)
    assert (found.engine.packet, found.engine.byte) == pytest.approx((50e-9, 80e-12))
    assert (found.port.packet, found.port.byte) == pytest.approx((1e-6, 1e-9))
    assert found.gigahertz == 2.5


def test_a_clock_that_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "processor_of", lambda _: (0.0, 16, "unknown"))
    with pytest.raises(UsageError, match="NO_CLOCK"):
        sizing.measure("sizing", lambda _: None)


def test_processor() -> None:
    text = "model name\t: Some CPU @ 2.10GHz\ncpu MHz\t\t: 2100.000\nflags\t\t: fpu avx2 avx512f\n"
    assert sizing.processor_of(text) == (2.1, 64, "Some CPU @ 2.10GHz")
    assert sizing.processor_of(text.replace(" avx512f", "")) == (2.1, 32, "Some CPU @ 2.10GHz")
    assert sizing.processor_of("Features\t: fp asimd\n") == (0.0, 16, "unknown")


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    """Costs as docs/performance.md begins with, written by its command."""
    (text,) = re.findall(r"<<'END'\n(.*?)^END$", PAGE.read_text(), re.M | re.S)
    (tmp_path / "costs.json").write_text(text)
    return tmp_path / "costs.json"


def test_earlier_costs_give_the_same_table(costs: Path) -> None:
    first = CliRunner().invoke(app, ["bench", "sizing", "--costs", str(costs), "--json"])
    assert first.exit_code == 0, first.output
    assert json.loads(first.output)["costs"] == json.loads(costs.read_text())["costs"]
    costs.write_text(first.output)
    again = CliRunner().invoke(app, ["bench", "sizing", "--costs", str(costs), "--json"])
    assert again.output == first.output


def test_the_page_has_the_tables_of_the_command(costs: Path) -> None:
    command = ["bench", "sizing", "--costs", str(costs), "--nodes", "4", "--ranks", "2"]
    printed, found = (CliRunner().invoke(app, [*command, *more]).output for more in ([], ["--json"]))
    estimates = [cells(line, "│") for line in printed.splitlines() if "BlueField" in line]
    assert estimates
    page = PAGE.read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| BlueField-\d \| [\d.]+ \|", line)]
    assert [cells(row, "|") for row in rows] == estimates
    gains = {row["card"]: row["gain"] for row in json.loads(found)["rows"]}
    told = re.findall(r"([\d.]+) times \((BlueField-\d)\)", " ".join(page.split()))
    assert told == [(f"{gain:.2g}", card) for card, gain in gains.items()]


def cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in line.strip(f"{separator} ").split(separator)]


GOOD = {
    "engine": {"packet": 1e-7, "byte": 0},
    "port": {"packet": 1e-6, "byte": 0},
    "gigahertz": 2.5,
    "vector_bytes": 32,
    "processor": "",
}
WRONG: tuple[dict[str, object], ...] = (
    {"gigahertz": 0},
    {"vector_bytes": 0},
    {"port": {"packet": 0, "byte": 0}},
    {"engine": {"packet": -1, "byte": 2}},
)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"costs": {"engine": 1}}', *(json.dumps({"costs": GOOD | wrong}) for wrong in WRONG)]
)
def test_wrong_costs_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    done = CliRunner().invoke(app, ["bench", "sizing", "--costs", str(path)])
    assert (done.exit_code, "BAD_COSTS" in done.output) == (2, True)
