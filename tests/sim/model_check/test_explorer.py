"""The model checker searches all instances of the real engine. Numbers of states are printed (pytest -s)."""

import pytest

from fanin_sim.model_check.explorer import Explorer, main
from fanin_sim.model_check.instances import INSTANCES
from fanin_sim.model_check.rank_programs import Violation


@pytest.mark.deep
@pytest.mark.parametrize("name", INSTANCES)
def test_nothing_bad_can_happen(name: str) -> None:
    report = Explorer(INSTANCES[name]).run()
    print(f"\n{name}: {report}")
    assert report.states > 40
    assert report.transitions > report.states


def test_faults_add_states() -> None:
    """Further faults enlarge the search. A search that ignores faults would fail here."""
    tree = INSTANCES["tree"]
    sizes = [Explorer(tree._replace(losses=n, copies=n)).run().states for n in (0, 1)]
    assert sizes[0] * 10 < sizes[1]


def test_deaths_are_explored_and_told() -> None:
    """Deaths add states. When a rank dies, the others get PEER_LOST."""
    instance = INSTANCES["a death on a node"]
    sizes = [Explorer(instance._replace(deaths=deaths)).run().states for deaths in (0, 1)]
    assert sizes[0] * 2 < sizes[1]
    deaf = Explorer(instance)
    deaf.world.instance = instance._replace(deaths=0)  # so no failure may be told
    with pytest.raises(Violation, match="PEER_LOST"):
        deaf.run()


@pytest.mark.parametrize("name", ["a NIC restarts", "a NIC of a ring restarts", "the switch restarts"])
def test_crashes_and_restarts_are_explored_and_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crashes and restarts add states. Surviving ranks get PEER_LOST, which names the crashed device."""
    instance = INSTANCES[name]
    faults = ((0, 0), (1, 0), (1, 1))
    sizes = [
        Explorer(instance._replace(crashes=crashes, restarts=restarts)).run().states for crashes, restarts in faults
    ]
    assert sizes[0] * 2 < sizes[1] < sizes[2]
    monkeypatch.setattr(Explorer, "crashed", staticmethod(lambda _seen: 0))  # so no device may be named
    with pytest.raises(Violation, match="is told that others are lost"):
        Explorer(instance).run()


def test_reports_the_way_to_a_violation() -> None:
    """With a wrong reference every completion is a violation, which the message shows."""
    explorer = Explorer(INSTANCES["tree"]._replace(losses=0, copies=0))
    for references in explorer.world.references.values():
        references[0] = references[0] + 1
    with pytest.raises(Violation, match="a wrong result"):
        explorer.run()


def test_unknown_instance_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tree", "--help"]) == 2
    assert "there is no instance --help; use some of: tree, " in capsys.readouterr().err
