"""Jobs on the nodes of a public trace: `python -m fanin_cluster.placement.trace NODES.csv PODS.csv`.

The files are those of Alibaba's cluster-trace-gpu-v2023: nodes have a column `gpu`, pods `num_gpu` and `gpu_milli`.
Pods with whole GPUs are the workers. The trace has neither NICs nor jobs, so each node is assumed to have two NICs in
two subnets, each with half of the GPUs, and a job 1, 2 or 4 workers of a size drawn from the pods. Jobs come, and none
ends, until they want all GPUs.

| policy | a worker gets |
| --- | --- |
| pairs | pairs of one class, that `choose` gives the whole job |
| pairs, large | the same; one that is larger than any class gets all pairs of a node, of both classes |
| kubelet, separate | free GPUs of a node in any order, and any free VF: two resources, without topology |
| kubelet, one NUMA node | the same, but a worker whose GPUs and VF are not of one NUMA node is refused |

The kubelet's policies take the fullest node with enough free GPUs, as the others take the fullest class: a scheduler
sees only numbers of a node.
"""

import csv
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fanin_cluster.errors import ClusterError
from fanin_cluster.placement.choice import Job, choose

WORKERS = (1, 2, 4)
WHOLE = 1000  # thousandths of a GPU
REMEDY = "give a CSV file of the trace"
PIECE = 4  # GPUs of the worker by which free ones are judged


class Policy(StrEnum):
    """How a worker gets its GPUs: see the table above."""

    PAIRS = "pairs"
    PAIRS_LARGE = "pairs, large"
    SEPARATE = "kubelet, separate"
    ONE_NUMA = "kubelet, one NUMA node"


class TraceInvalid(ClusterError):
    """A file that is not a trace."""


@dataclass(frozen=True)
class Placed:
    """What became of the jobs.

    jobs, all_jobs: placed ones, and all
    gpus, all_gpus: in use, and all
    aligned, workers: placed workers whose GPUs and VF are of one NIC each, and all placed ones
    one_subnet: placed jobs whose workers have VFs of one subnet
    usable, free: free GPUs that workers of PIECE GPUs could still get, and all free ones
    """

    jobs: int
    all_jobs: int
    gpus: int
    all_gpus: int
    aligned: int
    workers: int
    one_subnet: int
    usable: int
    free: int


def read_column(path: Path, column: str, *, whole: bool = False) -> list[int]:
    """The nonzero numbers of a column; with `whole` only of pods that share no GPU. Raises TraceInvalid."""
    try:
        with path.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        found = [int(row[column]) for row in rows if not whole or int(row["gpu_milli"]) == WHOLE]
    except OSError as error:
        raise TraceInvalid(f"{path} can not be read: {error.strerror}", REMEDY) from None
    except (KeyError, ValueError, TypeError, csv.Error) as error:
        raise TraceInvalid(f"{path} has no column {column} of numbers: {error}", REMEDY) from None
    if not any(found) or min(found) < 0:
        raise TraceInvalid(f"{path}: column {column} has no number above 0", REMEDY)
    return [each for each in found if each]


def draw_jobs(pods: Sequence[int], gpus: int, seed: int) -> list[Job]:
    """Draw jobs until they want `gpus` GPUs."""
    chance = random.Random(seed)
    found, wanted = [], 0
    while wanted < gpus:
        job = Job(chance.choice(WORKERS), chance.choice(pods))
        found.append(job)
        wanted += job.workers * job.gpus
    return found


def place(nodes: Sequence[int], jobs: Sequence[Job], policy: Policy, seed: int = 0) -> Placed:
    """Place jobs on nodes of so many GPUs."""
    chance = random.Random(seed)
    free = [[gpus - gpus // 2, gpus // 2] for gpus in nodes]
    placed: list[Job] = []
    aligned = one_subnet = 0
    for job in jobs:
        if policy in (Policy.PAIRS, Policy.PAIRS_LARGE):
            done = _by_class(free, job) or (policy is Policy.PAIRS_LARGE and _whole_nodes(free, nodes, job))
            if done:
                placed.append(job)
                aligned += job.workers
                one_subnet += done == "class"
            continue
        workers = _by_numbers(free, job, chance, one_numa=policy is Policy.ONE_NUMA)
        if workers is not None:
            placed.append(job)
            aligned += sum(good for good, _ in workers)
            one_subnet += len({vf for _, vf in workers}) == 1
    left = [sum(node) for node in free]
    pieces = left if policy is Policy.SEPARATE else [each for node in free for each in node]
    return Placed(
        len(placed),
        len(jobs),
        sum(job.workers * job.gpus for job in placed),
        sum(nodes),
        aligned,
        sum(job.workers for job in placed),
        one_subnet,
        sum(each - each % PIECE for each in pieces),
        sum(left),
    )


def _by_class(free: list[list[int]], job: Job) -> str:
    choice = choose(free, job)
    if choice is None:
        return ""
    for node, count in zip(free, choice.workers, strict=True):
        node[choice.resource_class] -= count * job.gpus
    return "class"


def _whole_nodes(free: list[list[int]], nodes: Sequence[int], job: Job) -> str:
    """Place workers that no class could ever hold, each on all pairs of a node."""
    if any(gpus - gpus // 2 >= job.gpus for gpus in nodes):
        return ""
    fitting = [node for node, gpus in zip(free, nodes, strict=True) if gpus == job.gpus == sum(node)]
    if len(fitting) < job.workers:
        return ""
    for node in fitting[: job.workers]:
        node[:] = [0, 0]
    return "nodes"


def _by_numbers(
    free: list[list[int]], job: Job, chance: random.Random, *, one_numa: bool
) -> list[tuple[bool, int]] | None:
    """For each worker whether it is aligned, and the NIC of its VF; None if one found no node, or was refused."""
    given: list[tuple[int, int, int]] = []  # node, GPUs of its first NIC, and of its second one
    found: list[tuple[bool, int]] = []
    for _ in range(job.workers):
        fitting = [place for place, node in enumerate(free) if sum(node) >= job.gpus]
        if not fitting:
            break
        place = min(fitting, key=lambda each: sum(free[each]))
        node = free[place]
        whole = [side for side in (0, 1) if node[side] >= job.gpus]
        if one_numa:
            if not whole:
                break
            vf = min(whole, key=lambda side: node[side])
            first = job.gpus * (vf == 0)
        else:
            first = sum(each < node[0] for each in chance.sample(range(sum(node)), job.gpus))
            vf = int(chance.randrange(sum(node)) >= node[0])  # as many VFs as GPUs are free
        sides = first, job.gpus - first
        node[0] -= sides[0]
        node[1] -= sides[1]
        given.append((place, *sides))
        found.append((sides[vf] == job.gpus, vf))
    if len(found) == job.workers:
        return found
    for place, first, second in given:
        free[place][0] += first
        free[place][1] += second
    return None


def table(nodes: Sequence[int], pods: Sequence[int], seed: int = 1) -> str:
    jobs = draw_jobs(pods, sum(nodes), seed)
    lines = [
        f"{sum(nodes)} GPUs on {len(nodes)} nodes, {len(jobs)} jobs",
        "",
        "| policy | jobs placed | GPUs in use | workers aligned | jobs in one subnet "
        f"| of the free GPUs, for workers of {PIECE} |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for policy in Policy:
        found = place(nodes, jobs, policy, seed)
        cells = (
            f"{found.jobs / found.all_jobs:.1%}",
            f"{found.gpus / found.all_gpus:.1%}",
            f"{found.aligned / max(found.workers, 1):.1%}",
            f"{found.one_subnet / max(found.jobs, 1):.1%}",
            f"{found.usable} of {found.free}",
        )
        lines.append(f"| {policy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    if len(sys.argv) != 3:
        print("usage: python -m fanin_cluster.placement.trace NODES.csv PODS.csv", file=sys.stderr)
        return 2
    try:
        nodes, pods = read_column(Path(sys.argv[1]), "gpu"), read_column(Path(sys.argv[2]), "num_gpu", whole=True)
    except TraceInvalid as error:
        print(f"fanin: INVALID_REQUEST: {error}", file=sys.stderr)
        return 2
    print(table(nodes, pods), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
