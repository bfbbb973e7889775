"""Lives under attack without violations. Mutants of the transport run this file."""

from fanin_sim.hostile.life import Life

LIVES = 200


def test_nothing_is_violated() -> None:
    for seed in range(LIVES):
        outcome = Life(seed).run()
        assert not outcome.violation, f"seed {seed}: {outcome.violation}"
