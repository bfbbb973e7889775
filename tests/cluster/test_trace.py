"""Jobs on the nodes of a trace: the guarantees of each policy, on small nodes; files that are not traces."""

from pathlib import Path

import pytest

from fanin_cluster.placement.choice import Job
from fanin_cluster.placement.trace import Policy, TraceInvalid, draw_jobs, main, place, read_column

NODES = [8, 8, 4, 2, 1]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n,1,1,{gpus},T4\n" for gpus in NODES))
    rows = [(1, 1000), (1, 460), (0, 0), (2, 1000), (8, 1000)]
    pods.write_text("name,num_gpu,gpu_milli\n" + "".join(f"p,{gpus},{part}\n" for gpus, part in rows))
    return nodes, pods


def test_a_trace_is_read(files: tuple[Path, Path]) -> None:
    nodes, pods = files
    assert read_column(nodes, "gpu") == NODES
    assert read_column(pods, "num_gpu", whole=True) == [1, 2, 8], "one pod shares its GPU, one has none"


def test_the_program(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("sys.argv", ["trace", *map(str, files)])
    assert main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("23 GPUs on 5 nodes")
    assert [line.split(" | ")[0] for line in lines[4:]] == [f"| {policy}" for policy in Policy]
    monkeypatch.setattr("sys.argv", ["trace", str(files[1]), str(files[0])])
    assert main() == 2
    assert "has no column gpu of numbers" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "gpu\nmany\n", "gpu\n-1\n4\n", "gpu\n0\n", "sn\nnode\n"])
def test_files_that_are_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(text)
    with pytest.raises(TraceInvalid, match=str(path)):
        read_column(path, "gpu")


def test_pairs_are_aligned_and_of_one_subnet() -> None:
    jobs = draw_jobs([1, 1, 2, 4], 2 * sum(NODES), seed=3)
    assert sum(job.workers * job.gpus for job in jobs) >= 2 * sum(NODES)
    found = place(NODES, jobs, Policy.PAIRS)
    assert found.aligned == found.workers > 0
    assert found.one_subnet == found.jobs
    assert found.gpus + found.free == found.all_gpus == sum(NODES)


def test_a_worker_of_eight() -> None:
    """It is larger than a class of four: of the policies of pairs only `PAIRS_LARGE` gives it a node."""
    eight = [Job(2, 8)]
    assert place(NODES, eight, Policy.PAIRS).jobs == 0
    large = place(NODES, eight, Policy.PAIRS_LARGE)
    assert (large.jobs, large.gpus, large.aligned, large.one_subnet) == (1, 16, 2, 0)
    assert place(NODES, [Job(3, 8)], Policy.PAIRS_LARGE).jobs == 0
    separate = place(NODES, eight, Policy.SEPARATE)
    assert (separate.jobs, separate.aligned) == (1, 0), "its only VF is near to half of its GPUs"
    assert place(NODES, eight, Policy.ONE_NUMA).jobs == 0


def test_a_job_is_placed_whole_or_not_at_all() -> None:
    """Also if the kubelet has already placed its first workers."""
    for policy in Policy:
        found = place([4], [Job(3, 2), Job(1, 1)], policy)
        assert (found.jobs, found.gpus, found.free) == (1, 1, 3), policy


def test_the_kubelet_refuses_what_one_numa_node_does_not_hold() -> None:
    """The scheduler sees three free GPUs of one node; two of each are on no NUMA node together."""
    jobs = [Job(1, 1), Job(1, 2), Job(1, 1)]
    assert place([4, 4], jobs, Policy.ONE_NUMA).aligned == 3
    assert place([2, 4], [Job(1, 2)], Policy.ONE_NUMA).jobs == 0, "the fuller node has one of each"
    assert place([2, 4], [Job(1, 2)], Policy.PAIRS).jobs == 1
