"""Public topologies: their table, and its summary in docs/topology.md.

`python -m tests.cluster.survey FOLDER` reports changes; with `--write` it updates both. The folder has the files of
`.ci/fetch-topologies`.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from fanin_cluster.handoff.plan import HandoffInvalid, plan_handoff
from fanin_cluster.handoff.rehearsal import rehearse
from fanin_cluster.placement.classes import server_classes
from fanin_cluster.topology.machine import Machine
from fanin_cluster.topology.reading import read_machine
from fanin_cluster.topology.report import class_counts
from tests.cluster.by_hand import BY_HAND, differences

SIZE = 100_003
TABLE = Path(__file__).with_name("public_topologies.md")
PAGE = Path(__file__).parents[2] / "docs/topology.md"
BEGIN, END = "<!-- table: survey -->\n", "<!-- end of table -->\n"
COLUMNS = (
    *("file", "GPUs", "NICs", "with RDMA", "same switch", "same host bridge", "same NUMA node", "other"),
    *("links of a hand-off", "GPUs of each class"),
)


def row(name: str, machine: Machine) -> tuple[str, ...]:
    counts = len(machine.gpus), len(machine.nics), len(machine.rdma_nics), *class_counts(machine).values()
    return (name, *map(str, counts), links_of(machine), classes_of(machine))


def links_of(machine: Machine) -> str:
    """The links of a hand-off between two such machines, which is rehearsed on arrays."""
    try:
        plan = plan_handoff(SIZE, machine, machine)
    except HandoffInvalid:
        return "-"
    data = np.arange(SIZE, dtype=np.uint32).astype(np.uint8)
    rehearsal = rehearse(plan, data)
    assert rehearsal.second.valid.all()
    assert (rehearsal.second.bytes == data).all()
    assert (rehearsal.crossings == 1).all()
    return f"{len(plan.links)}, {plan.levels[0].words}"


def classes_of(machine: Machine) -> str:
    return " + ".join(str(len(each.pairs)) for each in server_classes(machine).classes) or "-"


def machines_in(folder: Path) -> dict[str, Machine]:
    paths = sorted(folder.glob("*/*.xml"))
    return {f"{path.parent.name}/{path.stem}": read_machine(path) for path in paths}


def table(machines: dict[str, Machine]) -> str:
    """The table in Markdown, and the summary."""
    shown = {name: machine for name, machine in machines.items() if machine.gpus}
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *(row(name, machine) for name, machine in shown.items())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + f"\n{summary(machines)}\n"


def summary(machines: dict[str, Machine]) -> str:
    both = [machine for machine in machines.values() if machine.gpus and machine.rdma_nics]
    near = [class_counts(machine)[0] for machine in both]
    every = sum(count == len(machine.gpus) for count, machine in zip(near, both, strict=True))
    none = near.count(0)
    with_gpus = sum(bool(machine.gpus) for machine in machines.values())
    plans = Counter(links_of(machine).partition(", ")[2] for machine in both)
    by_class = ", ".join(f"{count} at *{level}*" for level, count in plans.most_common())
    return (
        f"Of {len(machines)} files, {with_gpus} have GPUs, and {len(both)} have GPUs and a NIC with RDMA. "
        f"In {every} of these {len(both)}, every GPU shares a\nswitch with such a NIC; "
        f"in {len(both) - every - none} some GPUs do; in {none} none does.\n"
        f"The links of a hand-off begin at the nearest class that has two GPUs:\n{by_class}."
    )


def main() -> int:
    """Exit code 1 if the page, or a topology read by hand, differs from the code's result."""
    folder, *options = sys.argv[1:]
    wrong = differences(Path(folder))
    if wrong:
        print("\n".join(wrong))
        return 1
    print(f"{len(BY_HAND)} files are as they were read by hand")
    machines = machines_in(Path(folder))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = {TABLE: table(machines), PAGE: f"{before}{BEGIN}{summary(machines)}\n{END}{after}"}
    for path, text in wanted.items():
        if "--write" in options:
            path.write_text(text)
        elif path.read_text() != text:
            print(f"{path.name} differs from the files: python -m tests.cluster.survey {folder} --write")
            return 1
    print(wanted[TABLE])
    return 0


if __name__ == "__main__":
    sys.exit(main())
