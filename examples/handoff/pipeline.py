"""A model in two stages on two servers: every GPU of the second gets the first stage's activations, in one copy.

    fanin fabric up --name pipeline --nodes 4 --direct
    python examples/handoff/pipeline.py pipeline

`server.xml` describes each server: four GPUs and two NICs, which the four devices of the fabric represent. The first
stage is a process. The second is one process for each GPU, with a fourth of the second layer's columns, so each needs
all activations. A GPU is a process with its memory here.
"""

from __future__ import annotations

import multiprocessing
import queue
import secrets
import sys
from pathlib import Path

import numpy as np

from fanin import Job
from fanin_cluster.handoff.broadcast import Streams, jobs_of
from fanin_cluster.handoff.plan import Plan, plan_handoff
from fanin_cluster.handoff.stage import Stage
from fanin_cluster.topology.reading import read_machine
from fanin_tools.fabric import lifecycle

MICRO_BATCHES, ROWS, WIDTH, CLASSES = 8, 256, 512, 16
WAIT_SECONDS = 60  # for a result
CAPACITY = ROWS * WIDTH * 4  # bytes of the longest message


def weights() -> tuple[np.ndarray, np.ndarray]:
    """Of both layers: shapes (WIDTH, WIDTH) and (WIDTH, CLASSES)."""
    chance = np.random.default_rng(0)
    return chance.standard_normal((WIDTH, WIDTH), np.float32), chance.standard_normal((WIDTH, CLASSES), np.float32)


def micro_batch(number: int) -> np.ndarray:
    """Inputs of shape (ROWS, WIDTH)."""
    return np.random.default_rng(1 + number).standard_normal((ROWS, WIDTH), np.float32)


def activations(number: int) -> np.ndarray:
    return np.maximum(micro_batch(number) @ weights()[0], 0)


def first_stage(plan: Plan, jobs: list[Job], devices: dict[str, str]) -> None:
    """Compute on the first server, and hand off."""
    gpus = [link.first for link in plan.links]
    with Streams(plan, jobs, devices, first_gpus=gpus) as streams:
        stage = Stage(streams, CAPACITY)
        for number in range(MICRO_BATCHES):
            stage.send(activations(number))


def second_stage(
    plan: Plan, jobs: list[Job], devices: dict[str, str], gpu: int, results: multiprocessing.Queue
) -> None:
    """On the second server, for each GPU: receive, and compute its columns of the result."""
    gpus = len(plan.second_gpus)
    mine = np.array_split(weights()[1], gpus, axis=1)[gpu]
    with Streams(plan, jobs, devices, second_gpu=gpu) as streams:
        stage = Stage(streams, CAPACITY)
        for number in range(MICRO_BATCHES):
            (received,) = stage.recv()
            results.put((number, gpu, received @ mine))


def main() -> None:
    """Start the processes, as a launcher does on both servers, and compare their results with those of one process."""
    name = sys.argv[1] if len(sys.argv) == 2 else "pipeline"
    fabric = lifecycle.find(name)
    if fabric is None or len(fabric.fabric.nics) != 4:
        raise SystemExit(f"no fabric {name} of four devices is up; fanin fabric up --name {name} --nodes 4 --direct")
    server = read_machine(Path(__file__).with_name("server.xml"))
    plan = plan_handoff(CAPACITY, server, server)
    names = [nic.name for nic in server.rdma_nics]
    first, second = fabric.fabric.nics[:2], fabric.fabric.nics[2:]
    addresses = [{name: nic.address for name, nic in zip(names, nics, strict=True)} for nics in (first, second)]
    sockets = [
        {name: str(fabric.state.socket(nic.name)) for name, nic in zip(names, nics, strict=True)}
        for nics in (first, second)
    ]
    jid = 1 + secrets.randbelow(2**32 - 1 - len(plan.links))
    jobs = list(jobs_of(plan, addresses[0], addresses[1], jid, secrets.randbits(32)))

    processes = multiprocessing.get_context("spawn")
    results = processes.Queue()
    gpus = range(len(plan.second_gpus))
    stages = [processes.Process(target=first_stage, args=(plan, jobs, sockets[0]), daemon=True)]
    stages += [
        processes.Process(target=second_stage, args=(plan, jobs, sockets[1], gpu, results), daemon=True) for gpu in gpus
    ]
    for stage in stages:
        stage.start()
    parts = {}
    try:
        for _ in range(MICRO_BATCHES * len(gpus)):
            number, gpu, part = results.get(timeout=WAIT_SECONDS)
            parts[number, gpu] = part
    except queue.Empty:
        codes = [stage.exitcode for stage in stages]
        raise SystemExit(f"no result within {WAIT_SECONDS} s; exit codes of the processes: {codes}") from None
    for stage in stages:
        stage.join()
    if any(stage.exitcode for stage in stages):
        raise SystemExit(f"exit codes of the processes: {[stage.exitcode for stage in stages]}")

    for number in range(MICRO_BATCHES):
        result = np.concatenate([parts[number, gpu] for gpu in gpus], axis=1)
        whole = activations(number) @ weights()[1]
        assert np.allclose(result, whole, rtol=1e-3, atol=1e-2), f"micro-batch {number} differs"
        print(f"micro-batch {number}: {result.shape[0]} x {result.shape[1]} as on one server")
    print(f"{len(plan.links)} links, {len(gpus)} GPUs, {CAPACITY} bytes of activations in each micro-batch")


if __name__ == "__main__":
    main()
