"""Hostile packets for transports of ordinary RDMA traffic, in processes of their own (`fanin_sim.hostile`)."""

from fanin_tools.stress.tally import Tally, Work

PROCESSES = 2


def attack_transports(seconds: float, seed: int, tally: Tally) -> None:
    """Run the lives `seed`, `seed` + 1, ... for `seconds`, and add to `tally`."""
    from fanin_sim import hostile

    found = hostile.run(seconds, seed, PROCESSES)
    tally.work[Work.PACKETS] += found.counts["packets"]
    tally.work[Work.ACCEPTED] += found.reasons["taken"]
    tally.drops.update({f"ordinary_{name}": n for name, n in found.reasons.items() if name.startswith("drop_")})
    for finding in found.findings:
        tally.begin(finding.replay, seed=finding.seed)
        tally.find(finding.category, finding.description, details=finding.details)
